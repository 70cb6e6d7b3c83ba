/**
 * The Encoding of byte_level maps (spec 5.4). Cuts the bytes of a text into pieces by the pattern, or by several in turn;
 * a piece that is a token is that token, and the tokens of other pieces are merged from their bytes.
 */
import type { Encoding } from "./encoding.js";
import { MapInvalidError, TextError } from "./errors.js";
import type { Split } from "./map-document.js";
import { mergeSymbols } from "./merge.js";
import { familyScanner } from "./pattern-families.js";
import { compileMatcher, type PieceEnd, widthOf } from "./pattern-matcher.js";
import { parsePattern } from "./pattern-syntax.js";
import { PieceCache } from "./piece-cache.js";
import type { TokenTable } from "./token-table.js";
import { utf8 } from "./utf8.js";

const ROW = 512;

export class ByteLevelEncoding implements Encoding {
  readonly extraIds = 0;
  /** The only pattern, or null if there are stages. */
  private readonly pieceEnd: PieceEnd | null;
  private readonly stages: readonly PieceEnd[];
  private readonly cache = new PieceCache();
  private readonly row = new Int32Array(ROW);

  constructor(
    private readonly table: TokenTable,
    split: Split,
  ) {
    const isSingle = "pattern" in split;
    this.pieceEnd = isSingle ? (familyScanner(split.pattern) ?? provenMatcher(split.pattern)) : null;
    this.stages = isSingle ? [] : split.stages.map((stage) => compileMatcher(parsePattern(stage)).pieceEnd);
  }

  encode(text: string): number[] {
    const bytes = utf8(text);
    const { pieceEnd } = this;
    const end = bytes.length;
    const out: number[] = [];
    if (pieceEnd === null) {
      this.cut(bytes, 0, end, 0, out);
      return out;
    }
    for (let start = 0; start < end; ) {
      const stop = pieceEnd(bytes, start, end);
      if (stop <= start) throw new TextError("the map's pattern leaves out a part of this text");
      this.addPiece(bytes, start, stop, out);
      start = stop;
    }
    return out;
  }

  /** Cuts this part into the matches of one stage and the gaps between them; the next stage cuts each of these. */
  private cut(bytes: Uint8Array, start: number, end: number, stage: number, out: number[]): void {
    const pieceEnd = this.stages[stage];
    if (pieceEnd === undefined) {
      this.addPiece(bytes, start, end, out);
      return;
    }
    let gap = start;
    for (let at = start; at < end; ) {
      const stop = pieceEnd(bytes, at, end);
      if (stop <= at) {
        at += widthOf(bytes[at]!);
        continue;
      }
      if (gap < at) this.cut(bytes, gap, at, stage + 1, out);
      this.cut(bytes, at, stop, stage + 1, out);
      gap = at = stop;
    }
    if (gap < end) this.cut(bytes, gap, end, stage + 1, out);
  }

  private addPiece(bytes: Uint8Array, start: number, stop: number, out: number[]): void {
    const token = this.table.findMade(bytes, start, stop);
    if (token >= 0) out.push(this.table.ids[token]!);
    else this.join(bytes, start, stop, out);
  }

  tokenOf(id: number): number {
    return this.table.byId(id);
  }

  lengthOf(token: number): number {
    return this.table.lengthOf(token);
  }

  copyTo(token: number, target: Uint8Array, at: number): void {
    this.table.copyTo(token, target, at);
  }

  standsAt(token: number, bytes: Uint8Array, at: number): boolean {
    return this.table.standsAt(token, bytes, at);
  }

  private join(bytes: Uint8Array, start: number, stop: number, out: number[]): void {
    if (this.cache.recall(bytes, start, stop, out)) return;
    const count = stop - start;
    const { table } = this;
    const row = count <= ROW ? this.row : new Int32Array(count);
    for (let i = 0; i < count; i++) row[i] = table.byByte(bytes[start + i]!);
    const left = mergeSymbols(row, count, table);
    const first = out.length;
    for (let i = 0; i < left; i++) out.push(table.ids[row[i]!]!);
    this.cache.remember(bytes, start, stop, out, first);
  }
}

/** A matcher for any other pattern, after a test that it leaves out no kind of character. */
function provenMatcher(pattern: string): PieceEnd {
  const { pieceEnd, samples } = compileMatcher(parsePattern(pattern));
  const chars = samples.map((point) => String.fromCodePoint(point));
  const trials = [...chars, ...chars.flatMap((first) => chars.map((second) => first + second))];
  for (const trial of trials) {
    const bytes = utf8(trial);
    for (let at = 0; at < bytes.length; ) {
      const stop = pieceEnd(bytes, at, bytes.length);
      if (stop <= at) throw new MapInvalidError(`the pattern leaves out a part of ${JSON.stringify(trial)}`);
      at = stop;
    }
  }
  return pieceEnd;
}
