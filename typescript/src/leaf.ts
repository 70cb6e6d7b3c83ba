/**
 * In: values of unknown origin. Out: the nouns of leaf tokens: key, payload, digest, verdict (spec 5.1, 5.2, 5.7).
 * Touches nothing. This file owns the digest rule: many spellings are accepted, one is emitted.
 */
import { createHash } from "node:crypto";
import { MapDigestError, type Reason } from "./errors.js";

export type { Reason };

export const CODEC_META_KEY = "ai.codec/leaf-tokenization";

/** The type of the withdrawn sibling block: still read, never written. */
export const WITHDRAWN_BLOCK_TYPE = "_codec_meta";

export const MAX_ID = 0xffffffff;

export interface LeafPayload {
  map_id: string;
  ids: number[];
}

/** What we need to know of a content block; blocks of other types have other fields. */
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

/** A tokenizer bound to one verified map: all that writers, readers and judges need. */
export interface MetaTokenizer {
  /** The map's digest in the emitted form, `sha256:` and 64 lower-case hex digits. */
  readonly mapId: string;
  /** The ids of this text, always as ordinary text. Throws TextError where it has none. */
  encode(text: string): number[];
  /** The text of these ids. Throws IdsError where they have none. */
  decode(ids: readonly number[]): string;
  /** Whether these ids may stand for this text. Level `canonical` unless told otherwise. */
  check(text: string, ids: readonly unknown[], options?: CheckOptions): Verdict;
}

export interface CheckOptions {
  level?: Level;
  /** The digest that the payload claims; null or absent where it claims none. */
  mapId?: unknown;
}

const DIGEST = /^(?:sha256:)?([0-9a-f]{64})$/i;

/** The digest in its emitted form. Throws MapDigestError for everything that is none. */
export function parseDigest(value: unknown): string {
  const match = typeof value === "string" ? DIGEST.exec(value) : null;
  if (match === null) throw new MapDigestError(`not a sha256 digest: ${describe(value)}`);
  return `sha256:${match[1]!.toLowerCase()}`;
}

export function isDigest(value: unknown): value is string {
  return typeof value === "string" && DIGEST.test(value);
}

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A payload is well formed when it names a map and has ids; whether the ids are any good is not asked here. */
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
