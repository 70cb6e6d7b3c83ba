/**
 * Sets of code points by property name or range, and their algebra. A set is a flat, sorted list of borders:
 * [first, end, first, end, …], each end exclusive.
 */
import { CASE_VARIANTS, PROPERTIES } from "./unicode-tables.js";

export type CodePointSet = readonly number[];

export const LIMIT = 0x110000;
export const EMPTY: CodePointSet = [];

export function range(first: number, last: number): CodePointSet {
  return [first, last + 1];
}

export function union(...sets: readonly CodePointSet[]): CodePointSet {
  const pairs: Array<[number, number]> = [];
  for (const set of sets) for (let i = 0; i < set.length; i += 2) pairs.push([set[i]!, set[i + 1]!]);
  pairs.sort((a, b) => a[0] - b[0]);
  const out: number[] = [];
  for (const [first, end] of pairs) {
    const last = out.length - 1;
    if (last > 0 && first <= out[last]!) out[last] = Math.max(out[last]!, end);
    else out.push(first, end);
  }
  return out;
}

export function complement(set: CodePointSet): CodePointSet {
  const out = set[0] === 0 ? set.slice(1) : [0, ...set];
  return out.at(-1) === LIMIT ? out.slice(0, -1) : [...out, LIMIT];
}

export function intersection(a: CodePointSet, b: CodePointSet): CodePointSet {
  return complement(union(complement(a), complement(b)));
}

export function contains(set: CodePointSet, point: number): boolean {
  let low = 0;
  let high = set.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (set[middle]! <= point) low = middle + 1;
    else high = middle;
  }
  return (low & 1) === 1;
}

/** The set with every simple case variant of its members. */
export function withCaseVariants(set: CodePointSet): CodePointSet {
  const added = caseVariants().filter((orbit) => orbit.some((point) => contains(set, point)));
  return added.length === 0 ? set : union(set, ...added.flatMap((orbit) => orbit.map((point) => range(point, point))));
}

/** The set of a property by its name, or undefined if there is no table for it. */
export function property(name: string): CodePointSet | undefined {
  const cached = cache.get(name);
  if (cached !== undefined) return cached;
  const made = makeProperty(name);
  if (made !== undefined) cache.set(name, made);
  return made;
}

const cache = new Map<string, CodePointSet>();

function makeProperty(name: string): CodePointSet | undefined {
  const packed = Object.hasOwn(PROPERTIES, name) ? PROPERTIES[name] : undefined;
  if (packed !== undefined) return unpack(packed);
  // A general category of one letter is the union of its two-letter parts; what no part holds is unassigned.
  if (name === "Cn") return complement(union(...partsOf("").map((part) => property(part)!)));
  if (name === "C") return union(...partsOf("C").map((part) => property(part)!), property("Cn")!);
  if (!/^[LMNPSZ]$/.test(name)) return undefined;
  return union(...partsOf(name).map((part) => property(part)!));
}

function partsOf(category: string): string[] {
  return Object.keys(PROPERTIES).filter((name) => name.length === 2 && name.startsWith(category));
}

function unpack(packed: string): CodePointSet {
  const out: number[] = [];
  let at = 0;
  for (const part of packed.split(" ")) {
    const dot = part.indexOf(".");
    const first = at + Number.parseInt(dot < 0 ? part : part.slice(0, dot), 36);
    at = first + 1 + (dot < 0 ? 0 : Number.parseInt(part.slice(dot + 1), 36));
    out.push(first, at);
  }
  return out;
}

let orbits: number[][] | undefined;

function caseVariants(): number[][] {
  orbits ??= CASE_VARIANTS.split(" ").map((orbit) => orbit.split(".").map((point) => Number.parseInt(point, 36)));
  return orbits;
}
