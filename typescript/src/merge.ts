/**
 * Merges a row of symbols in place, best rank first and the leftmost of equals, until no pair can be merged. Never
 * quadratic.
 */

/** Which pairs can be joined. A rank below zero means: not this pair. */
export interface PairRanks {
  rank(left: number, right: number): number;
  /** The symbol that a join of this rank makes. */
  joined(rank: number): number;
}

const SHORT = 96;
const NOT_JOINABLE = 0x7fffffff;

const shortRanks = new Int32Array(SHORT + 1);

/** Joins in place; gives the number of symbols that are left at the front of the row. */
export function mergeSymbols(row: Int32Array, count: number, pairs: PairRanks): number {
  return count <= SHORT ? mergeShort(row, count, pairs) : mergeLong(row, count, pairs);
}

/** Looks through all pairs for each join: the quickest way for the few symbols of an ordinary word. */
function mergeShort(row: Int32Array, count: number, pairs: PairRanks): number {
  const ranks = shortRanks;
  let left = count;
  for (let i = 0; i + 1 < left; i++) ranks[i] = rankOf(pairs, row[i]!, row[i + 1]!);
  for (;;) {
    let best = NOT_JOINABLE;
    let at = -1;
    for (let i = 0; i + 1 < left; i++) {
      if (ranks[i]! < best) {
        best = ranks[i]!;
        at = i;
      }
    }
    if (at < 0) return left;
    row[at] = pairs.joined(best);
    left--;
    for (let i = at + 1; i < left; i++) {
      row[i] = row[i + 1]!;
      ranks[i] = ranks[i + 1]!;
    }
    if (at + 1 < left) ranks[at] = rankOf(pairs, row[at]!, row[at + 1]!);
    if (at > 0) ranks[at - 1] = rankOf(pairs, row[at - 1]!, row[at]!);
  }
}

function rankOf(pairs: PairRanks, left: number, right: number): number {
  const rank = pairs.rank(left, right);
  return rank < 0 ? NOT_JOINABLE : rank;
}

/**
 * Keeps the places of equal rank together, and a heap of the ranks only: a megabyte of one letter has a million places
 * but a handful of ranks. Places are found from left to right, so they are mostly in order as they come.
 */
function mergeLong(row: Int32Array, count: number, pairs: PairRanks): number {
  const next = new Int32Array(count);
  const previous = new Int32Array(count);
  const rankAt = new Int32Array(count);
  const queue = new RankQueue();

  function offer(place: number): void {
    const behind = next[place]!;
    const rank = behind < count ? rankOf(pairs, row[place]!, row[behind]!) : NOT_JOINABLE;
    rankAt[place] = rank;
    if (rank !== NOT_JOINABLE) queue.add(rank, place);
  }

  for (let i = 0; i < count; i++) {
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  for (let i = 0; i < count; i++) offer(i);
  for (let rank = queue.best(); rank >= 0; rank = queue.best()) {
    const place = queue.take(rank);
    // A place is stale once one of its two symbols was joined elsewhere.
    if (place < 0 || rankAt[place] !== rank) continue;
    const gone = next[place]!;
    row[place] = pairs.joined(rank);
    rankAt[gone] = NOT_JOINABLE;
    next[place] = next[gone]!;
    if (next[place]! < count) previous[next[place]!] = place;
    if (previous[place]! >= 0) offer(previous[place]!);
    offer(place);
  }
  let left = 0;
  for (let place = 0; place < count; place = next[place]!) row[left++] = row[place]!;
  return left;
}

/** Places by rank. Within a rank the leftmost place comes first. */
class RankQueue {
  private readonly places = new Map<number, Places>();
  private readonly heap: number[] = [];

  add(rank: number, place: number): void {
    let places = this.places.get(rank);
    if (places === undefined) {
      places = new Places();
      this.places.set(rank, places);
      this.push(rank);
    }
    places.add(place);
  }

  /** The best rank that still has places, or -1. */
  best(): number {
    return this.heap[0] ?? -1;
  }

  /** The leftmost place of the best rank; -1 where there was none left, and then the rank is gone. */
  take(rank: number): number {
    const place = this.places.get(rank)!.take();
    if (place < 0) {
      this.places.delete(rank);
      this.pop();
    }
    return place;
  }

  private push(rank: number): void {
    const heap = this.heap;
    let at = heap.push(rank) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (heap[parent]! <= rank) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = rank;
  }

  private pop(): void {
    const heap = this.heap;
    const rank = heap.pop()!;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child++;
      if (heap[child]! >= rank) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = rank;
  }
}

/** A growing list of places that is put in order only when something came in out of order. */
class Places {
  private list = new Int32Array(4);
  private first = 0;
  private end = 0;
  private ordered = true;

  add(place: number): void {
    if (this.end === this.list.length) this.grow();
    if (this.end > this.first && this.list[this.end - 1]! > place) this.ordered = false;
    this.list[this.end++] = place;
  }

  take(): number {
    if (this.first === this.end) return -1;
    if (!this.ordered) {
      this.list.subarray(this.first, this.end).sort();
      this.ordered = true;
    }
    return this.list[this.first++]!;
  }

  private grow(): void {
    const live = this.list.subarray(this.first, this.end);
    const wider = live.length * 2 > this.list.length ? new Int32Array(this.list.length * 2) : this.list;
    wider.set(live);
    this.list = wider;
    this.end = live.length;
    this.first = 0;
  }
}
