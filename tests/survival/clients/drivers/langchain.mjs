// @langchain/mcp-adapters: the content of the ToolMessage that a tool makes.
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { serve } from "./driver.mjs";

await serve(async (target) => {
  const { command, args, env, url } = target;
  const server = url ? { transport: "http", url } : { transport: "stdio", command, args, env };
  const client = new MultiServerMCPClient({ mcpServers: { leafgate: server } });
  const tools = new Map((await client.getTools()).map((tool) => [tool.name, tool]));
  return {
    names: [...tools.keys()],
    call: async (name, args) => {
      const message = await tools.get(name).invoke({ type: "tool_call", id: "1", name, args });
      return message.text ?? message.content;
    },
    close: () => client.close(),
  };
});
