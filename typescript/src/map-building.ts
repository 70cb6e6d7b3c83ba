/**
 * Builds maps: the parts that a tokenizer's file gives become the bytes of a map (spec 5.9). The same parts give the same
 * bytes, in both languages, and so the same digest. Readers of files are in `tokenizer-files`.
 */
import { MapInvalidError, TextError } from "./errors.js";
import { familyScanner } from "./pattern-families.js";
import { compileMatcher } from "./pattern-matcher.js";
import { parsePattern } from "./pattern-syntax.js";
import type { Normalizer } from "./text-preparation.js";

export type Pair = readonly [string, string];
export type Ids = ReadonlyMap<string, number>;

/**
 * The parts of a map. `vocab` has the ordinary tokens, spelled as in map files; `merges` is empty if every id is its
 * token's rank; `patterns` are the stages of splitting, which keep what they do not match if `keepsGaps`.
 */
export interface MapParts {
  kind: "byte_level" | "metaspace";
  vocab: Ids;
  specials: Ids;
  merges: readonly string[];
  patterns: readonly string[];
  normalizer: Normalizer | null;
  added: readonly string[];
  keepsGaps: boolean;
  hasPrefix: boolean;
  fallbackStart: number | null;
  notes: readonly string[];
}

const DEFAULTS = {
  merges: [],
  patterns: [],
  normalizer: null,
  added: [],
  keepsGaps: false,
  hasPrefix: true,
  fallbackStart: null,
  notes: [],
};

export function makeParts(parts: Pick<MapParts, "kind" | "vocab" | "specials"> & Partial<MapParts>): MapParts {
  return { ...DEFAULTS, ...parts };
}

export interface MapChoices {
  pattern?: string | undefined;
  specials?: Readonly<Record<string, number>> | undefined;
  /** In place of the source's own; `none` removes it. */
  normalizer?: Normalizer | "none" | undefined;
}

/** The parts with what the caller chose, which takes precedence. */
export function withChoices(parts: MapParts, { pattern, specials = {}, normalizer }: MapChoices): MapParts {
  const chosen = new Map(Object.entries(specials));
  const ids = new Set(chosen.values());
  const others = (map: Ids) => [...map].filter(([, id]) => !ids.has(id));
  const vocab = new Map(others(parts.vocab));
  return {
    ...parts,
    ...(pattern === undefined ? {} : { patterns: [pattern], keepsGaps: false }),
    ...(normalizer === undefined ? {} : { normalizer: normalizer === "none" ? null : normalizer }),
    vocab,
    specials: new Map([...others(parts.specials), ...chosen]),
    added: parts.added.filter((token) => vocab.has(token)),
  };
}

