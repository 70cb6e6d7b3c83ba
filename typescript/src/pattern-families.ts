/**
 * Hand-written scanners for the patterns in wide use. Each follows its pattern alternative by alternative; the general
 * matcher gives the same cuts, more slowly.
 */
import { LIMIT, property } from "./code-point-set.js";
import { codePointAt, type PieceEnd, widthOf } from "./pattern-matcher.js";

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const LEAD = "[^\\r\\n\\p{L}\\p{N}]?";
const BLANKS = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const UPPER = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const LOWER = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";

/** The pre-tokenizer patterns in wide use. */
export const PATTERNS = {
  cl100k: wordsPattern("\\p{N}{1,3}"),
  o200k:
    `${LEAD}${UPPER}*${LOWER}+${CONTRACTIONS}?|${LEAD}${UPPER}+${LOWER}*${CONTRACTIONS}?` +
    `|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${BLANKS}`,
  qwen2: wordsPattern("\\p{N}"),
  gpt2: "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  tekken: `${LEAD}${UPPER}*${LOWER}+|${LEAD}${UPPER}+${LOWER}*` + `|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${BLANKS}`,
} as const;

export type PatternName = keyof typeof PATTERNS;

// Other spellings of two of them, as tiktoken has them. That of cl100k splits white space at the end of a text
// differently; the ids of its vocabulary are the same.
export const GPT2_SPELLING = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s";
const CL100K_SPELLING =
  "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$" +
  "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s";

/** The name of a pattern in wide use, or null for any other. */
export function familyOf(pattern: string): PatternName | null {
  if (pattern === GPT2_SPELLING) return "gpt2";
  if (pattern === CL100K_SPELLING) return "cl100k";
  const names = Object.keys(PATTERNS) as PatternName[];
  return names.find((name) => PATTERNS[name] === pattern) ?? null;
}

const FAMILIES = new Map<string, () => PieceEnd>([
  [PATTERNS.cl100k, () => wordsScanner(3)],
  [PATTERNS.qwen2, () => wordsScanner(1)],
  [PATTERNS.o200k, casedWordsScanner],
]);

function wordsPattern(digits: string): string {
  return `${CONTRACTIONS}|${LEAD}\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${BLANKS}`;
}

/** The scanner for a pattern, or undefined if there is none. */
export function familyScanner(pattern: string): PieceEnd | undefined {
  return FAMILIES.get(pattern)?.();
}

const LETTER = 1;
const NUMBER = 2;
const SPACE = 4;
const UPPER_LIKE = 8;
const LOWER_LIKE = 16;
const NOT_OTHER = LETTER | NUMBER | SPACE;

let kinds: Uint8Array | undefined;

const FLAGS: Readonly<Record<string, number>> = {
  Lu: LETTER | UPPER_LIKE,
  Lt: LETTER | UPPER_LIKE,
  Ll: LETTER | LOWER_LIKE,
  Lm: LETTER | UPPER_LIKE | LOWER_LIKE,
  Lo: LETTER | UPPER_LIKE | LOWER_LIKE,
  M: UPPER_LIKE | LOWER_LIKE,
  N: NUMBER,
  White_Space: SPACE,
};

/** A byte of flags per code point, made once for all maps. No code point has two of the properties above. */
function kindTable(): Uint8Array {
  if (kinds !== undefined) return kinds;
  const table = new Uint8Array(LIMIT);
  for (const [name, flags] of Object.entries(FLAGS)) {
    const set = property(name)!;
    for (let i = 0; i < set.length; i += 2) table.fill(flags, set[i]!, set[i + 1]!);
  }
  kinds = table;
  return table;
}

/** Where the run of characters with one of these flags ends. */
function runEnd(kind: Uint8Array, flags: number, bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end) {
    const lead = bytes[at]!;
    if (lead < 0x80) {
      if ((kind[lead]! & flags) === 0) return at;
      at++;
    } else {
      if ((kind[codePointAt(bytes, at)]! & flags) === 0) return at;
      at += widthOf(lead);
    }
  }
  return at;
}

function kindAt(kind: Uint8Array, bytes: Uint8Array, at: number): number {
  const lead = bytes[at]!;
  return kind[lead < 0x80 ? lead : codePointAt(bytes, at)]!;
}

/** Where a contraction that starts here ends, or `at` itself where there is none. */
function contractionEnd(bytes: Uint8Array, at: number, end: number): number {
  if (at + 1 >= end || bytes[at] !== 0x27) return at;
  const first = bytes[at + 1]! | 0x20;
  if (first === 0x73 || first === 0x74 || first === 0x6d || first === 0x64) {
    return bytes[at + 1]! < 0x80 ? at + 2 : at;
  }
  if (at + 2 >= end) return at;
  // U+017F, the long s, is a case variant of s.
  if (bytes[at + 1] === 0xc5 && bytes[at + 2] === 0xbf) return at + 3;
  const second = bytes[at + 2]! | 0x20;
  if ((first === 0x72 || first === 0x76) && second === 0x65) return at + 3;
  return first === 0x6c && second === 0x6c ? at + 3 : at;
}

