/**
 * Builds the MetaTokenizer of a map: encode, decode, and the verification of spec 5.7. Cheap checks come first; only
 * level `canonical` tokenizes.
 */
import { ByteLevelEncoding } from "./byte-level.js";
import type { Encoding } from "./encoding.js";
import { IdsError, MapHashMismatchError, MapInvalidError, TextError } from "./errors.js";
import {
  type CheckOptions,
  isDigest,
  type Level,
  MAX_ID,
  type MetaTokenizer,
  parseDigest,
  type Reason,
  type Verdict,
} from "./leaf.js";
import { type MapDocument, readMapDocument } from "./map-document.js";
import { MetaspaceEncoding } from "./metaspace.js";
import { AddedTokens, type Normalizer, normalize } from "./text-preparation.js";
import { TokenTable } from "./token-table.js";
import { utf8 } from "./utf8.js";

export const MAX_MAP_BYTES = 64 * 1024 * 1024;
const SPACE = 0x20;

export interface MapFacts {
  /** The map's readable name, `owner/name`. */
  name: string;
  encoder: "byte_level" | "metaspace";
  /** Oddities of the map that do not make it invalid. */
  warnings: readonly string[];
}

export type LoadedTokenizer = MetaTokenizer & { readonly map: MapFacts };

export interface FromBytesOptions {
  /** The expected sha256 of the bytes. Without it the bytes are used as they are. */
  hash?: string | undefined;
  /** What errors call the map. */
  name?: string | undefined;
}

/**
 * Makes the tokenizer of a map from the bytes of its file, also a `.gz`, without files and network: for workers and
 * browsers.
 */
export async function makeMetaTokenizerFromBytes(
  file: Uint8Array,
  { hash, name = "the map" }: FromBytesOptions = {},
): Promise<LoadedTokenizer> {
  const expected = hash === undefined ? null : parseDigest(hash);
  const bytes = file[0] === 0x1f && file[1] === 0x8b ? await gunzip(file, name) : file;
  const digest = await digestOf(bytes);
  if (expected !== null && digest !== expected) throw new MapHashMismatchError(name, expected, digest);
  return makeTokenizer(bytes, digest, name);
}

