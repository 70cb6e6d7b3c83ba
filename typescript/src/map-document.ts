/**
 * Reads and checks the content of a map whose digest is already verified (spec 5.3). Throws MapInvalidError.
 */
import { MapInvalidError } from "./errors.js";
import { isRecord, MAX_ID } from "./leaf.js";
import { BLANK, type MetaspaceParts } from "./metaspace.js";
import { NORMALIZERS, type Normalizer } from "./text-preparation.js";
import type { TokenRows } from "./token-table.js";
import { type PlainVocabulary, readPlainVocabulary } from "./vocabulary-bytes.js";

export interface MapDocument {
  /** The readable name, `owner/name`. */
  id: string;
  specialIds: ReadonlySet<number>;
  warnings: readonly string[];
  normalizer: Normalizer | null;
  /** The texts that are found as wholes, with their ids. */
  addedTokens: ReadonlyMap<string, number>;
  encoding: ({ kind: "byte_level"; split: Split } & TokenRows) | ({ kind: "metaspace" } & MetaspaceParts);
}

/** One pattern that leaves out no character, or several that are applied one after another. */
export type Split = { pattern: string } | { stages: readonly string[] };

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
    if (fields.added_tokens !== undefined) return null;
    const specials = readSpecials(fields);
    const vocab = { size: plain.ids.length, has: (name: string) => holdsToken(plain, name) };
    if (fields._synthetic === true || plain.ids.some((id) => specials.idSet.has(id))) return null;
    refuseTooFew(fields.vocab_size, vocab, specials.tokens);
    refuseMissingBytes(plain.bytes, plain.bounds);
    const { bytes: tokens, bounds, ids } = plain;
    return byteLevelDocument(fields, specials.idSet, { bytes: tokens, bounds, ids, joinable: ids.length }, new Map());
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
  refuseTokenizerFile(fields);
  if (fields._synthetic === true) throw new MapInvalidError("a placeholder without a vocabulary");
  const specials = readSpecials(fields);
  const vocab = readIds(fields, fields.vocab === undefined ? "tokens" : "vocab", false);
  const names = new Set(vocab.tokens);
  refuseTooFew(fields.vocab_size, names, specials.tokens);
  const ordinary = withoutSpecials(vocab, specials.idSet);
  refuseTwice(ordinary.ids);
  const kind = fields.encoder ?? "byte_level";
  if (kind === "byte_level") {
    const added = readAddedTokens(fields, ordinary);
    const rows = byteLevelRows(ordinary, readMerges(fields), added);
    return byteLevelDocument(fields, specials.idSet, rows, spellAsText(added));
  }
  if (kind === "metaspace") return metaspaceDocument(fields, specials.idSet, ordinary);
  throw new MapInvalidError(`unknown encoder ${JSON.stringify(kind)}`);
}

/** Other files that describe a tokenizer are often given in the place of a map. */
function refuseTokenizerFile(fields: Fields): void {
  const kind = isRecord(fields.model)
    ? "a Hugging Face tokenizer.json"
    : fields.bpe_ranks !== undefined
      ? "a tiktoken file"
      : isRecord(fields.config) && Array.isArray(fields.vocab)
        ? "a tekken.json"
        : null;
  if (kind === null) return;
  throw new MapInvalidError(`${kind}, not a map; build a map of it: npx mcp-leaf maps build FILE --id OWNER/NAME`);
}

function byteLevelDocument(
  fields: Fields,
  specialIds: ReadonlySet<number>,
  rows: TokenRows,
  addedTokens: ReadonlyMap<string, number>,
): MapDocument {
  const split = readSplit(fields);
  const warnings = "pattern" in split ? programWarnings(fields.pre_tokenizer_program, split.pattern) : [];
  const normalizer = readNormalizer(fields, addedTokens);
  return {
    id: nameOf(fields),
    specialIds,
    warnings,
    normalizer,
    addedTokens,
    encoding: { kind: "byte_level", split, ...rows },
  };
}

function metaspaceDocument(fields: Fields, specialIds: ReadonlySet<number>, ordinary: Vocabulary): MapDocument {
  const addedTokens = readAddedTokens(fields, ordinary);
  const encoding = { kind: "metaspace", ...metaspaceParts(fields, ordinary, addedTokens) } as const;
  if (encoding.hasPrefix && addedTokens.size > 0)
    throw new MapInvalidError('`added_tokens` of a metaspace map need `"prefix": "never"`');
  if ([...addedTokens.keys()].some((token) => token.includes(BLANK)))
    throw new MapInvalidError(`\`added_tokens\` holds a token with ${BLANK}`);
  const normalizer = readNormalizer(fields, addedTokens);
  return { id: nameOf(fields), specialIds, warnings: [], normalizer, addedTokens, encoding };
}

function nameOf(fields: Fields): string {
  return typeof fields.id === "string" ? fields.id : "";
}

