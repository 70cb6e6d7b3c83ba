/**
 * Reads and checks the content of a map whose digest is already verified (spec 5.3). Throws MapInvalidError.
 */
import { MapInvalidError } from "./errors.js";
import { isRecord, MAX_ID } from "./leaf.js";
import type { MetaspaceParts } from "./metaspace.js";
import type { TokenRows } from "./token-table.js";
import { type PlainVocabulary, readPlainVocabulary } from "./vocabulary-bytes.js";

export interface MapDocument {
  /** The readable name, `owner/name`. */
  id: string;
  specialIds: ReadonlySet<number>;
  warnings: readonly string[];
  encoding: ({ kind: "byte_level"; pattern: string } & TokenRows) | ({ kind: "metaspace" } & MetaspaceParts);
}

type Fields = Record<string, unknown>;
/** Token and id side by side, in the file's order: quicker than an array of pairs for 200,000 tokens. */
interface Vocabulary {
  tokens: string[];
  ids: number[];
}

const UTF8 = { fatal: true, ignoreBOM: true };
const NO_BYTE = 0xffff;
const BYTE_OF_LETTER = byteAlphabet();

export function readMapDocument(bytes: Uint8Array, where: string): MapDocument {
  try {
    return readPlain(bytes) ?? read(parseObject(new TextDecoder("utf-8", UTF8).decode(bytes)));
  } catch (error) {
    if (error instanceof MapInvalidError) throw new MapInvalidError(`${where}: ${error.message}`);
    if (error instanceof TypeError) throw new MapInvalidError(`${where}: not UTF-8`);
    throw error;
  }
}

/** Reads published maps in a third of the time; returns null for any other map, and for any fault. */
function readPlain(bytes: Uint8Array): MapDocument | null {
  const plain = readPlainVocabulary(bytes, BYTE_OF_LETTER);
  if (plain === null) return null;
  try {
    const fields = parseObject(plain.rest);
    if ((fields.encoder ?? "byte_level") !== "byte_level" || readMerges(fields) !== null) return null;
    const specials = readSpecials(fields);
    const vocab = { size: plain.ids.length, has: (name: string) => holdsToken(plain, name) };
    if (fields._synthetic === true || plain.ids.some((id) => specials.idSet.has(id))) return null;
    refuseTooFew(fields.vocab_size, vocab, specials.tokens);
    refuseMissingBytes(plain.bytes, plain.bounds);
    const { bytes: tokens, bounds, ids } = plain;
    return byteLevelDocument(fields, specials.idSet, { bytes: tokens, bounds, ids, joinable: ids.length });
  } catch (error) {
    if (error instanceof MapInvalidError) return null;
    throw error;
  }
}

function holdsToken({ bytes, bounds }: PlainVocabulary, name: string): boolean {
  const letters = Array.from(name, (letter) => BYTE_OF_LETTER[letter.codePointAt(0)!] ?? NO_BYTE);
  for (let i = 0; i + 1 < bounds.length; i++) {
    const start = bounds[i]!;
    if (bounds[i + 1]! - start === letters.length && letters.every((byte, at) => bytes[start + at] === byte))
      return true;
  }
  return false;
}

function parseObject(json: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw new MapInvalidError(`not JSON (${error instanceof Error ? error.message : error})`);
  }
  if (!isRecord(value)) throw new MapInvalidError("not a JSON object");
  return value;
}

function read(fields: Fields): MapDocument {
  if (fields._synthetic === true) throw new MapInvalidError("a placeholder without a vocabulary");
  const specials = readSpecials(fields);
  const vocab = readIds(fields, fields.vocab === undefined ? "tokens" : "vocab", false);
  const names = new Set(vocab.tokens);
  refuseTooFew(fields.vocab_size, names, specials.tokens);
  const ordinary = withoutSpecials(vocab, specials.idSet);
  refuseTwice(ordinary.ids);
  const kind = fields.encoder ?? "byte_level";
  if (kind === "byte_level") {
    return byteLevelDocument(fields, specials.idSet, byteLevelRows(ordinary, readMerges(fields)));
  }
  if (kind === "metaspace") {
    const encoding = { kind, ...metaspaceParts(fields, ordinary) } as const;
    return { id: nameOf(fields), specialIds: specials.idSet, warnings: [], encoding };
  }
  throw new MapInvalidError(`unknown encoder ${JSON.stringify(kind)}`);
}

