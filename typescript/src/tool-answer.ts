/**
 * In: the result of a tools/call, and perhaps the reader's own tokenizer. Out: its texts and ids, block by block.
 * Touches nothing. With a tokenizer nothing is taken on trust: ids that fail the check (spec 5.7) are a LeafError.
 */
import { LeafError } from "./client-errors.js";
import { CodecMetaMapMismatchError, IdsError } from "./errors.js";
import type { Level, MetaTokenizer, ToolResult } from "./leaf.js";
import { type LeafEntry, readCodecMeta } from "./read-leaf.js";

export interface ToolAnswer {
  /** The result as it came, with its leaves. */
  readonly result: ToolResult;
  readonly isError: boolean;
  /** One per text block. Under form `ids` it is what the ids say, and empty where no tokenizer was given. */
  readonly texts: readonly string[];
  /** One per text block, null where the block has none. */
  readonly ids: ReadonlyArray<number[] | null>;
}

export interface Reading {
  mapId: string | null;
  tokenizer: MetaTokenizer | null;
  level: Level;
}

/** Throws LeafError for ids of another map than `mapId`, and with a tokenizer for ids that are wrong. */
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
  const said = text === "" ? decoded(ids, tokenizer, textIndex) : text;
  const { reason } = tokenizer.check(said, ids, { level });
  if (reason !== null) throw new LeafError(textIndex, reason);
  return said;
}

function decoded(ids: number[], tokenizer: MetaTokenizer, textIndex: number): string {
  try {
    return tokenizer.decode(ids);
  } catch (error) {
    if (error instanceof IdsError) throw new LeafError(textIndex, error.reason);
    throw error;
  }
}
