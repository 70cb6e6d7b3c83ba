// In: a file of texts by name (JSON) and the form `leaf`, `wish` or `plain`, as arguments; MCP on standard input. Out:
// MCP on standard output: one tool, `text`, which returns the text of a name; in the form `leaf` with an array of ids, in
// the form `wish` with what the call asks for. Touches that file and the map. It stands on the built package and the SDK,
// as the servers of its users do.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Bare names would be looked for beside this file; the packages are beside the TypeScript package.
const require = createRequire(new URL("../../typescript/package.json", import.meta.url));
const load = (name) => import(pathToFileURL(require.resolve(name)));

const { makeMetaTokenizer, wrapServer, wrapToolCall } = await import("../../typescript/dist/src/index.js");
const { Server } = await load("@modelcontextprotocol/sdk/server/index.js");
const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
const { CallToolRequestSchema, ListToolsRequestSchema } = await load("@modelcontextprotocol/sdk/types.js");

const [file, form, map] = process.argv.slice(2);
const texts = new Map(Object.entries(JSON.parse(readFileSync(file, "utf8"))));
const meta = form === "plain" ? null : await makeMetaTokenizer({ mapUrl: map });
const options = { maxTextLength: 1 << 21 };

const TOOL = {
  name: "text",
  description: "The text of this name.",
  inputSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
};

const server = new Server({ name: `bench-${form}`, version: "1" }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [TOOL] }));
server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
  const text = texts.get(params.arguments?.name);
  if (text === undefined) return { content: [{ type: "text", text: "there is no such text" }], isError: true };
  const result = { content: [{ type: "text", text }] };
  return form === "leaf" ? wrapToolCall(result, meta, options) : result;
});
if (form === "wish") wrapServer(server, meta, options);
process.stdin.once("end", () => void server.close());
await server.connect(new StdioServerTransport());
