/**
 * Remembers the ids of pieces that are not single tokens. One slot per hash, and the newer piece wins: bounded without
 * bookkeeping.
 */
const SLOTS = 1 << 12;
const MAX_BYTES = 32;
const MAX_IDS = 16;

export class PieceCache {
  private readonly lengths = new Uint8Array(SLOTS);
  private readonly counts = new Uint8Array(SLOTS);
  private readonly bytes = new Uint8Array(SLOTS * MAX_BYTES);
  private readonly ids = new Uint32Array(SLOTS * MAX_IDS);

  /** Appends the ids of this piece, if it is known. */
  recall(bytes: Uint8Array, start: number, stop: number, out: number[]): boolean {
    const length = stop - start;
    if (length > MAX_BYTES) return false;
    const slot = slotOf(bytes, start, stop);
    if (this.lengths[slot] !== length) return false;
    const own = slot * MAX_BYTES;
    for (let i = 0; i < length; i++) if (this.bytes[own + i] !== bytes[start + i]) return false;
    const first = slot * MAX_IDS;
    const count = this.counts[slot]!;
    for (let i = 0; i < count; i++) out.push(this.ids[first + i]!);
    return true;
  }

  /** Keeps the ids of this piece: all of `out` from `first` on. */
  remember(bytes: Uint8Array, start: number, stop: number, out: readonly number[], first: number): void {
    const length = stop - start;
    const count = out.length - first;
    if (length > MAX_BYTES || count > MAX_IDS) return;
    const slot = slotOf(bytes, start, stop);
    this.lengths[slot] = length;
    this.counts[slot] = count;
    for (let i = 0; i < length; i++) this.bytes[slot * MAX_BYTES + i] = bytes[start + i]!;
    for (let i = 0; i < count; i++) this.ids[slot * MAX_IDS + i] = out[first + i]!;
  }
}

function slotOf(bytes: Uint8Array, start: number, stop: number): number {
  let hash = 0x811c9dc5;
  for (let i = start; i < stop; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193);
  return (hash ^ (hash >>> 15)) & (SLOTS - 1);
}
