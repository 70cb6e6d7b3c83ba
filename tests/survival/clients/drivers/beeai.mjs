// beeai-framework: the text content of the output of an MCPTool.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { MCPTool } from "beeai-framework/tools/mcp";
import { serve } from "./driver.mjs";

await serve(async (target) => {
  const client = new Client({ name: "matrix", version: "1" });
  await client.connect(
    target.url ? new StreamableHTTPClientTransport(new URL(target.url)) : new StdioClientTransport(target),
  );
  const tools = new Map((await MCPTool.fromClient(client)).map((tool) => [tool.name, tool]));
  return {
    names: [...tools.keys()],
    call: async (name, args) => (await tools.get(name).run(args)).getTextContent(),
    close: () => client.close(),
  };
});