function byteLevelDocument(fields: Fields, specialIds: ReadonlySet<number>, rows: TokenRows): MapDocument {
  const pattern = readPattern(fields);
  const warnings = programWarnings(fields.pre_tokenizer_program, pattern);
  return { id: nameOf(fields), specialIds, warnings, encoding: { kind: "byte_level", pattern, ...rows } };
}

function nameOf(fields: Fields): string {
  return typeof fields.id === "string" ? fields.id : "";
}

function readSpecials(fields: Fields): Vocabulary & { idSet: ReadonlySet<number> } {
  const specials = readIds(fields, "special_tokens", true);
  const idSet = new Set(specials.ids);
  if (idSet.size !== specials.ids.length) throw new MapInvalidError("two special tokens share an id");
  return { ...specials, idSet };
}

function readIds(fields: Fields, field: string, optional: boolean): Vocabulary {
  const value = fields[field] ?? (optional ? {} : undefined);
  // Version 1 may list its tokens in the order of their ids.
  if (Array.isArray(value)) return checkedIds(field, value, (_, index) => index);
  if (!isRecord(value)) throw new MapInvalidError(`\`${field}\` is missing or not an object`);
  return checkedIds(field, Object.keys(value), (token) => value[token as string]);
}

function checkedIds(field: string, tokens: unknown[], idOf: (token: unknown, index: number) => unknown): Vocabulary {
  const ids = new Array<number>(tokens.length);
  for (let i = 0; i < tokens.length; i++) {
    const id = idOf(tokens[i], i);
    if (!Number.isInteger(id) || (id as number) < 0 || (id as number) > MAX_ID)
      throw new MapInvalidError(`\`${field}\` holds an id that is not an integer from 0 to ${MAX_ID}`);
    if (typeof tokens[i] !== "string") throw new MapInvalidError(`\`${field}\` holds a token that is not a string`);
    ids[i] = id as number;
  }
  return { tokens: tokens as string[], ids };
}

function refuseTooFew(
  declared: unknown,
  vocab: { size: number; has(name: string): boolean },
  specials: readonly string[],
): void {
  if (vocab.size === 0) throw new MapInvalidError("a placeholder without a vocabulary");
  if (typeof declared !== "number" || declared <= vocab.size) return;
  const held = vocab.size + specials.filter((name) => !vocab.has(name)).length;
  if (held < declared)
    throw new MapInvalidError(`a placeholder or cut off: it declares ${declared} entries and holds ${held}`);
}

function withoutSpecials(vocab: Vocabulary, specialIds: ReadonlySet<number>): Vocabulary {
  if (!vocab.ids.some((id) => specialIds.has(id))) return vocab;
  const ordinary = vocab.ids.map((_, i) => i).filter((i) => !specialIds.has(vocab.ids[i]!));
  return { tokens: ordinary.map((i) => vocab.tokens[i]!), ids: ordinary.map((i) => vocab.ids[i]!) };
}

function refuseTwice(ids: readonly number[]): void {
  let ascending = true;
  for (let i = 1; i < ids.length && ascending; i++) ascending = ids[i - 1]! < ids[i]!;
  if (!ascending && new Set(ids).size !== ids.length) throw new MapInvalidError("two tokens share an id");
}

function readPattern(fields: Fields): string {
  const pattern = fields.pre_tokenizer_pattern;
  if (typeof pattern !== "string" || pattern === "")
    throw new MapInvalidError("`pre_tokenizer_pattern` is missing; byte_level maps need one");
  return pattern;
}

function readMerges(fields: Fields): Array<readonly [string, string]> | null {
  const { merges } = fields;
  if (merges === undefined || merges === null || (Array.isArray(merges) && merges.length === 0)) return null;
  if (!Array.isArray(merges)) throw new MapInvalidError("`merges` is not an array");
  return merges.map((entry: unknown) => {
    const parts: unknown[] = typeof entry === "string" ? entry.split(" ") : Array.isArray(entry) ? entry : [];
    if (parts.length !== 2 || !parts.every((part) => typeof part === "string" && part !== ""))
      throw new MapInvalidError('`merges` holds an entry that is not "left right"');
    return parts as unknown as readonly [string, string];
  });
}

