// Loads the map at a URL with the TypeScript package, as a tool's author would, and prints the ids of a text.
// In: the URL, the digest, a text, and a folder for the package's cache. Out: one JSON line: {ids} or {error, message}.
import { makeMetaTokenizer } from "../../typescript/dist/src/index.js";

const [mapUrl, mapHash, text, cacheDir] = process.argv.slice(2);
try {
  const tokenizer = await makeMetaTokenizer({ mapUrl, mapHash, cacheDir });
  console.log(JSON.stringify({ ids: tokenizer.encode(text) }));
} catch (error) {
  console.log(JSON.stringify({ error: error.constructor.name, message: error.message }));
}
