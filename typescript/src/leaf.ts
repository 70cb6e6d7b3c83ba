/**
 * Leaf tokens on tool results (spec 5): what a payload is, and how to read, write, strip and verify it. Nothing here
 * changes its arguments. The digest rule is here too: many spellings are accepted, one is emitted.
 */
import { CodecMetaMapMismatchError, MapDigestError, type Reason, TextError } from "./errors.js";

export type { Reason };

export const CODEC_META_KEY = "ai.codec/leaf-tokenization";

/** The type of the withdrawn sibling block: still read, never written. */
export const WITHDRAWN_BLOCK_TYPE = "_codec_meta";

export const MAX_ID = 0xffffffff;

export interface LeafPayload {
  map_id: string;
  ids: number[];
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

/** Whether a payload is well formed: it has a digest and an array. The ids are not verified here. */
export function isPayload(value: unknown): value is LeafPayload {
  return isRecord(value) && isDigest(value.map_id) && Array.isArray(value.ids);
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
      ids: leaf?.payload.ids ?? null,
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
}

type TextBlock = { type: string; text: string; _meta?: unknown };

/** The result with a payload on each text block that can have one. Wrapping twice is wrapping once. */
export function wrapToolCall<T extends object>(
  result: T,
  meta: MetaTokenizer,
  { minTextLength = 1 }: WrapOptions = {},
): T {
  if (!Array.isArray((result as { content?: unknown }).content)) return { ...result };
  const content = withoutSiblings(contentOf(result));
  return {
    ...result,
    content: content.map((block) => (isTextBlock(block) ? wrapBlock(block, meta, minTextLength) : block)),
  };
}

/** The payload for this text, or null if it is empty or cannot be encoded as UTF-8. */
export function buildMetaBlock(text: string, meta: MetaTokenizer): LeafPayload | null {
  if (text === "") return null;
  try {
    return { map_id: parseDigest(meta.mapId), ids: meta.encode(text) };
  } catch (error) {
    if (error instanceof TextError) return null;
    throw error;
  }
}

function wrapBlock<T extends TextBlock>(block: T, meta: MetaTokenizer, minTextLength: number): T {
  if (isShorter(block.text, minTextLength)) return hasRightPayload(block, meta) ? block : withoutPayload(block);
  const payload = buildMetaBlock(block.text, meta);
  if (payload === null) return withoutPayload(block);
  const others = isRecord(block._meta) ? block._meta : {};
  return { ...block, _meta: { ...others, [CODEC_META_KEY]: payload } };
}

/** Whether the block has exactly the payload of its text. */
function hasRightPayload(block: TextBlock, meta: MetaTokenizer): boolean {
  const own = readCodecMetaFromBlock(block);
  const right = own === null ? null : buildMetaBlock(block.text, meta);
  if (own === null || right === null || parseDigest(own.map_id) !== right.map_id) return false;
  return own.ids.length === right.ids.length && own.ids.every((id, i) => id === right.ids[i]);
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
