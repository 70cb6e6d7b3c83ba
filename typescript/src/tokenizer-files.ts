/**
 * Reads tokenizers' own files: what each says becomes the parts of a map (spec 5.9). A feature that a map cannot express
 * is refused, with the part of the file that asks for it.
 */
import { MapInvalidError } from "./errors.js";
import { isRecord } from "./leaf.js";
import {
  allMerges,
  areComplete,
  ascend,
  BYTE_ALPHABET,
  BYTE_NAMES,
  fallbackStart,
  type Ids,
  inOrder,
  type MapParts,
  makeParts,
  ownMerges,
  type Pair,
  spellBytes,
} from "./map-building.js";
import { BLANK } from "./metaspace.js";
import { PATTERNS } from "./pattern-families.js";
import { quote, quoteBytes, quoteJson } from "./quoting.js";
import { BPE, MODEL_NAMES, PieceType, readModel } from "./sentencepiece-model.js";
import type { Normalizer } from "./text-preparation.js";

type Fields = Record<string, unknown>;

const SPACES = " \t\n\r\v\f";
const NORMALIZERS: ReadonlyMap<string, Normalizer> = new Map([
  ["NFC", "nfc"],
  ["NFKC", "nfkc"],
]);
const SPACE_TO_MARK = { type: "Replace", pattern: { String: " " }, content: BLANK };
const PREPEND_MARK = { type: "Prepend", prepend: BLANK };
// Of the public tokenizer of Claude, whose program normalizes; its file does not say so.
const CLAUDE_SPECIAL = "<META_START>";
const ALPHABET: ReadonlySet<string> = new Set(BYTE_ALPHABET);
const ESCAPED = /[\\.+*?()|[\]{}^$#&~-]/g;
/** Reads a tokenizer's file of any kind. */
export function readTokenizer(raw: Uint8Array, where: string): MapParts {
  const start = raw.findIndex((byte) => !SPACES.includes(String.fromCharCode(byte)));
  if (raw[start] === 0x7b || raw[start] === 0x5b) return readJson(raw, where);
  const [line = ""] = latin1(raw.subarray(Math.max(start, 0), start + 2000)).split("\n");
  if (start < 0 || /^[A-Za-z0-9+/]+={0,2} +[0-9]+[ \t\r\v\f]*$/.test(line)) return readRankFile(raw, where);
  return readSentencePiece(raw, where);
}

function readJson(raw: Uint8Array, where: string): MapParts {
  let document: unknown;
  try {
    document = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw));
  } catch (error) {
    throw new MapInvalidError(`${where}: not JSON (${error instanceof Error ? error.message : error})`);
  }
  if (!isRecord(document)) throw new MapInvalidError(`${where}: not a JSON object`);
  if (has(document, "model")) return new TokenizerJson(document, where).parts();
  if (has(document, "bpe_ranks")) return readTiktokenJson(document, where);
  if (has(document, "config") && has(document, "vocab")) return readTekken(document, where);
  if (has(document, "encoder") || has(document, "pre_tokenizer_pattern"))
    throw new MapInvalidError(`${where}: this is a map already`);
  throw new MapInvalidError(`${where}: not a tokenizer.json, a tekken.json or a JSON file of tiktoken`);
}

function has(document: Fields, name: string): boolean {
  return Object.hasOwn(document, name);
}

// tiktoken

/** Reads a `.tiktoken` file: one token in base64 and its rank per line, without a pattern or special tokens. */
export function readRankFile(raw: Uint8Array, where: string): MapParts {
  function* rows(): Generator<[string, number]> {
    let number = 0;
    for (const line of latin1(raw).split(/\r\n|\r|\n/)) {
      number++;
      const stripped = line.replace(/^[ \t\n\r\v\f]+|[ \t\n\r\v\f]+$/g, "");
      if (stripped === "") continue;
      const [, encoded = "", rank = ""] = /^([^ ]*)[ \t\n\r\v\f]*(.*)$/s.exec(stripped)!;
      if (!/^[0-9]+$/.test(rank)) throw new MapInvalidError(`${where}:${number}: not a token in base64 and a rank`);
      yield [tokenOf(encoded, `${where}:${number}`), Number(rank.slice(0, 20))];
    }
  }
  return fromRanks(rows(), where);
}

