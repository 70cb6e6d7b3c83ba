/**
 * In: a tool result and a tokenizer. Out: a new result whose text blocks carry their ids (spec 5.5).
 * Touches nothing: the input, and everything that can be reached from it, stays as it was.
 */
import { TextError } from "./errors.js";
import {
  CODEC_META_KEY,
  contentOf,
  isRecord,
  isTextBlock,
  type LeafPayload,
  type MetaTokenizer,
  parseDigest,
} from "./leaf.js";
import { readCodecMetaFromBlock, withoutPayload, withoutSiblings } from "./read-leaf.js";

export interface WrapOptions {
  /** Texts of fewer characters (code points) get no payload. 1 unless told otherwise. */
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

/** The payload for this text, or null where it has none: it is empty, or cannot be written as UTF-8. */
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
  if (isShorter(block.text, minTextLength)) return carriesRight(block, meta) ? block : withoutPayload(block);
  const payload = buildMetaBlock(block.text, meta);
  if (payload === null) return withoutPayload(block);
  const others = isRecord(block._meta) ? block._meta : {};
  return { ...block, _meta: { ...others, [CODEC_META_KEY]: payload } };
}

/** Whether the block has the very payload that we would have made. */
function carriesRight(block: TextBlock, meta: MetaTokenizer): boolean {
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
