// @genkit-ai/mcp: what a tool action returns, as JSON.
import { createMcpHost } from "@genkit-ai/mcp";
import { genkit } from "genkit";
import { serve } from "./driver.mjs";

await serve(async (target) => {
  const { command, args, env, url } = target;
  const ai = genkit({});
  const host = createMcpHost({ name: "matrix", mcpServers: { leafgate: url ? { url } : { command, args, env } } });
  await host.ready();
  const tools = new Map((await host.getActiveTools(ai)).map((tool) => [tool.__action.name, tool]));
  return {
    names: [...tools.keys()],
    call: (name, input) => tools.get(name)(input),
    close: () => host.close(),
  };
});