function fromRanks(rows: Iterable<[string, number]>, where: string, facts: Partial<MapParts> = {}): MapParts {
  const vocab = new Map<string, number>();
  for (const [token, rank] of rows) {
    const spelled = spellBytes(Array.from(token, (char) => char.charCodeAt(0)));
    if (vocab.has(spelled)) throw new MapInvalidError(`${where}: the token ${quoteBytes(token)} occurs twice`);
    vocab.set(spelled, rank);
  }
  if (vocab.size === 0) throw new MapInvalidError(`${where}: no ranks in it`);
  return makeParts({ kind: "byte_level", vocab, specials: new Map(), ...facts });
}

/** The bytes of a token, one character each. */
function tokenOf(encoded: string, where: string): string {
  if (encoded === "" || encoded.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(encoded))
    throw new MapInvalidError(`${where}: not a token in base64 and a rank`);
  return atob(encoded);
}

function latin1(raw: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < raw.length; at += 0x2000) parts.push(String.fromCharCode(...raw.subarray(at, at + 0x2000)));
  return parts.join("");
}

/** Reads the JSON of tiktoken for JavaScript: lines of a first rank and tokens in base64. */
function readTiktokenJson(document: Fields, where: string): MapParts {
  const { pat_str: pattern, special_tokens: specials, bpe_ranks: lines } = document;
  if (typeof pattern !== "string" || !isIds(specials) || typeof lines !== "string")
    throw new MapInvalidError(`${where}: \`pat_str\`, \`special_tokens\` or \`bpe_ranks\` is missing`);
  function* rows(): Generator<[string, number]> {
    for (const line of (lines as string).split("\n")) {
      if (line === "") continue;
      const [, first = "", ...tokens] = line.split(" ");
      if (!/^[0-9]+$/.test(first)) throw new MapInvalidError(`${where}: a line of \`bpe_ranks\` has no first rank`);
      const start = Number(first.slice(0, 20));
      for (let place = 0; place < tokens.length; place++) yield [tokenOf(tokens[place]!, where), start + place];
    }
  }
  return fromRanks(rows(), where, {
    specials: new Map(Object.entries(specials)),
    patterns: [pattern],
    normalizer: has(specials, CLAUDE_SPECIAL) ? "nfkc" : null,
  });
}

function isIds(value: unknown): value is Record<string, number> {
  return isRecord(value) && Object.values(value).every(Number.isInteger);
}

// Mistral

interface TekkenRow {
  rank: number;
  token_bytes?: unknown;
  token_str?: unknown;
}

function readTekken(document: Fields, where: string): MapParts {
  const { config, vocab: rows, special_tokens: given } = document;
  const listed = given || [];
  if (!isRecord(config) || !isRankRows(rows) || !isRankRows(listed)) throw notTekken(where);
  const { default_num_special_tokens: count, default_vocab_size: size, pattern } = config;
  if (!isInteger(count) || !isInteger(size) || typeof pattern !== "string") throw notTekken(where);
  function* ranks(): Generator<[string, number]> {
    for (const { rank, token_bytes: bytes } of rows as TekkenRow[]) {
      if (rank >= (size as number) - (count as number)) continue;
      if (typeof bytes !== "string") throw notTekken(where);
      yield [tokenOf(bytes, where), rank + (count as number)];
    }
  }
  const parts = fromRanks(ranks(), where);
  const specials = new Map<string, number>();
  for (const { token_str: name, rank } of listed) {
    if (typeof name !== "string") throw notTekken(where);
    specials.set(name, rank);
  }
  const taken = new Set(specials.values());
  for (let id = 0; id < count; id++) if (!taken.has(id)) specials.set(`<SPECIAL_${id}>`, id);
  const notes = listed.length > 0 ? [] : ["it does not name its special tokens; they are called <SPECIAL_0> and so on"];
  return { ...parts, specials, patterns: [pattern], notes };
}

