/**
 * Leaf tokens on tool results (spec 5): what a payload is, and how to read, write, strip and verify it. Nothing here
 * changes its arguments. The digest rule is here too: many spellings are accepted, one is emitted.
 */
import { CodecMetaMapMismatchError, MapDigestError, NotATokenizerError, type Reason, TextError } from "./errors.js";
import { packIds, unpackIds } from "./packed-ids.js";

export type { Reason };

export const CODEC_META_KEY = "ai.codec/leaf-tokenization";

/** The type of the withdrawn sibling block: still read, never written. */
export const WITHDRAWN_BLOCK_TYPE = "_codec_meta";

export const MAX_ID = 0xffffffff;

/** The extension that a server declares if it follows what a call asks for (spec 6.7). */
export const LEAF_EXTENSION = CODEC_META_KEY;

/** The key in the `_meta` of a call under which it asks for ids. */
export const ACCEPT_META_KEY = "ai.codec/accept";

/**
 * The most bytes of the texts of a result that gets ids. Clients on SDK 1.x end a connection over stdio at a line of 10
 * MiB. In JSON a byte of text takes up to 10: six for a control character and four for its id, or two and eight for
 * others.
 */
export const MAX_TEXT_LENGTH = 1_000_000;

export interface LeafPayload {
  map_id: string;
  /** Numbers, or packed ids (spec 5.11). `readCodecMeta` returns numbers for both. */
  ids: number[] | string;
}

/** The fields of a content block that matter here; blocks of other types have other fields. */
export interface ContentBlock {
  type: string;
  text?: unknown;
  _meta?: unknown;
  [field: string]: unknown;
}

/** Any result with content, whichever SDK and version its type comes from. */
export interface ToolResult {
  content?: unknown;
  [field: string]: unknown;
}

export type Level = "decode" | "canonical";

export interface Verdict {
  verdict: "accept" | "reject";
  reason: Reason | null;
}

/** A tokenizer for one verified map. */
export interface MetaTokenizer {
  /** The map's digest in the emitted form, `sha256:` and 64 lower-case hex digits. */
  readonly mapId: string;
  /** The ids of this text, always as ordinary text. Throws TextError where it has none. */
  encode(text: string): number[];
  /** The text of these ids. Throws IdsError where they have none. */
  decode(ids: readonly number[]): string;
  /** Verifies ids against a text. The default level is `canonical`. */
  check(text: string, ids: readonly unknown[], options?: CheckOptions): Verdict;
}

export interface CheckOptions {
  level?: Level;
  /** The digest that the payload claims; null or absent where it claims none. */
  mapId?: unknown;
}

const DIGEST = /^(?:sha256:)?([0-9a-f]{64})$/i;

/** The digest in its emitted form. Throws MapDigestError for other values. */
export function parseDigest(value: unknown): string {
  const match = typeof value === "string" ? DIGEST.exec(value) : null;
  if (match === null) throw new MapDigestError(`not a sha256 digest: ${describe(value)}`);
  return `sha256:${match[1]!.toLowerCase()}`;
}

