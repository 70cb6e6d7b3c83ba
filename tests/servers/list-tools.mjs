// Lists the tools of a gateway as clients of the TypeScript SDK do. In: its URL as argument. Out: their names.
import { Client } from "../../typescript/node_modules/@modelcontextprotocol/sdk/dist/esm/client/index.js";
import { StreamableHTTPClientTransport } from "../../typescript/node_modules/@modelcontextprotocol/sdk/dist/esm/client/streamableHttp.js";

const client = new Client({ name: "test", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const names = [];
let cursor;
do {
  const page = await client.listTools(cursor === undefined ? undefined : { cursor });
  names.push(...page.tools.map((tool) => tool.name));
  cursor = page.nextCursor;
} while (cursor !== undefined);
const { resources } = await client.listResources();
console.log(JSON.stringify({ tools: names, resources: resources.length }));
await client.close();