function readSpecials(fields: Fields): Vocabulary & { idSet: ReadonlySet<number> } {
  const specials = readIds(fields, "special_tokens", true);
  const idSet = new Set(specials.ids);
  if (idSet.size !== specials.ids.length) throw new MapInvalidError("two tokens share an id");
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

function readSplit(fields: Fields): Split {
  const { pre_tokenizer_pattern: pattern, pre_tokenizer_patterns: stages } = fields;
  if (stages === undefined || stages === null) {
    if (typeof pattern === "string" && pattern !== "") return { pattern };
    throw new MapInvalidError("`pre_tokenizer_pattern` is missing; byte_level maps need one");
  }
  if (typeof pattern === "string")
    throw new MapInvalidError("both `pre_tokenizer_pattern` and `pre_tokenizer_patterns` are given");
  if (
    !Array.isArray(stages) ||
    stages.length === 0 ||
    !stages.every((stage) => typeof stage === "string" && stage !== "")
  )
    throw new MapInvalidError("`pre_tokenizer_patterns` is not a list of patterns");
  return { stages };
}

function readNormalizer(fields: Fields, addedTokens: ReadonlyMap<string, number>): Normalizer | null {
  const { normalizer } = fields;
  if (normalizer === undefined || normalizer === null) return null;
  if (!NORMALIZERS.includes(normalizer as Normalizer))
    throw new MapInvalidError(`unknown normalizer ${JSON.stringify(normalizer)}`);
  if ([...addedTokens.keys()].some((token) => token.trim() !== ""))
    throw new MapInvalidError("`added_tokens` beside a normalizer hold more than white space");
  return normalizer as Normalizer;
}

/** Names of added tokens, spelled as in the vocabulary, with their ids. */
function readAddedTokens(fields: Fields, ordinary: Vocabulary): Map<string, number> {
  const names = fields.added_tokens ?? [];
  if (!Array.isArray(names)) throw new MapInvalidError("`added_tokens` is not an array");
  if (names.length === 0) return new Map();
  const idOf = new Map(ordinary.tokens.map((token, i) => [token, ordinary.ids[i]!]));
  const added = new Map<string, number>();
  for (const name of names) {
    const id = idOf.get(name);
    if (id === undefined)
      throw new MapInvalidError(`\`added_tokens\` holds ${JSON.stringify(name)}, which is not a token`);
    if (added.has(name)) throw new MapInvalidError("`added_tokens` holds a token twice");
    added.set(name, id);
  }
  return added;
}

/** The same tokens as they stand in a text, without those that are not UTF-8 and so stand in none. */
function spellAsText(added: ReadonlyMap<string, number>): Map<string, number> {
  const texts = new Map<string, number>();
  for (const [name, id] of added) {
    const bytes = Uint8Array.from(name, (letter) => BYTE_OF_LETTER[letter.charCodeAt(0)]!);
    try {
      texts.set(new TextDecoder("utf-8", UTF8).decode(bytes), id);
    } catch {}
  }
  return texts;
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

function byteLevelRows(
  ordinary: Vocabulary,
  merges: ReadonlyArray<readonly [string, string]> | null,
  added: ReadonlyMap<string, number>,
): TokenRows {
  const isJoined = (token: string) => !added.has(token);
  const { order, joinable } = merges === null ? orderById(ordinary, isJoined) : orderByMerges(ordinary, merges);
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

/** Without merges a token's id is its rank; tokens that are never joined come last. */
function orderById(
  { tokens, ids }: Vocabulary,
  isJoined: (token: string) => boolean,
): { order: number[]; joinable: number } {
  const order: number[] = [];
  const last: number[] = [];
  for (let i = 0; i < ids.length; i++) (isJoined(tokens[i]!) ? order : last).push(i);
  if (order.some((index, i) => i > 0 && ids[order[i - 1]!]! > ids[index]!)) order.sort((a, b) => ids[a]! - ids[b]!);
  return { order: [...order, ...last], joinable: order.length };
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

function metaspaceParts(fields: Fields, ordinary: Vocabulary, added: ReadonlyMap<string, number>): MetaspaceParts {
  const { byte_fallback_start: start, byte_fallback_end: end, prefix = "always" } = fields;
  if (!isId(start) || !isId(end) || end - start !== 255)
    throw new MapInvalidError("`byte_fallback_start` and `byte_fallback_end` do not span 256 ids");
  if (prefix !== "always" && prefix !== "never") throw new MapInvalidError(`unknown prefix ${JSON.stringify(prefix)}`);
  if (fields.pre_tokenizer_pattern || fields.pre_tokenizer_patterns)
    throw new MapInvalidError("a metaspace map has no patterns");
  const byteNames = new Set<string>();
  ordinary.tokens.forEach((token, i) => {
    if (token === "") throw new MapInvalidError("an empty token");
    const byte = ordinary.ids[i]! - start;
    if (byte < 0 || byte > 255) return;
    const name = `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
    if (token === name) byteNames.add(token);
    else if (byte > 127 || token !== String.fromCharCode(byte))
      throw new MapInvalidError(`the token ${JSON.stringify(token)} has the id of a fallback byte`);
  });
  const merges = readMerges(fields);
  const { order, joinable } = orderById(ordinary, (token) => !added.has(token) && !byteNames.has(token));
  const tokens = order.map((index) => ordinary.tokens[index]!);
  const ids = Uint32Array.from(order, (index) => ordinary.ids[index]!);
  return { tokens, ids, joinable, merges, fallbackStart: start, hasPrefix: prefix === "always" };
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