async function gunzip(file: Uint8Array, name: string): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  try {
    const stream = new Blob([file as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream("gzip"));
    const reader = stream.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      length += part.value.length;
      if (length > MAX_MAP_BYTES) throw new MapInvalidError(`${name}: larger than ${MAX_MAP_BYTES} bytes`);
      parts.push(part.value);
    }
  } catch (error) {
    if (error instanceof MapInvalidError) throw error;
    throw new MapInvalidError(`${name}: not a gzip file`);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** The same from bytes whose digest is known; `where` names them in errors. */
export function makeTokenizer(bytes: Uint8Array, digest: string, where: string): MapTokenizer {
  return new MapTokenizer(readMapDocument(bytes, where), digest);
}

export async function digestOf(bytes: Uint8Array): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>));
  return `sha256:${Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export class MapTokenizer implements LoadedTokenizer {
  readonly map: MapFacts;
  private readonly specialIds: ReadonlySet<number>;
  private readonly encoding: Encoding;
  private readonly normalizer: Normalizer | null;
  private readonly addedTokens: AddedTokens | null;

  constructor(
    document: MapDocument,
    readonly mapId: string,
  ) {
    const { id, encoding, warnings, specialIds, normalizer, addedTokens } = document;
    this.map = { name: id, encoder: encoding.kind, warnings };
    this.specialIds = specialIds;
    this.normalizer = normalizer;
    this.addedTokens = addedTokens.size === 0 ? null : new AddedTokens(addedTokens);
    this.encoding =
      encoding.kind === "byte_level"
        ? new ByteLevelEncoding(new TokenTable(encoding), encoding.split)
        : new MetaspaceEncoding(encoding);
  }

  encode(text: string): number[] {
    return this.addedTokens === null ? this.encodeStretch(text) : this.addedTokens.encode(text, this.encodeStretch);
  }

  private readonly encodeStretch = (text: string): number[] => this.encoding.encode(normalize(text, this.normalizer));

  decode(ids: readonly number[]): string {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.decodeBytes(ids));
    } catch (error) {
      if (error instanceof IdsError) throw error;
      throw new IdsError("bad-text", "the bytes of these ids are not UTF-8");
    }
  }

  /** The text of the first ids of a text, without a character that they begin and do not end. */
  decodeStart(ids: readonly number[]): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.decodeBytes(ids), { stream: true });
  }

  /** The bytes of an ordinary token, or null if this is not the id of one. */
  bytesOf(id: number): Uint8Array | null {
    if (this.judgeId(id) !== null) return null;
    const token = this.encoding.tokenOf(id);
    const bytes = new Uint8Array(this.encoding.lengthOf(token));
    this.encoding.copyTo(token, bytes, 0);
    return bytes;
  }

  private decodeBytes(ids: readonly number[]): Uint8Array {
    const { encoding } = this;
    const tokens = ids.map((id, index) => {
      const reason = this.judgeId(id);
      if (reason !== null) throw new IdsError(reason, `ids[${index}] is ${String(id)}: ${reason}`);
      return encoding.tokenOf(id);
    });
    const bytes = new Uint8Array(tokens.reduce((sum, token) => sum + encoding.lengthOf(token), 0));
    let at = 0;
    for (const token of tokens) {
      encoding.copyTo(token, bytes, at);
      at += encoding.lengthOf(token);
    }
    return bytes.subarray(encoding.extraIds > 0 && bytes[0] === SPACE ? 1 : 0);
  }

  check(text: string, ids: readonly unknown[], { level = "canonical", mapId = null }: CheckOptions = {}): Verdict {
    const reason = this.judge(text, ids, level, mapId);
    return { verdict: reason === null ? "accept" : "reject", reason };
  }

  private judge(text: string, ids: readonly unknown[], level: Level, mapId: unknown): Reason | null {
    const claimed = mapId ?? null;
    if (claimed !== null && !(isDigest(claimed) && parseDigest(claimed) === this.mapId)) return "foreign-map";
    if (text === "") return "empty-text";
    const normalized = this.normalizedOrNull(text);
    if (normalized === null) return "bad-text";
    // The ids of our own encoder pass every check below, so the checks are skipped for them.
    if (level === "canonical" && this.isCanonical(text, ids)) return null;
    const bytes = utf8(normalized);
    if (ids.length > bytes.length + this.encoding.extraIds) return "too-many-ids";
    if (!this.decodesTo(ids, bytes)) return this.firstWrong(ids) ?? "text-mismatch";
    return level === "canonical" ? "non-canonical" : null;
  }

  private normalizedOrNull(text: string): string | null {
    try {
      return text.isWellFormed() ? normalize(text, this.normalizer) : null;
    } catch (error) {
      if (error instanceof TextError) return null;
      throw error;
    }
  }

  private firstWrong(ids: readonly unknown[]): Reason | null {
    for (const id of ids) {
      const reason = this.judgeId(id);
      if (reason !== null) return reason;
    }
    return null;
  }

  private judgeId(id: unknown): Reason | null {
    // A JSON integer of four hundred digits is parsed as infinity: it is an integer that is too large.
    if (typeof id !== "number" || (Number.isFinite(id) ? !Number.isInteger(id) : Number.isNaN(id)))
      return "not-integer";
    if (id < 0) return "negative";
    if (id > MAX_ID) return "too-large";
    if (this.specialIds.has(id)) return "special-id";
    return this.encoding.tokenOf(id) < 0 ? "unknown-id" : null;
  }

  /** Also false for values that are not ids of ordinary tokens; the reason is determined afterwards. */
  private decodesTo(ids: readonly unknown[], bytes: Uint8Array): boolean {
    const { encoding } = this;
    if (encoding.extraIds > 0) return this.decodesToBehindBlank(ids, bytes);
    let at = 0;
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i];
      const token = typeof id === "number" ? encoding.tokenOf(id) : -1;
      if (token < 0 || !encoding.standsAt(token, bytes, at)) return false;
      at += encoding.lengthOf(token);
    }
    return at === bytes.length;
  }

  /** Metaspace puts one blank before every text; decoding removes it. */
  private decodesToBehindBlank(ids: readonly unknown[], bytes: Uint8Array): boolean {
    try {
      const decoded = new TextEncoder().encode(this.decode(ids as readonly number[]));
      return decoded.length === bytes.length && decoded.every((byte, i) => byte === bytes[i]);
    } catch (error) {
      if (error instanceof IdsError) return false;
      throw error;
    }
  }

  private isCanonical(text: string, ids: readonly unknown[]): boolean {
    try {
      const own = this.encode(text);
      if (own.length !== ids.length) return false;
      for (let i = 0; i < own.length; i++) if (own[i] !== ids[i]) return false;
      return true;
    } catch (error) {
      if (error instanceof TextError) return false;
      throw error;
    }
  }
}