function numberEnd(kind: Uint8Array, bytes: Uint8Array, start: number, end: number, most: number): number {
  let at = start;
  for (let count = 0; count < most && at < end; count++) {
    if ((kindAt(kind, bytes, at) & NUMBER) === 0) break;
    at += widthOf(bytes[at]!);
  }
  return at;
}

/** ` ?[^\s\p{L}\p{N}]+` and then a run of line ends, of slashes too where the pattern says so; or -1. */
function otherEnd(kind: Uint8Array, bytes: Uint8Array, start: number, end: number, slashes: boolean): number {
  let at = bytes[start] === 0x20 ? start + 1 : start;
  const body = at;
  while (at < end && (kindAt(kind, bytes, at) & NOT_OTHER) === 0) at += widthOf(bytes[at]!);
  if (at === body) return -1;
  while (at < end && (bytes[at] === 0x0a || bytes[at] === 0x0d || (slashes && bytes[at] === 0x2f))) at++;
  return at;
}

/** `\s*[\r\n]+|\s+(?!\S)|\s+`, known to start at white space. */
function blankEnd(kind: Uint8Array, bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  let last = start;
  let behindNewline = -1;
  while (at < end && (kindAt(kind, bytes, at) & SPACE) !== 0) {
    last = at;
    const lead = bytes[at]!;
    at += widthOf(lead);
    if (lead === 0x0a || lead === 0x0d) behindNewline = at;
  }
  if (behindNewline >= 0) return behindNewline;
  return at === end || last === start ? at : last;
}

/** The patterns of cl100k_base and of Qwen 2, which differ in how many digits make a piece. */
function wordsScanner(digits: number): PieceEnd {
  const kind = kindTable();
  return (bytes, start, end) => {
    const lead = bytes[start]!;
    if (lead === 0x27) {
      const contraction = contractionEnd(bytes, start, end);
      if (contraction > start) return contraction;
    }
    const first = kindAt(kind, bytes, start);
    const second = start + widthOf(lead);
    if ((first & LETTER) !== 0) return runEnd(kind, LETTER, bytes, second, end);
    if ((first & NUMBER) !== 0) return digits === 1 ? second : numberEnd(kind, bytes, start, end, digits);
    if (second < end && lead !== 0x0a && lead !== 0x0d && (kindAt(kind, bytes, second) & LETTER) !== 0) {
      return runEnd(kind, LETTER, bytes, second, end);
    }
    const other = otherEnd(kind, bytes, start, end, false);
    return other >= 0 ? other : blankEnd(kind, bytes, start, end);
  };
}

/** The pattern of o200k_base: words are cut where an upper-case run follows a lower-case one. */
function casedWordsScanner(): PieceEnd {
  const kind = kindTable();

  /** `UPPER*LOWER+`: the upper run gives characters back until one of them can begin the lower run. */
  function lowerEnding(bytes: Uint8Array, start: number, end: number): number {
    let at = start;
    let behindBoth = -1;
    while (at < end) {
      const flags = kindAt(kind, bytes, at);
      if ((flags & UPPER_LIKE) === 0) break;
      at += widthOf(bytes[at]!);
      if ((flags & LOWER_LIKE) !== 0) behindBoth = at;
    }
    const lower = runEnd(kind, LOWER_LIKE, bytes, at, end);
    return lower > at ? lower : behindBoth;
  }

  function wordEnd(bytes: Uint8Array, start: number, end: number, first: number): number {
    const lead = bytes[start]!;
    const mayLead = (first & (LETTER | NUMBER)) === 0 && lead !== 0x0a && lead !== 0x0d;
    const behindLead = mayLead ? start + widthOf(lead) : start;
    let at = lowerEnding(bytes, behindLead, end);
    if (at < 0 && mayLead) at = lowerEnding(bytes, start, end);
    if (at >= 0) return at;
    at = runEnd(kind, UPPER_LIKE, bytes, behindLead, end);
    if (at > behindLead) return at;
    if (!mayLead) return -1;
    at = runEnd(kind, UPPER_LIKE, bytes, start, end);
    return at > start ? at : -1;
  }

  return (bytes, start, end) => {
    const first = kindAt(kind, bytes, start);
    if ((first & NUMBER) !== 0) return numberEnd(kind, bytes, start, end, 3);
    const word = wordEnd(bytes, start, end, first);
    if (word >= 0) return contractionEnd(bytes, word, end);
    const other = otherEnd(kind, bytes, start, end, true);
    return other >= 0 ? other : blankEnd(kind, bytes, start, end);
  };
}
