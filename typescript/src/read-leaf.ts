/**
 * In: a tool result, perhaps with leaves. Out: the payloads on its text blocks, or the result without them (spec 5.6).
 * Touches nothing. Reading does not judge ids: see verify.
 */
import { CodecMetaMapMismatchError } from "./errors.js";
import {
  CODEC_META_KEY,
  contentOf,
  isPayload,
  isRecord,
  isTextBlock,
  isWithdrawnBlock,
  type LeafPayload,
  parseDigest,
} from "./leaf.js";

export interface LeafEntry {
  /** The place of the text block in `content`. */
  textIndex: number;
  text: string;
  ids: number[] | null;
  mapId: string | null;
  /** Where the payload was: on the block itself, or in the withdrawn sibling block behind it. */
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
    const found = locate(content, textIndex);
    const mapId = found === null ? null : parseDigest(found.payload.map_id);
    if (expected !== null && mapId !== null && mapId !== expected)
      throw new CodecMetaMapMismatchError(expected, mapId, textIndex);
    entries.push({
      textIndex,
      text: block.text,
      ids: found?.payload.ids ?? null,
      mapId,
      source: found?.source ?? null,
    });
  });
  return entries;
}

/** The ids of each text block, null where there are none. */
export function takeIds(result: unknown, options?: ReadOptions): Array<number[] | null> {
  return readCodecMeta(result, options).map((entry) => entry.ids);
}

/** The result without payloads and withdrawn blocks; the very same object where there are none. */
export function stripCodecMeta<T>(result: T): T {
  const content = contentOf(result);
  const present = content.filter((block) => !isWithdrawnBlock(block));
  const kept = present.map((block) => (isTextBlock(block) ? withoutPayload(block) : block));
  const same = kept.length === content.length && kept.every((block, index) => block === content[index]);
  return same ? result : { ...result, content: kept };
}

/** The content without the withdrawn blocks that follow a text block; one that follows no text is not ours. */
export function withoutSiblings(content: readonly unknown[]): unknown[] {
  let behindText = false;
  return content.filter((block) => {
    if (behindText && isWithdrawnBlock(block)) return false;
    behindText = isTextBlock(block);
    return true;
  });
}

/** The block without a payload, and without a `_meta` that had nothing else; the same block where it had none. */
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
