/**
 * In: text. Out: an upper bound on its cl100k_base tokens, and the beginning that a bound leaves room for (spec 1.6).
 * Touches nothing. No tokenizer is needed: an id has to be the same where no map is at hand.
 */

// Two neighbours of the first class always merge into one token of cl100k_base; of the others that is not certain.
const RUNS = /([abcdehiklmnoprstuwy]+)|([0-9]+)|./gsu;

export function idWeight(text: string): number {
  let weight = 0;
  for (const run of text.matchAll(RUNS)) weight += runWeight(run);
  return weight;
}

/** The longest beginning that weighs at most `room`. */
export function cutToWeight(text: string, room: number): string {
  let left = room;
  for (const run of text.matchAll(RUNS)) {
    const weight = runWeight(run);
    if (weight > left) return text.slice(0, run.index + fitting(run, left));
    left -= weight;
  }
  return text;
}

function runWeight([run, letters, digits]: RegExpMatchArray): number {
  if (letters !== undefined) return Math.floor((2 * run.length + 1) / 3);
  return digits === undefined ? 1 : Math.ceil(run.length / 3);
}

/** How many characters of a run too heavy for `room` it has room for: the inverse of the weight. */
function fitting([, letters, digits]: RegExpMatchArray, room: number): number {
  if (letters !== undefined) return Math.floor((3 * room + 1) / 2);
  return digits === undefined ? 0 : 3 * room;
}
