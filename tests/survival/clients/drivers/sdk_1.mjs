// @modelcontextprotocol/sdk 1.x: the text blocks of a result.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { serve } from "./driver.mjs";

await serve(async (target) => {
  const client = new Client({ name: "matrix", version: "1" });
  await client.connect(
    target.url ? new StreamableHTTPClientTransport(new URL(target.url)) : new StdioClientTransport(target),
  );
  const { tools } = await client.listTools();
  return {
    names: tools.map((tool) => tool.name),
    call: async (name, args) => {
      const { content } = await client.callTool({ name, arguments: args });
      return content.filter((block) => block.type === "text").map((block) => block.text).join("\n");
    },
    close: () => client.close(),
  };
});
