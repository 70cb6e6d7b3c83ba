/**
 * The ids digest: maps that give the same ids for ordinary text have the same one (spec 5.10). It covers tokens, ids, the
 * order of joining, splitting, added tokens and the prefix; not names, special tokens and the normalizer.
 */
import type { MapDocument } from "./map-document.js";
import { GPT2_SPELLING, PATTERNS } from "./pattern-families.js";
import { digestOf } from "./tokenizer.js";

type ByteLevel = MapDocument["encoding"] & { kind: "byte_level" };
type Metaspace = MapDocument["encoding"] & { kind: "metaspace" };

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** `sha256:` and the digest of everything that decides the ids of ordinary text. */
export function idsDigest({ encoding, addedTokens }: MapDocument): Promise<string> {
  const lines = ["ids 1"];
  if (encoding.kind === "byte_level") {
    lines.push("byte_level");
    const stages = "pattern" in encoding.split ? [encoding.split.pattern] : encoding.split.stages;
    // This pattern splits every text as the other one does.
    for (const stage of stages) lines.push(`split ${hexOf(stage === GPT2_SPELLING ? PATTERNS.gpt2 : stage)}`);
  } else lines.push(`metaspace ${encoding.hasPrefix ? "always" : "never"} ${encoding.fallbackStart}`);
  const added = [...addedTokens].sort(([, a], [, b]) => a - b);
  for (const [token, id] of added) lines.push(`added ${hexOf(token)} ${id}`);
  for (const line of encoding.kind === "byte_level" ? joinedLines(encoding) : pieceLines(encoding)) lines.push(line);
  return digestOf(new TextEncoder().encode(`${lines.join("\n")}\n`));
}

function* joinedLines({ bytes, bounds, ids, joinable }: ByteLevel): Generator<string> {
  const line = (row: number) => `token ${hex(bytes.subarray(bounds[row], bounds[row + 1]))} ${ids[row]}`;
  const rowOfByte = new Array<number>(256);
  for (let row = 0; row < ids.length; row++)
    if (bounds[row + 1]! - bounds[row]! === 1) rowOfByte[bytes[bounds[row]!]!] = row;
  // No merge makes a byte: with merges, bytes are not among the tokens that are joined, and come first.
  if (rowOfByte.every((row) => row >= joinable)) for (const row of rowOfByte) yield line(row);
  for (let row = 0; row < joinable; row++) yield line(row);
}

function* pieceLines({ tokens, ids, joinable, merges }: Metaspace): Generator<string> {
  for (let row = 0; row < joinable; row++) yield `token ${hexOf(tokens[row]!)} ${ids[row]}`;
  for (const [left, right] of merges ?? []) yield `merge ${hexOf(left)} ${hexOf(right)}`;
}

function hexOf(text: string): string {
  return hex(new TextEncoder().encode(text));
}

function hex(bytes: Uint8Array): string {
  let out = "";
  for (const byte of bytes) out += HEX[byte];
  return out;
}
