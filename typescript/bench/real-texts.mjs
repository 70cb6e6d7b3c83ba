// Measures bundled maps on real texts that the tokenizer sees for the first time: this repository's documents and sources,
// and those of the packages in node_modules. Each file is encoded once; files of the other kind come first, for the
// compiler. Prints one JSON line per map and kind of text: MB/s here and of npm `tokenizers`, and how many times as fast.
// For one core, and a new process for each map: for map in qwen/qwen2 …; do taskset -c 1 node bench/real-texts.mjs $map
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeMetaTokenizer } from "../dist/src/index.js";
import { findBundledMap } from "../dist/src/map.js";
import { loadHuggingFace } from "./hugging-face.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PACKAGES = join(ROOT, "typescript/node_modules");
const LEAST = 2_000;
const MOST = 100_000;
const TOTAL = 1.5e6;
const KINDS = {
  documents: [
    ...textsIn(join(ROOT, "docs"), ".md"),
    ...textsIn(join(ROOT, "spec"), ".md"),
    ...textsIn(PACKAGES, ".md"),
  ],
  python: textsIn(join(ROOT, "python/src"), ".py"),
  javascript: textsIn(PACKAGES, ".js"),
};

/** Different texts of this length in files of this kind, in the order of their names, up to TOTAL bytes. */
function textsIn(folder, ending) {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending))
    .map((entry) => join(entry.parentPath, entry.name));
  const found = new Set();
  let bytes = 0;
  for (const name of names.sort()) {
    const text = readFileSync(name, "utf8");
    if (text.length < LEAST || text.length > MOST || found.has(text) || bytes > TOTAL) continue;
    found.add(text);
    bytes += Buffer.byteLength(text);
  }
  return [...found];
}

async function secondsFor(texts, encode) {
  const start = performance.now();
  for (const text of texts) {
    const answer = encode(text);
    if (answer instanceof Promise) await answer;
  }
  return (performance.now() - start) / 1000;
}

/** MB/s on texts of one kind, after texts of another. */
async function speedOn(kind, encode) {
  await secondsFor(KINDS[kind === "python" ? "documents" : "python"], encode);
  const bytes = KINDS[kind].reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return { bytes, mbps: bytes / 1e6 / (await secondsFor(KINDS[kind], encode)) };
}

const round = (value) => Number(value.toPrecision(3));
const [id = "openai/cl100k_base"] = process.argv.slice(2);
for (const kind of Object.keys(KINDS)) {
  // A new tokenizer for each kind: it has cached no piece of these texts.
  const own = await makeMetaTokenizer({ mapUrl: id, cache: false });
  const { tokenizer } = await loadHuggingFace(JSON.parse(readFileSync(findBundledMap(id).path, "utf8")));
  const here = await speedOn(kind, (text) => own.encode(text));
  const there = await speedOn(kind, async (text) => (await tokenizer.encode(text)).getIds());
  const speeds = { mbps: round(here.mbps), tokenizers: round(there.mbps), times: round(here.mbps / there.mbps) };
  console.log(JSON.stringify({ map: id, kind, bytes: here.bytes, ...speeds }));
}
