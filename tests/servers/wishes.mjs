// In: the maps to load and a file to append to, as arguments; MCP on standard input. Out: MCP on standard output: one tool,
// `echo`, whose results get the ids that a call asks for. Each call's `ai.codec/accept` is appended to the file.
import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../../typescript/package.json", import.meta.url));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { makeMetaTokenizer, wrapServer } = await import("../../typescript/dist/src/index.js");
const { Server } = await load("@modelcontextprotocol/sdk/server/index.js");
const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
const { CallToolRequestSchema, ListToolsRequestSchema } = await load("@modelcontextprotocol/sdk/types.js");

const [maps, file] = process.argv.slice(2);
const metas = await Promise.all(maps.split(",").map((mapUrl) => makeMetaTokenizer({ mapUrl })));
const server = new Server({ name: "wishes", version: "1" }, { capabilities: { tools: {} } });
const inputSchema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [{ name: "echo", inputSchema }] }));
server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
  appendFileSync(file, `${JSON.stringify(params._meta?.["ai.codec/accept"] ?? null)}\n`);
  return { content: [{ type: "text", text: params.arguments.text }] };
});
wrapServer(server, metas);
process.stdin.once("end", () => void server.close());
await server.connect(new StdioServerTransport());
