/**
 * The Encoding of metaspace maps (spec 5.4). The whole text is one piece, with its spaces written as U+2581; a character
 * that is not a token becomes its UTF-8 bytes.
 */
import type { Encoding } from "./encoding.js";
import { MapInvalidError, TextError } from "./errors.js";
import { mergeSymbols, type PairRanks } from "./merge.js";

const BLANK = "\u2581";
// Symbols are numbered densely, so two of them fit one exact number as the key of a pair.
const PAIR = 1 << 26;

export interface MetaspaceParts {
  /** Ordinary tokens only: special ones cannot come out of text. */
  vocab: ReadonlyMap<string, number>;
  merges: ReadonlyArray<readonly [string, string]>;
  fallbackStart: number;
}

export class MetaspaceEncoding implements Encoding, PairRanks {
  readonly extraIds = 1;
  private readonly symbolOf = new Map<string, number>();
  private readonly symbolOfId = new Map<number, number>();
  private readonly ids: number[] = [];
  private readonly bytes: Uint8Array[] = [];
  private readonly firstFallback: number;
  private readonly pairs = new Map<number, number>();
  private readonly made: number[] = [];

  constructor({ vocab, merges, fallbackStart }: MetaspaceParts) {
    const encoder = new TextEncoder();
    for (const [token, id] of vocab) {
      this.symbolOf.set(token, this.add(id, encoder.encode(token.replaceAll(BLANK, " "))));
    }
    this.firstFallback = this.ids.length;
    for (let byte = 0; byte < 256; byte++) this.add(fallbackStart + byte, Uint8Array.of(byte));
    for (const [left, right] of merges) this.addMerge(left, right);
  }

  encode(text: string): number[] {
    if (!text.isWellFormed()) throw new TextError("the text holds lone surrogates and cannot be written as UTF-8");
    if (text === "") return [];
    // It would be decoded as a space, so the ids would not match their text.
    if (text.includes(BLANK)) throw new TextError("the text holds U+2581, which a metaspace map writes for a space");
    const row = this.symbols(BLANK + text.replaceAll(" ", BLANK));
    const left = mergeSymbols(row, row.length, this);
    return Array.from(row.subarray(0, left), (symbol) => this.ids[symbol]!);
  }

  rank(left: number, right: number): number {
    return this.pairs.get(left * PAIR + right) ?? -1;
  }

  joined(rank: number): number {
    return this.made[rank]!;
  }

  tokenOf(id: number): number {
    return this.symbolOfId.get(id) ?? -1;
  }

  lengthOf(token: number): number {
    return this.bytes[token]!.length;
  }

  copyTo(token: number, target: Uint8Array, at: number): void {
    target.set(this.bytes[token]!, at);
  }

  standsAt(token: number, bytes: Uint8Array, at: number): boolean {
    const own = this.bytes[token]!;
    return at + own.length <= bytes.length && own.every((byte, i) => bytes[at + i] === byte);
  }

  private add(id: number, bytes: Uint8Array): number {
    const symbol = this.ids.push(id) - 1;
    this.bytes.push(bytes);
    this.symbolOfId.set(id, symbol);
    return symbol;
  }

  private addMerge(left: string, right: string): void {
    const rank = this.made.length;
    const [first, second, both] = [left, right, left + right].map((token) => {
      const symbol = this.symbolOf.get(token);
      if (symbol === undefined)
        throw new MapInvalidError(`a merge names ${JSON.stringify(token)}, which is not a token`);
      return symbol;
    }) as [number, number, number];
    this.made.push(both);
    const key = first * PAIR + second;
    if (!this.pairs.has(key)) this.pairs.set(key, rank);
  }

  private symbols(text: string): Int32Array {
    const encoder = new TextEncoder();
    const row = new Int32Array(text.length * 3);
    let count = 0;
    for (const char of text) {
      const symbol = this.symbolOf.get(char);
      if (symbol !== undefined) row[count++] = symbol;
      else for (const byte of encoder.encode(char)) row[count++] = this.firstFallback + byte;
    }
    return row.slice(0, count);
  }
}