function isInteger(value: unknown): value is number {
  return Number.isInteger(value);
}

function isRankRows(value: unknown): value is TekkenRow[] {
  return Array.isArray(value) && value.every((row) => isRecord(row) && isInteger(row.rank));
}

function notTekken(where: string): MapInvalidError {
  return new MapInvalidError(`${where}: \`config\`, \`vocab\` or \`special_tokens\` is not as in a tekken.json`);
}

// SentencePiece

/** Reads a .model file. Pieces of equal score join from left to right there; by their ids in the map. */
export function readSentencePiece(raw: Uint8Array, where: string): MapParts {
  const model = readModel(raw, where);
  const refuse = (reason: string) => new MapInvalidError(`${where}: ${reason}`);
  if (model.type !== BPE) throw refuse(`a ${MODEL_NAMES.get(model.type) ?? "?"} model; maps support only BPE`);
  if (!model.byteFallback) throw refuse("no byte fallback: characters outside its vocabulary would be lost");
  if (model.hasNormalizer || model.removesSpaces || model.spaceIsSuffix || !model.escapesSpaces)
    throw refuse("its normalizer (a table of characters, or rules for spaces) changes the text");
  const ids = new Map(model.pieces.map(({ text }, id) => [text, id]));
  const types = new Map(model.pieces.map(({ text, type }) => [text, type]));
  const ofTypes = (...wanted: number[]) => new Map([...ids].filter(([text]) => wanted.includes(types.get(text)!)));
  const ordinary = ofTypes(PieceType.NORMAL, PieceType.BYTE);
  const specials = ofTypes(PieceType.UNKNOWN, PieceType.CONTROL, PieceType.USER_DEFINED);
  if (ordinary.size + specials.size !== model.pieces.length)
    throw refuse("it has unused pieces, or two pieces with the same text");
  const plain = [...ofTypes(PieceType.USER_DEFINED).keys()].find((text) => !isBracketed(text));
  if (plain !== undefined)
    throw refuse(`its user-defined piece ${quote(plain)} is part of texts; build from its tokenizer.json`);
  const scores = new Map(model.pieces.map(({ text, score }) => [text, score]));
  const joined = [...ofTypes(PieceType.NORMAL).keys()].sort(
    (a, b) => scores.get(b)! - scores.get(a)! || ids.get(a)! - ids.get(b)!,
  );
  return metaspaceParts(ordinary, specials, [...allMerges(joined)], [], model.addsPrefix, where);
}

function isBracketed(text: string): boolean {
  return Array.from(text).length > 2 && /^(?:<.*>|\[.*\])$/s.test(text);
}

// Hugging Face

/** A `tokenizer.json` with a BPE model, byte-level or metaspace. */
export class TokenizerJson {
  readonly model: Fields;
  private readonly normalizers: readonly Fields[];
  private readonly splits: readonly Fields[];

  constructor(
    private readonly document: Fields,
    private readonly where: string,
  ) {
    this.model = isRecord(document.model) ? document.model : {};
    this.normalizers = [...stepsOf(document.normalizer, "normalizers")];
    this.splits = [...stepsOf(document.pre_tokenizer, "pretokenizers")];
  }

  private refuse(reason: string): MapInvalidError {
    return new MapInvalidError(`${this.where}: ${reason}`);
  }

  parts(): MapParts {
    const { model } = this;
    if (model.type !== "BPE") throw this.refuse(`its model is ${quoteJson(model.type)}; maps support only BPE`);
    for (const effect of ["dropout", "continuing_subword_prefix", "end_of_word_suffix"])
      if (model[effect]) throw this.refuse(`its model has a ${effect}, which a map cannot express`);
    const { vocab } = model;
    if (!isIds(vocab) || Object.keys(vocab).length === 0)
      throw this.refuse("its model has no vocabulary of tokens and ids");
    const all = new Map(Object.entries(vocab));
    const { specials, added } = this.addedTokens(all);
    for (const name of specials.keys()) all.delete(name);
    return model.byte_fallback ? this.metaspace(all, specials, added) : this.byteLevel(all, specials, added);
  }

