/**
 * The Encoding of metaspace maps (spec 5.4). The whole text is one piece, with its spaces written as U+2581; a character
 * that is not a token becomes its UTF-8 bytes.
 */
import type { Encoding } from "./encoding.js";
import { MapInvalidError, TextError } from "./errors.js";
import { mergeSymbols, type PairRanks } from "./merge.js";
import { codePointAt, widthOf } from "./pattern-matcher.js";
import { PieceCache } from "./piece-cache.js";
import { TokenTable } from "./token-table.js";
import { utf8 } from "./utf8.js";

export const BLANK = "\u2581";
const BLANK_POINT = 0x2581;
// Symbols are numbered densely, so two of them fit one exact number as the key of a pair.
const PAIR = 1 << 26;
const ROW = 512;

export interface MetaspaceParts {
  /** Ordinary tokens only: special ones cannot come out of text. */
  tokens: readonly string[];
  ids: Uint32Array;
  /** Without merges, the first so many tokens are joined, in this order. */
  joinable: number;
  merges: ReadonlyArray<readonly [string, string]> | null;
  fallbackStart: number;
  /** Whether a blank is put in front of the text. */
  hasPrefix: boolean;
}

export class MetaspaceEncoding implements Encoding {
  readonly extraIds: 0 | 1;
  private readonly prefix: string;
  private readonly fallbackStart: number;
  /** The text of each symbol, with spaces. */
  private readonly texts: PackedTexts;
  /** Tokens in UTF-8 as the map spells them. Symbols are its tokens, and after them the 256 fallback bytes. */
  private readonly table: TokenTable;
  private readonly pairs: PairRanks;
  /** The characters that stand before a blank inside a token: only behind others may a text be cut. */
  private readonly beforeBlank: ReadonlySet<number>;
  private readonly cache = new PieceCache();
  private readonly row = new Int32Array(ROW);

  constructor({ tokens, ids, joinable, merges, fallbackStart, hasPrefix }: MetaspaceParts) {
    this.extraIds = hasPrefix ? 1 : 0;
    this.prefix = hasPrefix ? BLANK : "";
    this.fallbackStart = fallbackStart;
    this.texts = packTexts(tokens.map((token) => token.replaceAll(BLANK, " ")));
    const rows = { ...packTexts(tokens), ids, joinable };
    this.table = new TokenTable(rows);
    this.pairs = merges === null ? idRanks(this.table) : mergeRanks(this.table, merges);
    this.beforeBlank = charactersBeforeBlank(rows);
  }

  encode(text: string): number[] {
    if (text === "") return [];
    // It would be decoded as a space, so the ids would not match their text.
    if (text.includes(BLANK)) throw new TextError("the text holds U+2581, which a metaspace map writes for a space");
    const bytes = utf8(this.prefix + text.replaceAll(" ", BLANK));
    const out: number[] = [];
    let start = 0;
    let last = -1;
    for (let at = 0; at < bytes.length; ) {
      const point = codePointAt(bytes, at);
      if (point === BLANK_POINT && at > start && !this.beforeBlank.has(last)) {
        this.addPiece(bytes, start, at, out);
        start = at;
      }
      last = point;
      at += widthOf(bytes[at]!);
    }
    this.addPiece(bytes, start, bytes.length, out);
    return out;
  }

  tokenOf(id: number): number {
    const byte = id - this.fallbackStart;
    return byte >= 0 && byte < 256 ? this.table.size + byte : this.table.byId(id);
  }

  lengthOf(token: number): number {
    return token >= this.table.size ? 1 : this.texts.bounds[token + 1]! - this.texts.bounds[token]!;
  }

  copyTo(token: number, target: Uint8Array, at: number): void {
    if (token >= this.table.size) target[at] = token - this.table.size;
    else target.set(this.textOf(token), at);
  }

