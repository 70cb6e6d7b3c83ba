/**
 * Checks a map on the corpus of texts of `maps/corpus.json.gz`, and compares its ids with those of the original engine.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import { MapInvalidError, TextError } from "./errors.js";
import { isRecord } from "./leaf.js";
import { quote } from "./quoting.js";
import type { MapTokenizer } from "./tokenizer.js";
import { TokenizerJson } from "./tokenizer-files.js";

const SHOWN = 60;

/** An engine by name, and its encoding of ordinary text. */
export interface Original {
  name: string;
  encode(text: string): Promise<number[]>;
}

export interface Comparison {
  against: string;
  texts: number;
  /** Texts that the map has no tokenization for. */
  without_ids: number;
  differences: number;
  first_difference: string | null;
}

/** Says how many texts have ids that are accepted as theirs. */
export function checkCorpus(tokenizer: MapTokenizer, texts: readonly string[]): string {
  let accepted = 0;
  let withoutIds = 0;
  for (const text of texts) {
    const ids = idsOrNull(tokenizer, text);
    if (ids === null) withoutIds++;
    else if (tokenizer.check(text, ids).verdict === "accept") accepted++;
  }
  const checked = `the ids of ${accepted} of ${texts.length} texts decode to them`;
  return withoutIds === 0 ? checked : `${checked}; ${withoutIds} texts have no tokenization`;
}

/** Compares the ids of every text. */
export async function compare(
  tokenizer: MapTokenizer,
  original: Original,
  texts: readonly string[],
): Promise<Comparison> {
  const counts = { texts: 0, without_ids: 0, differences: 0 };
  let first: string | null = null;
  for (const text of texts) {
    const ours = idsOrNull(tokenizer, text);
    if (ours === null) {
      counts.without_ids++;
      continue;
    }
    counts.texts++;
    const theirs = await original.encode(text);
    if (ours.length === theirs.length && ours.every((id, at) => id === theirs[at])) continue;
    counts.differences++;
    first ??= describeDifference(tokenizer, text, ours, theirs);
  }
  return { against: original.name, ...counts, first_difference: first };
}

/** Says in words where two lists of ids for a text part. */
export function describeDifference(
  tokenizer: MapTokenizer,
  text: string,
  ours: readonly number[],
  theirs: readonly number[],
): string {
  const shorter = Math.min(ours.length, theirs.length);
  let at = 0;
  while (at < shorter && ours[at] === theirs[at]) at++;
  const chars = Array.from(text);
  const more = chars.length - SHOWN;
  const shown = more <= 0 ? quote(text) : `${quote(chars.slice(0, SHOWN).join(""))} and ${more} more characters`;
  const begun = Array.from(tokenizer.decodeStart(ours.slice(0, at))).length;
  const spell = (ids: readonly number[]) =>
    ids
      .slice(at, at + 4)
      .map((id) => spellToken(tokenizer, id))
      .join(", ") || "no more";
  return `in the text ${shown}, at token ${at} (character ${begun}): the map gives ${spell(ours)}, the original ${spell(theirs)}`;
}

function spellToken(tokenizer: MapTokenizer, id: number): string {
  const bytes = tokenizer.bytesOf(id);
  return bytes === null ? String(id) : `${id} ${quote(decodeVisibly(bytes))}`;
}

/** The text of some bytes; those that are not UTF-8 are written as `\xe4`. */
function decodeVisibly(bytes: Uint8Array): string {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let out = "";
  for (let at = 0; at < bytes.length; ) {
    const width = [1, 2, 3, 4].find((size) => {
      try {
        return at + size <= bytes.length && decoder.decode(bytes.subarray(at, at + size)) !== "";
      } catch {
        return false;
      }
    });
    out +=
      width === undefined
        ? `\\x${bytes[at]!.toString(16).padStart(2, "0")}`
        : decoder.decode(bytes.subarray(at, at + width));
    at += width ?? 1;
  }
  return out;
}

function idsOrNull(tokenizer: MapTokenizer, text: string): number[] | null {
  try {
    return tokenizer.encode(text);
  } catch (error) {
    if (error instanceof TextError) return null;
    throw error;
  }
}

/**
 * The engine of a tokenizer's file, which is npm `tokenizers` for a tokenizer.json. It is not a dependency; an error says
 * what is needed.
 */
export async function openOriginal(raw: Uint8Array, where: string): Promise<Original> {
  const document = parseOrNull(raw);
  if (document === null || !Object.hasOwn(document, "model"))
    throw new Error(
      `comparing with ${where} needs the engines of Python: leafgate maps check MAP --against ${where}; ` +
        "Node compares with a tokenizer.json",
    );
  const { Tokenizer, version } = await loadEngine();
  const reading = new TokenizerJson(document, where);
  const vocab = isRecord(reading.model.vocab) ? reading.model.vocab : {};
  const { specials } = reading.addedTokens(new Map(Object.entries(vocab as Record<string, number>)));
  const rows = ((document.added_tokens ?? []) as Array<{ content: string }>).filter(
    (row) => !specials.has(row.content),
  );
  // Tool text is ordinary text: the engine gets no special tokens.
  const ordinary = JSON.stringify({ ...document, added_tokens: rows, post_processor: null });
  let tokenizer: InstanceType<Engine["Tokenizer"]>;
  try {
    tokenizer = Tokenizer.fromString(ordinary);
  } catch (error) {
    throw new MapInvalidError(`${where}: ${error instanceof Error ? error.message : error}`);
  }
  return {
    name: `tokenizers ${version} (${where})`,
    encode: async (text) => (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds(),
  };
}

type Engine = typeof import("tokenizers");

/** That of the folder in which the command runs, or that beside this package. */
async function loadEngine(): Promise<Engine & { version: string }> {
  for (const place of [join(process.cwd(), "package.json"), import.meta.url]) {
    const require = createRequire(place);
    try {
      const engine = require("tokenizers") as Engine;
      const { version } = require("tokenizers/package.json") as { version: string };
      return { ...engine, version };
    } catch {}
  }
  throw new Error("comparing with a tokenizer.json needs npm tokenizers: npm install --no-save tokenizers");
}

function parseOrNull(raw: Uint8Array): Record<string, unknown> | null {
  try {
    const document: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(raw));
    return isRecord(document) ? document : null;
  } catch {
    return null;
  }
}