  /** The special tokens, which no ordinary text may give, and the others, which texts contain as wholes. */
  addedTokens(vocab: Ids): { specials: Ids; added: Ids } {
    const rows = has(this.document, "added_tokens") ? this.document.added_tokens : [];
    if (!Array.isArray(rows)) throw this.refuse("`added_tokens` is not an array");
    const specials = new Map<string, number>();
    const added = new Map<string, number>();
    for (const row of rows) {
      if (!isRecord(row) || !isInteger(row.id) || typeof row.content !== "string")
        throw this.refuse("an added token has no id or no content");
      const { content, id } = row;
      if (row.special === true || (!vocab.has(content) && !isBlank(content))) specials.set(content, id);
      else {
        this.checkFlags(row, content);
        added.set(content, id);
      }
    }
    const isNormalized = rows.filter((row) => added.has(row.content)).map((row) => Boolean(row.normalized));
    if (new Set(isNormalized).size > 1)
      throw this.refuse("some of its added tokens are found before all others (`normalized` differs)");
    return { specials, added };
  }

  private checkFlags(row: Fields, content: string): void {
    for (const flag of ["single_word", "lstrip", "rstrip"])
      if (row[flag]) throw this.refuse(`its added token ${quote(content)} is \`${flag}\`, which a map cannot express`);
    if (row.normalized && this.normalizers.length > 0 && !isBlank(content))
      throw this.refuse(`its added token ${quote(content)} is found in the normalized text, not in the text`);
  }

  private merges(): Pair[] {
    const { merges } = this.model;
    if (!Array.isArray(merges)) throw this.refuse("its model has no merges");
    return merges.map((merge: unknown) => {
      const pair: unknown = typeof merge === "string" ? merge.split(" ") : merge;
      if (!Array.isArray(pair) || pair.length !== 2 || !pair.every(isWord))
        throw this.refuse("a merge is not two tokens without spaces");
      return [pair[0]!, pair[1]!] as const;
    });
  }

  private normalizer(): Normalizer | null {
    const names = this.normalizers.map(({ type }) => (typeof type === "string" ? type : quoteJson(type)));
    if (names.length > 1 || !names.every((name) => NORMALIZERS.has(name)))
      throw this.refuse(`its normalizer (${names.join(", ")}) changes the text in a way that a map cannot express`);
    return NORMALIZERS.get(names[0] ?? "") ?? null;
  }

  private byteLevel(all: Ids, specials: Ids, added: Ids): MapParts {
    // A piece is written in the byte alphabet before it is looked up: other tokens (emoji in Command R) never match.
    const lost = [...all.keys()].filter((token) => !isSpelled(token) && !added.has(token));
    const vocab = new Map([...all].filter(([token]) => isSpelled(token)));
    for (const [content, id] of added) {
      vocab.delete(content);
      const spelled = spellBytes(new TextEncoder().encode(content));
      if (vocab.has(spelled) && vocab.get(spelled) !== id)
        throw this.refuse(`its added token ${quote(content)} has the bytes of another token`);
      vocab.set(spelled, id);
    }
    const spelled = [...added.keys()].map((content) => spellBytes(new TextEncoder().encode(content)));
    const apart = new Set(spelled);
    const joined = new Map([...vocab].filter(([token]) => !apart.has(token)));
    return makeParts({
      kind: "byte_level",
      vocab,
      specials,
      merges: this.byteLevelMerges(joined, this.merges()),
      normalizer: this.normalizer(),
      patterns: this.patterns(),
      added: spelled,
      keepsGaps: !this.splits.some((step) => step.behavior === "Removed"),
      notes: leftOut(lost),
    });
  }

