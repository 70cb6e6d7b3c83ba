// In: a gateway's URL and a call as JSON, as arguments. Out: one JSON object: what the package's client gives its caller, and
// the payload as it came.
import { makeMetaTokenizer } from "../../typescript/dist/src/index.js";
import { connect } from "../../typescript/dist/src/client.js";

const [url, call] = process.argv.slice(2);
const { tool, text, map, ...options } = JSON.parse(call);
const tokenizer = await makeMetaTokenizer({ mapUrl: map });
const client = await connect({ url, tokenizer, ...options });
const { texts, ids, result } = await client.callTool(tool, { text });
const [block] = result.content;
const sent = block._meta["ai.codec/leaf-tokenization"].ids;
const { codec } = result._meta["leafgate/envelope"].provenance;
const { speaksFrames } = client;
await client.close();
console.log(JSON.stringify({ texts, ids, speaksFrames, codec, sent: { text: block.text, ids: sent } }));