export function isDigest(value: unknown): value is string {
  return typeof value === "string" && DIGEST.test(value);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a payload is well formed: it has a digest, and an array or packed ids. The ids are not verified here. */
export function isPayload(value: unknown): value is LeafPayload {
  if (!isRecord(value) || !isDigest(value.map_id)) return false;
  return Array.isArray(value.ids) || (typeof value.ids === "string" && unpackIds(value.ids) !== null);
}

function numbersOf(ids: number[] | string): number[] {
  return typeof ids === "string" ? unpackIds(ids)! : ids;
}

export function isTextBlock(block: unknown): block is ContentBlock & { text: string } {
  return isRecord(block) && block.type === "text" && typeof block.text === "string";
}

export function isWithdrawnBlock(block: unknown): boolean {
  return isRecord(block) && block.type === WITHDRAWN_BLOCK_TYPE;
}

export function contentOf(result: unknown): readonly unknown[] {
  return isRecord(result) && Array.isArray(result.content) ? result.content : [];
}

function describe(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : typeof value;
}

export interface LeafEntry {
  /** The place of the text block in `content`. */
  textIndex: number;
  text: string;
  ids: number[] | null;
  mapId: string | null;
  /** Where the payload was: on the block itself, or in the withdrawn sibling block after it. */
  source: "meta" | "sibling" | null;
}

export interface ReadOptions {
  /** The digest of the map that the reader tokenizes with. */
  expectedMapHash?: string | undefined;
}

/** The payload in this block's own `_meta`, or null. */
export function readCodecMetaFromBlock(block: unknown): LeafPayload | null {
  const meta = isRecord(block) ? block._meta : undefined;
  const payload = isRecord(meta) ? meta[CODEC_META_KEY] : undefined;
  return isPayload(payload) ? payload : null;
}

/** The payload of the text block at this place of `content`, or null. */
export function findCodecMeta(result: unknown, index: number): LeafPayload | null {
  return locate(contentOf(result), index)?.payload ?? null;
}

export function hasCodecMeta(result: unknown): boolean {
  const content = contentOf(result);
  return content.some((_, index) => locate(content, index) !== null);
}

/** One entry per text block, in order. Throws CodecMetaMapMismatchError for a payload of another map. */
export function readCodecMeta(result: unknown, { expectedMapHash }: ReadOptions = {}): LeafEntry[] {
  const expected = expectedMapHash === undefined ? null : parseDigest(expectedMapHash);
  const content = contentOf(result);
  const entries: LeafEntry[] = [];
  content.forEach((block, textIndex) => {
    if (!isTextBlock(block)) return;
    const leaf = locate(content, textIndex);
    const mapId = leaf === null ? null : parseDigest(leaf.payload.map_id);
    if (expected !== null && mapId !== null && mapId !== expected)
      throw new CodecMetaMapMismatchError(expected, mapId, textIndex);
    entries.push({
      textIndex,
      text: block.text,
      ids: leaf === null ? null : numbersOf(leaf.payload.ids),
      mapId,
      source: leaf?.source ?? null,
    });
  });
  return entries;
}

/** The ids of each text block, null where there are none. */
export function takeIds(result: unknown, options?: ReadOptions): Array<number[] | null> {
  return readCodecMeta(result, options).map((entry) => entry.ids);
}

/** The result without payloads and withdrawn blocks; the same object if there are none. */
export function stripCodecMeta<T>(result: T): T {
  const content = contentOf(result);
  const present = content.filter((block) => !isWithdrawnBlock(block));
  const plain = present.map((block) => (isTextBlock(block) ? withoutPayload(block) : block));
  const same = plain.length === content.length && plain.every((block, index) => block === content[index]);
  return same ? result : { ...result, content: plain };
}

/** The content without the withdrawn blocks that directly follow a text block. */
export function withoutSiblings(content: readonly unknown[]): unknown[] {
  let afterText = false;
  return content.filter((block) => {
    if (afterText && isWithdrawnBlock(block)) return false;
    afterText = isTextBlock(block);
    return true;
  });
}

/** The block without its payload, and without a `_meta` that is then empty; the same block if it has no payload. */
export function withoutPayload<T extends { _meta?: unknown }>(block: T): T {
  if (!isRecord(block._meta) || !Object.hasOwn(block._meta, CODEC_META_KEY)) return block;
  const { [CODEC_META_KEY]: _, ...others } = block._meta;
  if (Object.keys(others).length > 0) return { ...block, _meta: others };
  const { _meta, ...rest } = block;
  return rest as T;
}

function locate(
  content: readonly unknown[],
  index: number,
): { payload: LeafPayload; source: "meta" | "sibling" } | null {
  if (!isTextBlock(content[index])) return null;
  const own = readCodecMetaFromBlock(content[index]);
  if (own !== null) return { payload: own, source: "meta" };
  const sibling = content[index + 1];
  return isWithdrawnBlock(sibling) && isPayload(sibling) ? { payload: sibling, source: "sibling" } : null;
}

export interface WrapOptions {
  /** Texts of fewer characters (code points) get no payload. The default is 1. */
  minTextLength?: number | undefined;
  /** A result whose texts have more bytes of UTF-8 together gets no payloads. The default is MAX_TEXT_LENGTH. */
  maxTextLength?: number | undefined;
  /** The `_meta` of the call: what it asks for decides the map, of those that are loaded, and the form. */
  requestMeta?: unknown;
  /** Called with the error of a tokenizer that fails. The text stays plain. */
  onError?: ((error: unknown) => void) | undefined;
}

export interface IdsWish {
  /** The digests of the maps that are wanted, the best first. */
  maps: string[];
  form: "none" | "ids" | "packed";
}

type TextBlock = { type: string; text: string; _meta?: unknown };

/** What the `_meta` of a call asks for; null if it asks for nothing, or for nothing that can be understood. */
export function readWish(requestMeta: unknown): IdsWish | null {
  const accept = isRecord(requestMeta) ? requestMeta[ACCEPT_META_KEY] : undefined;
  if (!isRecord(accept) || !Array.isArray(accept.maps)) return null;
  const { form = "ids" } = accept;
  if (form !== "none" && form !== "ids" && form !== "packed") return null;
  return { maps: accept.maps.filter(isDigest).map(parseDigest), form };
}

/** The tokenizer of the first map that is wanted; without a wish the first one; null if no ids are wanted. */
export function chooseTokenizer(metas: readonly MetaTokenizer[], wish: IdsWish | null): MetaTokenizer | null {
  if (wish === null) return metas[0] ?? null;
  if (wish.form === "none") return null;
  for (const map of wish.maps) {
    const meta = metas.find(({ mapId }) => parseDigest(mapId) === map);
    if (meta !== undefined) return meta;
  }
  return null;
}

/** One tokenizer or several, as a list. Throws NotATokenizerError, which names the fix, for anything else. */
export function tokenizersOf(meta: MetaTokenizer | readonly MetaTokenizer[]): readonly MetaTokenizer[] {
  const metas = Array.isArray(meta) ? (meta as readonly MetaTokenizer[]) : [meta as MetaTokenizer];
  for (const each of metas as readonly unknown[]) {
    if (isRecord(each) && typeof each.then === "function")
      throw new NotATokenizerError("a promise is not a tokenizer: write `await makeMetaTokenizer(...)`");
    if (!isRecord(each) || typeof each.encode !== "function" || typeof each.mapId !== "string")
      throw new NotATokenizerError("a tokenizer is what makeMetaTokenizer returns");
  }
  return metas;
}

/**
 * The result with a payload on each text block that can have one. Wrapping twice is wrapping once. Of several
 * tokenizers, the call decides which is used; without a wish it is the first.
 */
export function wrapToolCall<T extends object>(
  result: T,
  meta: MetaTokenizer | readonly MetaTokenizer[],
  options: WrapOptions = {},
): T {
  const metas = tokenizersOf(meta);
  if (!Array.isArray((result as { content?: unknown }).content)) return { ...result };
  const content = withoutSiblings(contentOf(result));
  const wish = readWish(options.requestMeta);
  const fits = fitsInAll(content, options.maxTextLength ?? MAX_TEXT_LENGTH);
  const chosen = fits ? chooseTokenizer(metas, wish) : null;
  const wrap = (block: TextBlock): TextBlock =>
    chosen === null ? withoutPayload(block) : wrapBlock(block, chosen, options, wish?.form === "packed");
  return { ...result, content: content.map((block) => (isTextBlock(block) ? wrap(block) : block)) };
}

/** The payload for this text, or null if it is empty or cannot be encoded as UTF-8. */
export function buildMetaBlock(
  text: string,
  meta: MetaTokenizer,
  { packed = false }: { packed?: boolean } = {},
): LeafPayload | null {
  if (text === "") return null;
  try {
    const ids = meta.encode(text);
    return { map_id: parseDigest(meta.mapId), ids: packed ? (packIds(ids) ?? ids) : ids };
  } catch (error) {
    if (error instanceof TextError) return null;
    throw error;
  }
}

function wrapBlock<T extends TextBlock>(block: T, meta: MetaTokenizer, options: WrapOptions, packed: boolean): T {
  if (isShorter(block.text, options.minTextLength ?? 1))
    return hasRightPayload(block, meta) ? block : withoutPayload(block);
  const payload = buildOrLeave(block.text, meta, packed, options.onError);
  if (payload === null) return withoutPayload(block);
  const others = isRecord(block._meta) ? block._meta : {};
  return { ...block, _meta: { ...others, [CODEC_META_KEY]: payload } };
}

/** Null also if the tokenizer fails: the result of a tool is worth more than its ids. */
function buildOrLeave(
  text: string,
  meta: MetaTokenizer,
  packed: boolean,
  onError: WrapOptions["onError"],
): LeafPayload | null {
  try {
    return buildMetaBlock(text, meta, { packed });
  } catch (error) {
    (onError ?? warnOnce)(error);
    return null;
  }
}

let hasWarned = false;

function warnOnce(error: unknown): void {
  if (hasWarned) return;
  hasWarned = true;
  console.error(`mcp-leaf: results stay plain, the tokenizer fails: ${error instanceof Error ? error.message : error}`);
}

/** Whether the texts of all blocks have at most so many bytes together. */
function fitsInAll(content: readonly unknown[], limit: number): boolean {
  const texts = content.filter(isTextBlock).map(({ text }) => text);
  const units = texts.reduce((sum, text) => sum + text.length, 0);
  if (units > limit) return false;
  if (units * 3 <= limit) return true;
  return texts.reduce((sum, text) => sum + new TextEncoder().encode(text).length, 0) <= limit;
}

/** Whether the block has exactly the payload of its text. */
function hasRightPayload(block: TextBlock, meta: MetaTokenizer): boolean {
  const own = readCodecMetaFromBlock(block);
  return own !== null && meta.check(block.text, numbersOf(own.ids), { mapId: own.map_id }).verdict === "accept";
}

function isShorter(text: string, minimum: number): boolean {
  if (text.length < minimum) return true;
  if (text.length >= minimum * 2) return false;
  let count = 0;
  for (const _ of text) count++;
  return count < minimum;
}

export interface LeafVerdict {
  textIndex: number;
  /** `absent` if the block has no payload. */
  verdict: "accept" | "reject" | "absent";
  reason: Reason | null;
}

export interface VerifyOptions {
  /** `decode` is cheap and accepts unusual splits; `canonical`, the default, tokenizes and compares. */
  level?: Level | undefined;
}

/** One verdict per text block, in order. */
export function verifyCodecMeta(
  result: unknown,
  meta: MetaTokenizer,
  { level = "canonical" }: VerifyOptions = {},
): LeafVerdict[] {
  return readCodecMeta(result).map(({ textIndex, text, ids, mapId }) =>
    ids === null
      ? { textIndex, verdict: "absent", reason: null }
      : { textIndex, ...meta.check(text, ids, { level, mapId }) },
  );
}