  /** The merges that the map needs, or none. Refuses if ranks of tokens do not say what pairs say. */
  private byteLevelMerges(vocab: Ids, merges: readonly Pair[]): string[] {
    const made = new Set(merges.map(([left, right]) => left + right));
    for (const token of made)
      if (!vocab.has(token)) throw this.refuse(`a merge makes ${quote(token)}, which is not an ordinary token`);
    const ranks = ownMerges(made, merges);
    const highestByte = BYTE_ALPHABET.reduce((most, char) => Math.max(most, vocab.get(char) ?? -1), -1);
    const lowestMade = [...made].reduce((least, token) => Math.min(least, vocab.get(token)!), Number.POSITIVE_INFINITY);
    const bytesFirst = highestByte < (made.size === 0 ? 0 : lowestMade);
    if (this.model.ignore_merges) {
      if (ranks.size < made.size && !areComplete([...vocab.keys()], merges))
        throw this.refuse("it takes pieces as wholes (`ignore_merges`), and its merges lack splits of tokens");
      if (!bytesFirst || !ascend(made, vocab))
        throw this.refuse("it takes pieces as wholes (`ignore_merges`), and its ids do not follow its merges");
      return [];
    }
    for (const token of made)
      if (!ranks.has(token))
        throw this.refuse(`its merges never make the token ${quote(token)} of that text, which a map would`);
    const order = inOrder(ranks);
    const expected = new Set([...BYTE_ALPHABET, ...made]);
    const isWhole = expected.size === vocab.size && [...vocab.keys()].every((token) => expected.has(token));
    if (bytesFirst && ascend(order, vocab) && isWhole) return [];
    return order.map((token) => merges[ranks.get(token)!]!.join(" "));
  }

  /** The pattern of each stage of splitting. */
  private patterns(): string[] {
    const stages = this.splits.slice(0, -1);
    const last = this.splits.at(-1) ?? {};
    if (last.type !== "ByteLevel")
      throw this.refuse(`its last step of splitting is ${quoteJson(last.type)}, not ByteLevel`);
    if (last.add_prefix_space)
      throw this.refuse("it puts a space in front of the text, which a byte_level map cannot express");
    const patterns = stages.map((step) => this.stage(step, stages.length));
    if (!has(last, "use_regex") || last.use_regex) patterns.push(PATTERNS.gpt2);
    if (patterns.length === 0) throw this.refuse("it does not split texts, which a byte_level map has to");
    return patterns;
  }

  private stage(step: Fields, stages: number): string {
    if (step.type === "Digits") return step.individual_digits ? "\\p{N}" : "\\p{N}+";
    if (step.type !== "Split")
      throw this.refuse(`its step of splitting ${quoteJson(step.type)} is not one that a map can express`);
    const isolates = step.behavior === "Isolated" && !step.invert;
    if (!isolates && !(step.behavior === "Removed" && step.invert && stages <= 1))
      throw this.refuse(`it splits with the behaviour ${quoteJson(step.behavior)}; a map isolates what it matches`);
    const pattern = isRecord(step.pattern) ? step.pattern : {};
    const escaped = typeof pattern.String === "string" ? pattern.String.replace(ESCAPED, "\\$&") : "";
    const regex = pattern.Regex || escaped;
    if (typeof regex !== "string" || regex === "") throw this.refuse("a step of splitting has no pattern");
    return regex;
  }

  private metaspace(vocab: Ids, specials: Ids, added: Ids): MapParts {
    // No text that has a tokenization contains the mark, so tokens with it are never found in one.
    const findable = [...added.keys()].filter((token) => !token.includes(BLANK));
    const hasPrefix = this.hasPrefix();
    if (findable.length > 0 && hasPrefix)
      throw this.refuse(`its added token ${quote(findable[0]!)} beside a ${BLANK} in front of the text`);
    const isOrdinary = ([left, right]: Pair) =>
      !specials.has(left + right) && !specials.has(left) && !specials.has(right);
    const merges = this.merges().filter(isOrdinary);
    return metaspaceParts(new Map([...vocab, ...added]), specials, merges, findable, hasPrefix, this.where);
  }