/** The GPT-2 alphabet: printable bytes stand for themselves, the others for U+0100 onwards. */
export const BYTE_ALPHABET: readonly string[] = byteAlphabet();
/** The names of the fallback bytes of metaspace. */
export const BYTE_NAMES: readonly string[] = Array.from(
  { length: 256 },
  (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`,
);

function byteAlphabet(): string[] {
  let standIn = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte < 0x7f) || (byte >= 0xa1 && byte < 0xad) || byte >= 0xae;
    return String.fromCharCode(printable ? byte : standIn++);
  });
}

export function spellBytes(bytes: Iterable<number>): string {
  return Array.from(bytes, (byte) => BYTE_ALPHABET[byte]!).join("");
}

// Merges

const PAIR = 2 ** 26;

/** The first rank of each pair, for symbols that are numbered. */
class PairRanks {
  private readonly numbers = new Map<string, number>();
  private readonly ranks = new Map<number, number>();
  private readonly made: number[] = [];

  constructor(merges: readonly Pair[]) {
    merges.forEach(([left, right], rank) => {
      const pair = this.numberOf(left) * PAIR + this.numberOf(right);
      if (!this.ranks.has(pair)) this.ranks.set(pair, rank);
      this.made.push(this.numberOf(left + right));
    });
  }

  private numberOf(symbol: string): number {
    let number = this.numbers.get(symbol);
    if (number === undefined) {
      number = this.numbers.size;
      this.numbers.set(symbol, number);
    }
    return number;
  }

  /** The rank of the merge that makes this token of its own text; undefined if the text does not end as the token. */
  lastMerge(token: string): number | undefined {
    const symbols = Array.from(token, (char) => this.numberOf(char));
    let last: number | undefined;
    while (symbols.length > 1) {
      let best = Number.POSITIVE_INFINITY;
      let place = -1;
      for (let at = 0; at + 1 < symbols.length; at++) {
        const rank = this.ranks.get(symbols[at]! * PAIR + symbols[at + 1]!);
        if (rank === undefined || rank >= best) continue;
        best = rank;
        place = at;
      }
      if (place < 0) return undefined;
      last = best;
      symbols.splice(place, 2, this.made[best]!);
    }
    return last;
  }
}

/**
 * For each token that its own text ends as when it is encoded alone, the position of the merge that makes it. Nothing
 * else ever makes this token: inside of its text, joining does not depend on what is around it.
 */
export function ownMerges(tokens: Iterable<string>, merges: readonly Pair[]): Map<string, number> {
  const ranks = new PairRanks(merges);
  const found = new Map<string, number>();
  for (const token of tokens) {
    const rank = ranks.lastMerge(token);
    if (rank !== undefined) found.set(token, rank);
  }
  return found;
}

/** Every pair that makes one of these tokens, in their order. */
export function* allMerges(order: readonly string[]): Generator<Pair> {
  const tokens = new Set(order);
  for (const token of order) {
    for (let cut = 1; cut < token.length; cut++) {
      const head = token.slice(0, cut);
      if (!tokens.has(head) || isInsideCharacter(token, cut)) continue;
      const tail = token.slice(cut);
      if (tokens.has(tail)) yield [head, tail];
    }
  }
}

function isInsideCharacter(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800;
}

/** Do the merges have every split of every token into two of these tokens? */
export function areComplete(tokens: readonly string[], merges: readonly Pair[]): boolean {
  const keyOf = ([left, right]: Pair) => `${left.length} ${left}${right}`;
  const pairs = new Set(merges.map(keyOf));
  for (const pair of allMerges(tokens)) if (!pairs.has(keyOf(pair))) return false;
  return true;
}

export function inOrder(ranks: Ids): string[] {
  return [...ranks.keys()].sort((a, b) => ranks.get(a)! - ranks.get(b)!);
}

/** Do these tokens have ascending ids? */
export function ascend(tokens: Iterable<string>, ids: Ids): boolean {
  let last = Number.NEGATIVE_INFINITY;
  for (const token of tokens) {
    const id = ids.get(token)!;
    if (id <= last) return false;
    last = id;
  }
  return true;
}

/** The id of byte 00, if all 256 bytes have ids in a row: each as `<0x..>`, or as its character. */
export function fallbackStart(vocab: Ids): number | null {
  const start = vocab.get(BYTE_NAMES[0]!);
  if (start === undefined) return null;
  const idOf = (byte: number) => vocab.get(BYTE_NAMES[byte]!) ?? vocab.get(String.fromCharCode(byte));
  return BYTE_NAMES.every((_, byte) => idOf(byte) === start + byte) ? start : null;
}

// The file

/** The bytes of the map's file. They are not checked here: reading them is the check. */
export function writeMap(parts: MapParts, id: string): Uint8Array {
  const { kind, vocab, specials, merges, normalizer, added, hasPrefix, fallbackStart: start } = parts;
  const names = [...specials.keys()].filter((name) => !vocab.has(name));
  const fields: Array<[string, string]> = [
    ["id", JSON.stringify(id)],
    ["version", '"2"'],
    ["vocab_size", String(vocab.size + names.length)],
    ["encoder", JSON.stringify(kind)],
  ];
  if (normalizer !== null) fields.push(["normalizer", JSON.stringify(normalizer)]);
  if (kind === "metaspace" && !hasPrefix) fields.push(["prefix", '"never"']);
  if (start !== null) fields.push(["byte_fallback_start", String(start)], ["byte_fallback_end", String(start + 255)]);
  const pattern = writePatterns(parts);
  if (pattern !== null) fields.push(pattern);
  fields.push(["special_tokens", writeIds(specials)]);
  const order = [...added].sort((a, b) => vocab.get(a)! - vocab.get(b)!);
  if (added.length > 0) fields.push(["added_tokens", JSON.stringify(order)]);
  fields.push(["vocab", writeIds(vocab)]);
  if (merges.length > 0) fields.push(["merges", JSON.stringify(merges)]);
  // JSON.stringify would spell lone surrogates with a backslash.
  const isText = (text: string) => text.isWellFormed();
  if (![...specials.keys(), ...vocab.keys(), ...parts.patterns].every(isText))
    throw new MapInvalidError(`${id}: a token cannot be written as UTF-8`);
  return new TextEncoder().encode(`{${fields.map(([name, value]) => `"${name}":${value}`).join(",")}}`);
}

function writePatterns({ patterns, keepsGaps }: MapParts): [string, string] | null {
  const [first] = patterns;
  if (first === undefined) return null;
  if (patterns.length === 1 && !(keepsGaps && leavesOut(first)))
    return ["pre_tokenizer_pattern", JSON.stringify(first)];
  return ["pre_tokenizer_patterns", JSON.stringify(patterns)];
}

/** By hand: an object would put names that are numbers first. */
function writeIds(ids: Ids): string {
  const rows = [...ids].sort(([a, idOfA], [b, idOfB]) => idOfA - idOfB || compareCodePoints(a, b));
  return `{${rows.map(([name, id]) => `${JSON.stringify(name)}:${id}`).join(",")}}`;
}

function compareCodePoints(a: string, b: string): number {
  const [left, right] = [Array.from(a), Array.from(b)];
  const at = left.findIndex((char, place) => char !== right[place]);
  if (at < 0) return left.length - right.length;
  return (left[at]?.codePointAt(0) ?? -1) - (right[at]?.codePointAt(0) ?? -1);
}

/** Does the pattern leave out a part of a text with every code point? */
function leavesOut(pattern: string): boolean {
  const chunks: string[] = [];
  for (let first = 0; first < 0x110000; first += 0x800) {
    if (first === 0xd800) continue;
    chunks.push(String.fromCodePoint(...Array.from({ length: 0x800 }, (_, i) => first + i)));
  }
  const bytes = new TextEncoder().encode(chunks.join(""));
  try {
    const pieceEnd = familyScanner(pattern) ?? compileMatcher(parsePattern(pattern)).pieceEnd;
    for (let at = 0; at < bytes.length; ) {
      const stop = pieceEnd(bytes, at, bytes.length);
      if (stop <= at) return true;
      at = stop;
    }
    return false;
  } catch (error) {
    if (error instanceof TextError) return true;
    if (error instanceof MapInvalidError) throw new MapInvalidError(`unusable pattern (${error.message})`);
    throw error;
  }
}
