// @llamaindex/tools: what a tool returns, as JSON.
import { mcp } from "@llamaindex/tools";
import { serve } from "./driver.mjs";

await serve(async (target) => {
  const { command, args, env, url } = target;
  const server = mcp(url ? { url, useSSETransport: false } : { command, args, env });
  const tools = new Map((await server.tools()).map((tool) => [tool.metadata.name, tool]));
  return {
    names: [...tools.keys()],
    call: (name, input) => tools.get(name).call(input),
    close: () => server.cleanup(),
  };
});
