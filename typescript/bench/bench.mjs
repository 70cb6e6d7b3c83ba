// Measures bundled maps, all or those named by their ids. Prints one JSON line per measurement.
// The figure is the best of several rounds: on a shared machine the others measure the neighbours. Each round encodes
// texts that no tokenizer has seen before, so that no cache of pieces knows them.

import { readFileSync } from "node:fs";
import { makeMetaTokenizer } from "../dist/src/index.js";
import { bundledMaps, findBundledMap } from "../dist/src/map.js";
import { makeText } from "./corpus.mjs";
import { loadHuggingFace } from "./hugging-face.mjs";

const SIZES = { "1KB": 1 << 10, "32KB": 1 << 15, "1MB": 1 << 20 };
const ROUNDS = 7;
const ROUND_MS = 60;
const FRESH_BYTES = 1 << 20;

async function measure(run) {
  await run(0);
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    let count = 0;
    let spent = 0;
    do {
      // Only what answers later is waited for: a pause per call would be charged to those who need none.
      const answer = run(count++);
      if (answer instanceof Promise) await answer;
      spent = performance.now() - start;
    } while (spent < ROUND_MS);
    best = Math.min(best, spent / count);
  }
  return best;
}

/** The time for one text of this size, over texts that `encode` has not seen. */
async function measureFirst(bytes, encode) {
  const count = Math.max(1, Math.round(FRESH_BYTES / bytes));
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round <= ROUNDS; round++) {
    const texts = Array.from({ length: count }, (_, i) => makeText(bytes, bytes + 1000 * (round + 1) + i));
    const start = performance.now();
    for (const text of texts) {
      const answer = encode(text);
      if (answer instanceof Promise) await answer;
    }
    // The first round is for the compiler.
    if (round > 0) best = Math.min(best, (performance.now() - start) / count);
  }
  return best;
}

function report(op, map, size, bytes, ms) {
  console.log(JSON.stringify({ op, map, size, us: round(ms * 1000), mbps: round(bytes / 1e6 / (ms / 1000)) }));
}

function round(value) {
  return Number(value.toPrecision(3));
}

async function benchMap(id) {
  const { path, sha256 } = findBundledMap(id);
  const started = performance.now();
  const own = await makeMetaTokenizer({ mapUrl: id });
  console.log(JSON.stringify({ op: "load", map: id, us: round((performance.now() - started) * 1000) }));
  const other = await loadHuggingFace(JSON.parse(readFileSync(path, "utf8")));
  if (other.reason !== undefined)
    console.log(JSON.stringify({ op: "encode-npm-tokenizers", map: id, skipped: other.reason }));
  for (const [size, bytes] of Object.entries(SIZES)) {
    // Several texts in turn, so that no one's caches learn a single text by heart.
    const texts = Array.from({ length: bytes > 1e5 ? 2 : 16 }, (_, seed) => makeText(bytes, seed));
    const ids = texts.map((text) => own.encode(text));
    const pick = (list, i) => list[i % list.length];
    const total = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0) / texts.length;
    const check = (level) => (i) => {
      const verdict = own.check(pick(texts, i), pick(ids, i), { level, mapId: sha256 });
      if (verdict.reason !== null) throw new Error(`wrongly rejected: ${verdict.reason}`);
    };
    report("encode", id, size, total, await measureFirst(bytes, (text) => own.encode(text)));
    report("verify-decode", id, size, total, await measure(check("decode")));
    report("verify-canonical", id, size, total, await measure(check("canonical")));
    if (other.tokenizer === undefined) continue;
    const theirs = (await other.tokenizer.encode(texts[0])).getIds();
    if (theirs.join() !== ids[0].join())
      console.log(JSON.stringify({ op: "encode-npm-tokenizers", map: id, size, differs: true }));
    const encode = async (text) => (await other.tokenizer.encode(text)).getIds();
    report("encode-npm-tokenizers", id, size, total, await measureFirst(bytes, encode));
  }
}

/** Texts that are one piece for the pattern, or nearly: they must not cost much more than prose of their length. */
async function benchRuns(id) {
  const own = await makeMetaTokenizer({ mapUrl: id });
  const runs = { letter: "a", spaces: " ", digits: "7", newlines: "\n", cjk: "\u4e2d", emoji: "\u{1f600}" };
  for (const [name, unit] of Object.entries(runs)) {
    const text = unit.repeat((1 << 20) / Buffer.byteLength(unit));
    report(`encode-run-${name}`, id, "1MB", 1 << 20, await measure(() => own.encode(text)));
  }
}

const ids =
  process.argv.length > 2
    ? process.argv.slice(2)
    : bundledMaps()
        .map(({ id }) => id)
        .filter((id) => !id.startsWith("toy"));
for (const id of ids) {
  await benchMap(id);
  await benchRuns(id);
}
