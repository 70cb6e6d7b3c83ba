/**
 * The names of `@codecai/mcp-leaf/build`: maps made of tokenizers' own files (spec 5.9). It needs no module of Node.
 */
import { MapInvalidError } from "./errors.js";
import { idsDigest } from "./ids-digest.js";
import { type MapChoices, withChoices, writeMap } from "./map-building.js";
import { readMapDocument } from "./map-document.js";
import { familyOf, PATTERNS } from "./pattern-families.js";
import type { Normalizer } from "./text-preparation.js";
import { digestOf, makeTokenizer } from "./tokenizer.js";
import { readTokenizer } from "./tokenizer-files.js";

export { MapError, MapInvalidError } from "./errors.js";
export type { MapChoices } from "./map-building.js";
export { PATTERNS, type PatternName } from "./pattern-families.js";

export interface BuildOptions extends MapChoices {
  /** The map's id, `owner/name`. */
  id: string;
  /** What errors call the source. */
  name?: string;
}

export interface BuiltMap {
  /** The bytes of the map's file. */
  bytes: Uint8Array;
  mapId: string;
  /** Equal for maps that give the same ids (spec 5.10). */
  idsDigest: string;
  encoder: "byte_level" | "metaspace";
  tokens: number;
  specialTokens: number;
  addedTokens: number;
  normalizer: Normalizer | null;
  /** Names of patterns in wide use, and other patterns as they are. */
  patterns: readonly string[];
  /** What of the source no text needs, and was left out. */
  notes: readonly string[];
}

/**
 * Builds the map of a tokenizer's file: a Hugging Face tokenizer.json, a tiktoken rank file, a Mistral tekken.json, a
 * SentencePiece .model (BPE), or Anthropic's claude.json. The same file gives the same bytes, here and in Python. Throws
 * MapInvalidError with the reason if a map cannot express the tokenizer.
 */
export async function buildMap(
  source: Uint8Array,
  { id, name = "the source", ...choices }: BuildOptions,
): Promise<BuiltMap> {
  const parts = withChoices(readTokenizer(source, name), choices);
  if (parts.kind === "byte_level" && parts.patterns.length === 0)
    throw new MapInvalidError(
      `${name} has no split pattern; --pattern takes ${Object.keys(PATTERNS).join(", ")} or a regex`,
    );
  const bytes = writeMap(parts, id);
  const mapId = await digestOf(bytes);
  makeTokenizer(bytes, mapId, name); // reading it is the check
  return {
    bytes,
    mapId,
    idsDigest: await idsDigest(readMapDocument(bytes, name)),
    encoder: parts.kind,
    tokens: parts.vocab.size,
    specialTokens: parts.specials.size,
    addedTokens: parts.added.length,
    normalizer: parts.normalizer,
    patterns: parts.patterns.map((pattern) => familyOf(pattern) ?? pattern),
    notes: parts.notes,
  };
}
