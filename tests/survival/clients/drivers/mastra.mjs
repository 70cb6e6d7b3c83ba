// @mastra/mcp: the model output of a tool if it makes one, else what it returns, as JSON.
import { MCPClient } from "@mastra/mcp";
import { serve } from "./driver.mjs";

let number = 0;

await serve(async (target) => {
  const { command, args, env } = target;
  const server = target.url ? { url: new URL(target.url) } : { command, args, env };
  const client = new MCPClient({ id: `matrix-${++number}`, servers: { leafgate: server } });
  const tools = await client.listTools();
  return {
    names: Object.keys(tools),
    call: async (name, input) => {
      const output = await tools[name].execute(input, {});
      return tools[name].toModelOutput ? tools[name].toModelOutput(output).value : output;
    },
    close: () => client.disconnect(),
  };
});
