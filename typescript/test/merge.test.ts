import { describe, expect, it } from "vitest";
import { mergeSymbols, type PairRanks } from "../src/merge.js";
import { seeded } from "./seeded.js";

/** The textbook: look at all pairs, join the best, begin again. */
function naive(row: number[], pairs: PairRanks): number[] {
  const left = [...row];
  for (;;) {
    let best = Number.POSITIVE_INFINITY;
    let at = -1;
    for (let i = 0; i + 1 < left.length; i++) {
      const rank = pairs.rank(left[i]!, left[i + 1]!);
      if (rank >= 0 && rank < best) {
        best = rank;
        at = i;
      }
    }
    if (at < 0) return left;
    left.splice(at, 2, pairs.joined(best));
  }
}

/** Symbols are strings over two letters; every string up to five letters is a token, of a rank drawn by lot. */
function randomPairs(random: () => number): { pairs: PairRanks; symbol: (text: string) => number } {
  const texts: string[] = [];
  for (let length = 1; length <= 5; length++)
    for (let bits = 0; bits < 2 ** length; bits++)
      if (length === 1 || random() < 0.6) texts.push(bits.toString(2).padStart(length, "0"));
  const order = texts.map((text) => [random(), text] as const).sort((a, b) => a[0] - b[0]);
  const rankOf = new Map(order.map(([, text], rank) => [text, rank]));
  const textOf = order.map(([, text]) => text);
  return {
    symbol: (text) => rankOf.get(text)!,
    pairs: { rank: (a, b) => rankOf.get(textOf[a]! + textOf[b]!) ?? -1, joined: (rank) => rank },
  };
}

describe("joining", () => {
  it("equals the textbook, for short rows and for long ones", () => {
    const random = seeded(3);
    for (let i = 0; i < 300; i++) {
      const { pairs, symbol } = randomPairs(random);
      const length = i % 3 === 0 ? 97 + Math.floor(random() * 200) : Math.floor(random() * 97);
      const odds = random();
      const row = Array.from({ length }, () => symbol(random() < odds ? "0" : "1"));
      const own = Int32Array.from(row);
      const left = mergeSymbols(own, own.length, pairs);
      expect([...own.subarray(0, left)]).toEqual(naive(row, pairs));
    }
  });
});
