/**
 * Tokens by bytes, by id and by rank, and merges of pairs. Typed arrays and open addressing: a lookup creates no string,
 * and no token is a property name (`__proto__` is a token).
 */
import { MapInvalidError } from "./errors.js";
import type { PairRanks } from "./merge.js";

export const NONE = -1;

// Ids above this many times the number of tokens are too sparse for an array.
const SPARSE = 8;
const PAIR_SLOTS = 1 << 15;

export interface TokenRows {
  /** All tokens' bytes, one behind the other: token `i` is `bytes[bounds[i] .. bounds[i + 1]]` and has rank `i`. */
  bytes: Uint8Array;
  bounds: Uint32Array;
  ids: Uint32Array;
  /** Only the first so many tokens are ever made from text; the others, which no merge makes, are only decoded. */
  joinable: number;
}

export class TokenTable implements PairRanks {
  readonly size: number;
  readonly ids: Uint32Array;
  private readonly bytes: Uint8Array;
  private readonly bounds: Uint32Array;
  private readonly joinable: number;
  private readonly longest: number;
  // Two words per slot: the token plus one, and its hash, so that most misses end within one cache line.
  private readonly slots: Int32Array;
  private readonly mask: number;
  private readonly ofId: Int32Array | Map<number, number>;
  private readonly ofByte = new Int32Array(256).fill(NONE);
  private readonly pairLeft = new Int32Array(PAIR_SLOTS).fill(NONE);
  private readonly pairRight = new Int32Array(PAIR_SLOTS);
  private readonly pairRank = new Int32Array(PAIR_SLOTS);
  private readonly scratch: Uint8Array;

  constructor(rows: TokenRows) {
    this.size = rows.ids.length;
    this.ids = rows.ids;
    this.bytes = rows.bytes;
    this.bounds = rows.bounds;
    this.joinable = rows.joinable;
    let capacity = 16;
    while (capacity < this.size * 2) capacity *= 2;
    this.mask = capacity - 1;
    this.slots = new Int32Array(capacity * 2);
    this.longest = this.fillSlots();
    this.scratch = new Uint8Array(this.longest);
    this.ofId = indexById(rows.ids);
  }

  byId(id: number): number {
    return (this.ofId instanceof Map ? this.ofId.get(id) : this.ofId[id]) ?? NONE;
  }

  byByte(byte: number): number {
    return this.ofByte[byte]!;
  }

  lengthOf(token: number): number {
    return this.bounds[token + 1]! - this.bounds[token]!;
  }

  /** The token with exactly these bytes, or NONE. */
  find(bytes: Uint8Array, start: number, end: number): number {
    const length = end - start;
    if (length > this.longest) return NONE;
    if (length === 1) return this.ofByte[bytes[start]!]!;
    const hash = hashOf(bytes, start, end);
    const slots = this.slots;
    for (let slot = hash & this.mask; ; slot = (slot + 1) & this.mask) {
      const token = slots[slot * 2]! - 1;
      if (token < 0) return NONE;
      if (slots[slot * 2 + 1] === hash && this.equals(token, bytes, start, length)) return token;
    }
  }

  /** The token with exactly these bytes, if text can become it at all; or NONE. */
  findMade(bytes: Uint8Array, start: number, end: number): number {
    const token = this.find(bytes, start, end);
    return token < this.joinable ? token : NONE;
  }

  /** The rank of the token that two tokens make together, or NONE. Asked often for the same pairs, so remembered. */
  rank(left: number, right: number): number {
    const slot = ((Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b)) >>> 8) & (PAIR_SLOTS - 1);
    if (this.pairLeft[slot] === left && this.pairRight[slot] === right) return this.pairRank[slot]!;
    const rank = this.findJoined(left, right);
    this.pairLeft[slot] = left;
    this.pairRight[slot] = right;
    this.pairRank[slot] = rank;
    return rank;
  }

  /** A token's rank is its place here, so what a join makes is named by the join's rank. */
  joined(rank: number): number {
    return rank;
  }

  /** Whether this token's bytes stand at this place. */
  standsAt(token: number, bytes: Uint8Array, at: number): boolean {
    const length = this.lengthOf(token);
    return at + length <= bytes.length && this.equals(token, bytes, at, length);
  }

  copyTo(token: number, target: Uint8Array, at: number): void {
    target.set(this.bytes.subarray(this.bounds[token]!, this.bounds[token + 1]!), at);
  }

  private findJoined(left: number, right: number): number {
    const middle = this.lengthOf(left);
    const length = middle + this.lengthOf(right);
    if (length > this.longest) return NONE;
    this.copyTo(left, this.scratch, 0);
    this.copyTo(right, this.scratch, middle);
    return this.findMade(this.scratch, 0, length);
  }

  private fillSlots(): number {
    const { bytes, bounds, slots, mask } = this;
    let longest = 0;
    for (let token = 0; token < this.size; token++) {
      const start = bounds[token]!;
      const end = bounds[token + 1]!;
      if (end - start > longest) longest = end - start;
      if (end - start === 1) this.ofByte[bytes[start]!] = token;
      const hash = hashOf(bytes, start, end);
      let slot = hash & mask;
      while (slots[slot * 2] !== 0) {
        if (slots[slot * 2 + 1] === hash && this.equals(slots[slot * 2]! - 1, bytes, start, end - start))
          throw new MapInvalidError("a token occurs twice");
        slot = (slot + 1) & mask;
      }
      slots[slot * 2] = token + 1;
      slots[slot * 2 + 1] = hash;
    }
    return longest;
  }

  private equals(token: number, bytes: Uint8Array, start: number, length: number): boolean {
    const own = this.bytes;
    const from = this.bounds[token]!;
    if (this.bounds[token + 1]! - from !== length) return false;
    for (let i = 0; i < length; i++) if (own[from + i] !== bytes[start + i]) return false;
    return true;
  }
}

function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = end - start;
  for (let i = start; i < end; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193);
  return hash ^ (hash >>> 15);
}

function indexById(ids: Uint32Array): Int32Array | Map<number, number> {
  let highest = 0;
  for (const id of ids) if (id > highest) highest = id;
  if (highest >= ids.length * SPARSE + 1024) return new Map(Array.from(ids, (id, token) => [id, token]));
  const index = new Int32Array(highest + 1).fill(NONE);
  for (let token = 0; token < ids.length; token++) index[ids[token]!] = token;
  return index;
}