function byteLevelRows(ordinary: Vocabulary, merges: ReadonlyArray<readonly [string, string]> | null): TokenRows {
  const { order, joinable } = merges === null ? orderById(ordinary) : orderByMerges(ordinary, merges);
  let length = 0;
  for (const token of ordinary.tokens) length += token.length;
  const bytes = new Uint8Array(length);
  const bounds = new Uint32Array(order.length + 1);
  const ids = new Uint32Array(order.length);
  let at = 0;
  for (let rank = 0; rank < order.length; rank++) {
    const token = ordinary.tokens[order[rank]!]!;
    if (token === "") throw new MapInvalidError("an empty token");
    for (let i = 0; i < token.length; i++) {
      const byte = BYTE_OF_LETTER[token.charCodeAt(i)] ?? NO_BYTE;
      if (byte === NO_BYTE)
        throw new MapInvalidError(
          `the token ${JSON.stringify(token.slice(0, 40))} is not written in the byte alphabet`,
        );
      bytes[at++] = byte;
    }
    bounds[rank + 1] = at;
    ids[rank] = ordinary.ids[order[rank]!]!;
  }
  refuseMissingBytes(bytes, bounds);
  return { bytes, bounds, ids, joinable };
}

function refuseMissingBytes(bytes: Uint8Array, bounds: Uint32Array): void {
  const seen = new Uint8Array(256);
  for (let i = 0; i + 1 < bounds.length; i++) if (bounds[i + 1]! - bounds[i]! === 1) seen[bytes[bounds[i]!]!] = 1;
  const first = seen.indexOf(0);
  if (first < 0) return;
  const missing = seen.reduce((sum, there) => sum + 1 - there, 0);
  const name = `0x${first.toString(16).padStart(2, "0")}`;
  throw new MapInvalidError(`no token for ${missing} of the 256 bytes, the first is ${name}`);
}

/** Without merges a token's id is its rank. */
function orderById({ ids }: Vocabulary): { order: Uint32Array | number[]; joinable: number } {
  const order = ids.map((_, i) => i);
  for (let i = 1; i < ids.length; i++) {
    if (ids[i - 1]! > ids[i]!) {
      order.sort((a, b) => ids[a]! - ids[b]!);
      break;
    }
  }
  return { order, joinable: ids.length };
}

/** With merges a token's rank is the place of the first merge that makes it; tokens that no merge makes come last. */
function orderByMerges({ tokens }: Vocabulary, merges: ReadonlyArray<readonly [string, string]>) {
  const tokenSet = new Set(tokens);
  const place = new Map(tokens.map((token, i) => [token, i]));
  const order: number[] = [];
  for (const [left, right] of merges) {
    const index = place.get(left + right);
    if (index === undefined && !tokenSet.has(left + right))
      throw new MapInvalidError(`a merge makes ${JSON.stringify(left + right)}, which is not a token`);
    if (index === undefined) continue; // made by an earlier merge already
    order.push(index);
    place.delete(left + right);
  }
  const joinable = order.length;
  for (const index of place.values()) order.push(index);
  return { order, joinable };
}

function metaspaceParts(fields: Fields, ordinary: Vocabulary): MetaspaceParts {
  const merges = readMerges(fields);
  if (merges === null) throw new MapInvalidError("`merges` is missing; metaspace maps need them");
  const { byte_fallback_start: start, byte_fallback_end: end } = fields;
  if (!isId(start) || !isId(end) || end - start !== 255)
    throw new MapInvalidError("`byte_fallback_start` and `byte_fallback_end` do not span 256 ids");
  ordinary.tokens.forEach((token, i) => {
    if (token === "") throw new MapInvalidError("an empty token");
    const byte = ordinary.ids[i]! - start;
    if (byte >= 0 && byte < 256 && token !== `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`)
      throw new MapInvalidError(`the token ${JSON.stringify(token)} has the id of a fallback byte`);
  });
  return { vocab: new Map(ordinary.tokens.map((token, i) => [token, ordinary.ids[i]!])), merges, fallbackStart: start };
}

function isId(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_ID;
}

/** Some published maps carry a program that takes " 1" as one piece, and a pattern that does not: the pattern is used. */
function programWarnings(program: unknown, pattern: string): string[] {
  const ops = isRecord(program) && Array.isArray(program.ops) ? program.ops : [];
  const numbers = ops.filter((op): op is Fields => isRecord(op) && op.op === "numbers");
  const differs = numbers.some((op) => Boolean(op.lead_space) !== pattern.includes(" ?\\p{N}"));
  return differs ? ['its program and its pattern cut " 1" differently; the pattern counts'] : [];
}

/** The GPT-2 alphabet: printable bytes stand for themselves, the others for U+0100 onwards. */
function byteAlphabet(): Uint16Array {
  const table = new Uint16Array(0x180).fill(NO_BYTE);
  let standIn = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 0x21 && byte < 0x7f) || (byte >= 0xa1 && byte < 0xad) || byte >= 0xae;
    table[printable ? byte : standIn++] = byte;
  }
  return table;
}
