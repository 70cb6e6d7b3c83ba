// ai and @ai-sdk/mcp: the model output that a tool makes of its result.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioMCPTransport } from "@ai-sdk/mcp/mcp-stdio";
import { serve } from "./driver.mjs";

await serve(async (target) => {
  const transport = target.url ? { type: "http", url: target.url } : new StdioMCPTransport(target);
  const client = await createMCPClient({ transport });
  const tools = await client.tools();
  return {
    names: Object.keys(tools),
    call: async (name, args) => {
      const output = await tools[name].execute(args, { toolCallId: "1", messages: [] });
      const shown = tools[name].toModelOutput?.({ toolCallId: "1", input: args, output });
      if (shown === undefined) return JSON.stringify(output);
      if (shown.type === "content") return shown.value.map((part) => part.text ?? JSON.stringify(part)).join("\n");
      return typeof shown.value === "string" ? shown.value : JSON.stringify(shown.value);
    },
    close: () => client.close(),
  };
});
