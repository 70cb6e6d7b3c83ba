// @modelcontextprotocol/client 2.x: the text blocks of a result.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
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
