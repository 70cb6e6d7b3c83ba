/**
 * The result of a tool call with its texts and ids, block by block. With a tokenizer all ids are verified (spec 5.7).
 * Answers of a gateway's own tools also have their cards and schemas as values (spec 2.6, 3.3).
 */

import { LeafError } from "./client-errors.js";
import { CodecMetaMapMismatchError, IdsError } from "./errors.js";
import { isRecord, type LeafEntry, type Level, type MetaTokenizer, readCodecMeta, type ToolResult } from "./leaf.js";

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

export type JsonSchema = Record<string, unknown> | boolean;

/** What a gateway shows of a tool before its schema is asked for. */
export interface Card {
  id: string;
  name: string;
  description: string;
  tags: readonly string[];
  /** `tool`; or `internal` for a folder, whose id is the path to list next. */
  kind: string;
  namespace: string;
  has_schema: boolean;
  /** How well the card matches the query; null in a list of a path. */
  score: number | null;
  cost_hint: number;
  side_effects: boolean;
  safety: string;
}

/** Whether the best card is clear, several fit about equally well, or none fits and these are the nearest. */
export type Signal = "ok" | "ambiguous" | "no_match";

export interface CardPage {
  readonly cards: readonly Card[];
  readonly signal: Signal;
  readonly confidence: number | null;
  /** The argument schema of one of the cards, so that its tool can be called without `hydrate`. */
  readonly schema?: { readonly id: string; readonly args_schema: JsonSchema };
  /** Says that servers are down or starting. */
  readonly notice?: string;
}

export interface BrowseAnswer extends ToolAnswer {
  /** Null for an error, and at a gateway that sends no cards as JSON. */
  readonly page: CardPage | null;
}

export interface HydratedTool {
  id: string;
  description: string;
  args_schema: JsonSchema;
  output_schema?: JsonSchema;
}

export interface HydrateAnswer extends ToolAnswer {
  /** Null for an error, and at a gateway that describes tools in another form. */
  readonly tool: HydratedTool | null;
}

const BROWSE_META_KEY = "leafgate/browse";

export function readPage(answer: ToolAnswer): BrowseAnswer {
  const meta = answer.result._meta;
  const page = isRecord(meta) ? meta[BROWSE_META_KEY] : undefined;
  return { ...answer, page: isPage(page) ? page : null };
}

export function readHydrated(answer: ToolAnswer): HydrateAnswer {
  const tool = answer.isError ? undefined : parseJson(answer.texts[0] ?? "");
  const isTool = isRecord(tool) && typeof tool.id === "string" && tool.args_schema !== undefined;
  return { ...answer, tool: isTool ? (tool as unknown as HydratedTool) : null };
}

function isPage(value: unknown): value is CardPage {
  return isRecord(value) && Array.isArray(value.cards) && value.cards.every(isCard);
}

function isCard(value: unknown): value is Card {
  return isRecord(value) && typeof value.id === "string" && typeof value.description === "string";
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
