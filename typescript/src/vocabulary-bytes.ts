/**
 * A fast reader for the byte_level vocabulary of published maps: it creates no string per token. Returns null for a map
 * that is not written in the usual way; the general parser then reads it, or says why it is invalid.
 */
export interface PlainVocabulary {
  /** Token `i` is `bytes[bounds[i] .. bounds[i + 1]]`; ids are ascending. */
  bytes: Uint8Array;
  bounds: Uint32Array;
  ids: Uint32Array;
  /** The map with an empty object in the place of its vocabulary. */
  rest: string;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const VOCAB = [0x76, 0x6f, 0x63, 0x61, 0x62];
const MAX_ID = 0xffffffff;
// The shortest entry there can be is `"a":1,`.
const SHORTEST_ENTRY = 6;

/** Thrown and caught in this file only: the map is not written in the plain way. */
class NotPlain extends Error {}

export function readPlainVocabulary(json: Uint8Array, byteOfLetter: Uint16Array): PlainVocabulary | null {
  try {
    const { start, end, ...entries } = findVocabulary(json, byteOfLetter);
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    const rest = `${decoder.decode(json.subarray(0, start))}{}${decoder.decode(json.subarray(end))}`;
    return { ...entries, rest };
  } catch (error) {
    if (error instanceof NotPlain || error instanceof TypeError) return null;
    throw error;
  }
}

/** The value of the only top-level member `vocab`, and where it is. */
function findVocabulary(json: Uint8Array, byteOfLetter: Uint16Array) {
  let vocabulary: (ReturnType<typeof readEntries> & { start: number }) | null = null;
  let at = expect(json, skipBlanks(json, 0), 0x7b);
  for (;;) {
    const key = skipBlanks(json, at);
    const keyEnd = skipString(json, key);
    const start = skipBlanks(json, expect(json, skipBlanks(json, keyEnd), 0x3a));
    if (isVocab(json, key, keyEnd)) {
      if (vocabulary !== null) throw new NotPlain();
      vocabulary = { start, ...readEntries(json, start, byteOfLetter) };
      at = vocabulary.end;
    } else {
      at = skipValue(json, start);
    }
    at = skipBlanks(json, at);
    if (json[at] !== 0x2c) break;
    at++;
  }
  if (vocabulary === null) throw new NotPlain();
  return vocabulary;
}

function isVocab(json: Uint8Array, start: number, end: number): boolean {
  // A key may be written with escapes; one that might be ours in disguise is left to the parser.
  if (json.subarray(start, end).includes(BACKSLASH)) throw new NotPlain();
  return end - start === VOCAB.length + 2 && VOCAB.every((code, i) => json[start + 1 + i] === code);
}

function readEntries(json: Uint8Array, start: number, byteOfLetter: Uint16Array) {
  const most = Math.floor((json.length - start) / SHORTEST_ENTRY) + 1;
  const bytes = new Uint8Array(json.length - start);
  const bounds = new Uint32Array(most + 1);
  const ids = new Uint32Array(most);
  let count = 0;
  let length = 0;
  let last = -1;
  let at = expect(json, start, 0x7b);
  for (;;) {
    at = expect(json, skipBlanks(json, at), QUOTE);
    for (let code = json[at]!; code !== QUOTE; code = json[at]!) {
      let letter = code;
      if (code === BACKSLASH) {
        const kind = json[at + 1]!;
        if (kind === 0x75) letter = hexadecimal(json, at + 2);
        else if (kind === QUOTE || kind === BACKSLASH || kind === 0x2f) letter = kind;
        else throw new NotPlain();
        at += kind === 0x75 ? 6 : 2;
      } else if (code < 0x80) {
        at++;
      } else {
        const next = json[at + 1]!;
        // Two bytes are enough for the whole alphabet.
        if (code < 0xc2 || code > 0xc5 || (next & 0xc0) !== 0x80) throw new NotPlain();
        letter = ((code & 0x1f) << 6) | (next & 0x3f);
        at += 2;
      }
      const byte = letter < byteOfLetter.length ? byteOfLetter[letter]! : 0xffff;
      if (byte > 0xff) throw new NotPlain();
      bytes[length++] = byte;
    }
    if (length === bounds[count]) throw new NotPlain();
    at = skipBlanks(json, expect(json, skipBlanks(json, at + 1), 0x3a));
    const first = at;
    let id = 0;
    for (; json[at]! >= 0x30 && json[at]! <= 0x39; at++) id = id * 10 + json[at]! - 0x30;
    const leadingZero = json[first] === 0x30 && at - first > 1;
    if (at === first || at - first > 10 || leadingZero || id > MAX_ID || id <= last) throw new NotPlain();
    last = id;
    ids[count++] = id;
    bounds[count] = length;
    at = skipBlanks(json, at);
    if (json[at] !== 0x2c) break;
    at++;
  }
  // Copies, so that what was set aside for the longest vocabulary possible does not stay in memory.
  return {
    bytes: bytes.slice(0, length),
    bounds: bounds.slice(0, count + 1),
    ids: ids.slice(0, count),
    end: expect(json, at, 0x7d),
  };
}

function hexadecimal(json: Uint8Array, at: number): number {
  const digits = String.fromCharCode(...json.subarray(at, at + 4));
  if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new NotPlain();
  return Number.parseInt(digits, 16);
}

function expect(json: Uint8Array, at: number, code: number): number {
  if (json[at] !== code) throw new NotPlain();
  return at + 1;
}

function skipBlanks(json: Uint8Array, place: number): number {
  let at = place;
  while (json[at] === 0x20 || json[at] === 0x0a || json[at] === 0x0d || json[at] === 0x09) at++;
  return at;
}

function skipString(json: Uint8Array, place: number): number {
  let at = expect(json, place, QUOTE);
  while (json[at] !== QUOTE) {
    if (at >= json.length) throw new NotPlain();
    at += json[at] === BACKSLASH ? 2 : 1;
  }
  return at + 1;
}

function skipValue(json: Uint8Array, place: number): number {
  if (json[place] === QUOTE) return skipString(json, place);
  if (json[place] !== 0x7b && json[place] !== 0x5b) return skipScalar(json, place);
  let depth = 0;
  let at = place;
  do {
    const code = json[at];
    if (code === undefined) throw new NotPlain();
    if (code === QUOTE) at = skipString(json, at);
    else {
      if (code === 0x7b || code === 0x5b) depth++;
      else if (code === 0x7d || code === 0x5d) depth--;
      at++;
    }
  } while (depth > 0);
  return at;
}

function skipScalar(json: Uint8Array, place: number): number {
  let at = place;
  while (at < json.length && json[at] !== 0x2c && json[at] !== 0x7d) at++;
  return at;
}
