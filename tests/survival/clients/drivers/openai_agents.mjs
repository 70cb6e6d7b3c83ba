// @openai/agents: what the function tool made of a tool returns.
import { getAllMcpTools, MCPServerStdio, MCPServerStreamableHttp, RunContext } from "@openai/agents";
import { serve } from "./driver.mjs";

await serve(async (target) => {
  const { command, args, env, url } = target;
  const patience = { clientSessionTimeoutSeconds: 30 }; // the default of 5 s is short for a start on a busy machine
  const server = url
    ? new MCPServerStreamableHttp({ url, ...patience })
    : new MCPServerStdio({ command, args, env, ...patience });
  await server.connect();
  const tools = new Map((await getAllMcpTools([server])).map((tool) => [tool.name, tool]));
  return {
    names: [...tools.keys()],
    call: async (name, input) => {
      const output = await tools.get(name).invoke(new RunContext(), JSON.stringify(input));
      const blocks = Array.isArray(output) ? output : [output];
      return blocks.map((block) => block?.text ?? block).join("\n");
    },
    close: () => server.close(),
  };
});