  standsAt(token: number, bytes: Uint8Array, at: number): boolean {
    if (token >= this.table.size) return bytes[at] === token - this.table.size;
    const own = this.textOf(token);
    return at + own.length <= bytes.length && own.every((byte, i) => bytes[at + i] === byte);
  }

  private textOf(token: number): Uint8Array {
    return this.texts.bytes.subarray(this.texts.bounds[token]!, this.texts.bounds[token + 1]!);
  }

  private addPiece(bytes: Uint8Array, start: number, stop: number, out: number[]): void {
    if (this.cache.recall(bytes, start, stop, out)) return;
    const { table, fallbackStart } = this;
    const row = stop - start <= ROW ? this.row : new Int32Array(stop - start);
    const count = this.fillRow(row, bytes, start, stop);
    const left = mergeSymbols(row, count, this.pairs);
    const first = out.length;
    for (let i = 0; i < left; i++) {
      const symbol = row[i]!;
      out.push(symbol < table.size ? table.ids[symbol]! : fallbackStart + symbol - table.size);
    }
    this.cache.remember(bytes, start, stop, out, first);
  }

  /** Writes the symbols of the characters into the row; returns how many there are. */
  private fillRow(row: Int32Array, bytes: Uint8Array, start: number, stop: number): number {
    const { table } = this;
    let count = 0;
    for (let at = start; at < stop; ) {
      const end = at + widthOf(bytes[at]!);
      const symbol = table.find(bytes, at, end);
      if (symbol >= 0) row[count++] = symbol;
      else for (let i = at; i < end; i++) row[count++] = table.size + bytes[i]!;
      at = end;
    }
    return count;
  }
}

interface PackedTexts {
  /** Text `i` is `bytes[bounds[i] .. bounds[i + 1]]`, in UTF-8. */
  bytes: Uint8Array;
  bounds: Uint32Array;
}

function packTexts(texts: readonly string[]): PackedTexts {
  const encoder = new TextEncoder();
  const most = texts.reduce((sum, text) => sum + text.length, 0) * 3;
  const bytes = new Uint8Array(most);
  const bounds = new Uint32Array(texts.length + 1);
  texts.forEach((text, i) => {
    bounds[i + 1] = bounds[i]! + encoder.encodeInto(text, bytes.subarray(bounds[i]!)).written;
  });
  return { bytes: bytes.slice(0, bounds[texts.length]), bounds };
}

/** Without merges, the rank of a pair is the place of the token that both make. */
function idRanks(table: TokenTable): PairRanks {
  return {
    rank: (left, right) => (left < table.size && right < table.size ? table.rank(left, right) : -1),
    joined: (rank) => rank,
  };
}

function mergeRanks(table: TokenTable, merges: ReadonlyArray<readonly [string, string]>): PairRanks {
  const pairs = new Map<number, number>();
  const made: number[] = [];
  const symbolOf = (token: string): number => {
    const bytes = utf8(token);
    const symbol = table.find(bytes, 0, bytes.length);
    if (symbol < 0) throw new MapInvalidError(`a merge names ${JSON.stringify(token)}, which is not a token`);
    return symbol;
  };
  for (const [left, right] of merges) {
    const key = symbolOf(left) * PAIR + symbolOf(right);
    if (!pairs.has(key)) pairs.set(key, made.length);
    made.push(symbolOf(left + right));
  }
  return { rank: (left, right) => pairs.get(left * PAIR + right) ?? -1, joined: (rank) => made[rank]! };
}

function charactersBeforeBlank({ bytes, bounds }: PackedTexts): Set<number> {
  const found = new Set<number>();
  for (let token = 0; token + 1 < bounds.length; token++) {
    let last = -1;
    for (let at = bounds[token]!; at < bounds[token + 1]!; at += widthOf(bytes[at]!)) {
      const point = codePointAt(bytes, at);
      if (point === BLANK_POINT && last >= 0) found.add(last);
      last = point;
    }
  }
  return found;
}
