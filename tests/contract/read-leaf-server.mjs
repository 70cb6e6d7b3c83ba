// Reads leaves of an MCP server with the Node library. In: {"command", "args", "map", "texts"} on standard input.
// Out: {"entries", "verdicts", "result"} of calling the server's `echo` with these texts.
import { readFileSync } from "node:fs";
import { makeMetaTokenizer, readCodecMeta, verifyCodecMeta } from "../../typescript/dist/src/index.js";
import { Client } from "../../typescript/node_modules/@modelcontextprotocol/sdk/dist/esm/client/index.js";
import { StdioClientTransport } from "../../typescript/node_modules/@modelcontextprotocol/sdk/dist/esm/client/stdio.js";

const { command, args, map, texts } = JSON.parse(readFileSync(0, "utf8"));
const client = new Client({ name: "contract", version: "1" });
await client.connect(new StdioClientTransport({ command, args }));
const result = await client.callTool({ name: "echo", arguments: { texts } });
await client.close();
const tokenizer = await makeMetaTokenizer({ mapUrl: map });
const entries = readCodecMeta(result, { expectedMapHash: tokenizer.mapId });
const verdicts = verifyCodecMeta(result, tokenizer, { level: "canonical" });
console.log(JSON.stringify({ entries, verdicts, result }));