  /** Whether it puts one mark in front of the text. Refuses any other way to write spaces. */
  private hasPrefix(): boolean {
    const { normalizers, splits } = this;
    // Where every space became a mark, none is left to split at.
    const isOnePiece = splits.length === 0 || (splits.length === 1 && isSame(splits[0]!.pattern, { String: " " }));
    const writesMarks = isSame(normalizers, [PREPEND_MARK, SPACE_TO_MARK]) || isSame(normalizers, [SPACE_TO_MARK]);
    if (writesMarks && isOnePiece) return normalizers.length === 2;
    const [only] = splits;
    const isMetaspace = only?.type === "Metaspace" && only.replacement === BLANK && only.split === false;
    // "first" differs from "always" only behind special tokens, which texts do not contain.
    if (normalizers.length === 0 && splits.length === 1 && isMetaspace) return only.prepend_scheme !== "never";
    throw this.refuse(`it does not write spaces as a metaspace map does: as ${BLANK}, the text in one piece`);
  }
}

function metaspaceParts(
  vocab: Ids,
  specials: Ids,
  merges: readonly Pair[],
  added: readonly string[],
  hasPrefix: boolean,
  where: string,
): MapParts {
  const start = fallbackStart(vocab);
  if (start === null) throw new MapInvalidError(`${where}: its 256 fallback bytes do not have ids in a row`);
  const made = new Set(merges.map(([left, right]) => left + right));
  const names = new Set(BYTE_NAMES);
  const reachable = new Set([...made, ...merges.flat(), ...added, ...names]);
  const kept = new Map([...vocab].filter(([token]) => reachable.has(token) || Array.from(token).length === 1));
  for (const [left, right] of merges)
    for (const part of [left, right, left + right])
      if (!kept.has(part))
        throw new MapInvalidError(`${where}: a merge names ${quote(part)}, which is not a token that texts give`);
  const ranks = ownMerges(made, merges);
  const order = inOrder(ranks);
  const apart = new Set(added);
  const joined = [...kept.keys()].filter((token) => !apart.has(token) && !names.has(token));
  const byId = areComplete(joined, merges) && ascend(order, kept) && !added.some((token) => made.has(token));
  return makeParts({
    kind: "metaspace",
    vocab: kept,
    specials,
    merges: byId ? [] : order.map((token) => merges[ranks.get(token)!]!.join(" ")),
    added,
    hasPrefix,
    fallbackStart: start,
    notes: leftOut([...vocab.keys()].filter((token) => !kept.has(token))),
  });
}

function leftOut(tokens: readonly string[]): string[] {
  return tokens.length === 0 ? [] : [`left out ${tokens.length} tokens that no text gives, such as ${tokens[0]}`];
}

function isSpelled(token: string): boolean {
  for (const char of token) if (!ALPHABET.has(char)) return false;
  return true;
}

/** White space only, as Python's `str.isspace` has it. */
function isBlank(text: string): boolean {
  const isSpace = (char: string) => (/\s/.test(char) && char !== "\ufeff") || "\x1c\x1d\x1e\x1f\x85".includes(char);
  return text !== "" && Array.from(text).every(isSpace);
}

function isWord(part: unknown): part is string {
  return typeof part === "string" && part !== "" && !part.includes(" ");
}

/** A step, or those of a sequence of steps. */
function* stepsOf(value: unknown, inner: string): Generator<Fields> {
  if (!isRecord(value)) return;
  const parts = value[inner];
  if (value.type !== "Sequence" || !Array.isArray(parts)) yield value;
  else for (const part of parts) yield* stepsOf(part, inner);
}

/** Are these two JSON values equal? The order of names does not matter. */
function isSame(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((part, index) => isSame(part, b[index]));
  if (!isRecord(a) || !isRecord(b)) return a === b;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => has(b, name) && isSame(a[name], b[name]));
}
