/**
 * The result of a tool call with its texts and ids, block by block. With a tokenizer all ids are verified (spec 5.7).
 */

import { LeafError } from "./client-errors.js";
import { CodecMetaMapMismatchError, IdsError } from "./errors.js";
import { type LeafEntry, type Level, type MetaTokenizer, readCodecMeta, type ToolResult } from "./leaf.js";

export interface ToolAnswer {
  /** The result as the server sent it, with its leaves. */
  readonly result: ToolResult;
  readonly isError: boolean;
  /** One per text block. With form `ids` it is decoded from the ids, or empty if there is no tokenizer. */
  readonly texts: readonly string[];
  /** One per text block, null for a block without ids. */
  readonly ids: ReadonlyArray<number[] | null>;
}

export interface Reading {
  mapId: string | null;
  tokenizer: MetaTokenizer | null;
  level: Level;
}

/** Throws LeafError for ids of another map than `mapId`, and with a tokenizer for ids that are not valid. */
export function readAnswer(result: ToolResult, reading: Reading): ToolAnswer {
  const entries = entriesOf(result, reading.mapId);
  const texts = entries.map((entry) => textOf(entry, reading));
  return { result, isError: result.isError === true, texts, ids: entries.map((entry) => entry.ids) };
}

function entriesOf(result: ToolResult, mapId: string | null): LeafEntry[] {
  try {
    return readCodecMeta(result, { expectedMapHash: mapId ?? undefined });
  } catch (error) {
    if (error instanceof CodecMetaMapMismatchError) throw new LeafError(error.textIndex, "foreign-map");
    throw error;
  }
}

function textOf({ textIndex, text, ids }: LeafEntry, { tokenizer, level }: Reading): string {
  if (ids === null || tokenizer === null) return text;
  const fullText = text === "" ? decodeIds(ids, tokenizer, textIndex) : text;
  const { reason } = tokenizer.check(fullText, ids, { level });
  if (reason !== null) throw new LeafError(textIndex, reason);
  return fullText;
}

function decodeIds(ids: number[], tokenizer: MetaTokenizer, textIndex: number): string {
  try {
    return tokenizer.decode(ids);
  } catch (error) {
    if (error instanceof IdsError) throw new LeafError(textIndex, error.reason);
    throw error;
  }
}
