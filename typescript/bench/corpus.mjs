// Text like that of tool results, of any size: sentences of the specification, records, a little code.
// The same seed gives the same text, so two runs measure the same thing.
import { readFileSync } from "node:fs";

const spec = readFileSync(new URL("../../spec/5-leaf-tokens.md", import.meta.url), "utf8");
const sentences = spec.split(/(?<=[.:])\s+|\n\n+/).filter((sentence) => sentence.length > 20);

export function makeText(bytes, seed) {
  const random = generator(seed);
  const parts = [];
  for (let length = 0; length < bytes; length += parts.at(-1).length) {
    parts.push(random() < 0.6 ? `${sentences[Math.floor(random() * sentences.length)]} ` : record(random));
  }
  return parts.join("").slice(0, bytes);
}

function record(random) {
  const number = (most) => Math.floor(random() * most);
  const id = number(2 ** 31).toString(36);
  const at = new Date(1.7e12 + number(1e11)).toISOString();
  return `${JSON.stringify({ id, at, ok: random() < 0.9, size: number(1e6), path: `/var/log/${id}.log`, tags: ["run", id] })}\n`;
}

/** Mulberry32: small, seeded, good enough to shuffle sentences. */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
