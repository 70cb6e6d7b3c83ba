/**
 * Compiles the syntax tree of a pattern into a function that finds the end of a piece in UTF-8 text. A backtracking
 * machine with an explicit stack: no input can overflow it, and a run of one class takes one entry.
 */

import type { CodePointSet } from "./code-point-set.js";
import * as points from "./code-point-set.js";
import { MapInvalidError, TextError } from "./errors.js";
import type { Node } from "./pattern-syntax.js";

/** The end of the piece that starts at `start`, or -1 where nothing matches. */
export type PieceEnd = (bytes: Uint8Array, start: number, end: number) => number;

export interface Matcher {
  pieceEnd: PieceEnd;
  /** One code point of each class that the pattern distinguishes, for a self-test. */
  samples: readonly number[];
}

const MAX_PROGRAM = 20_000;
// Enough for any tokenizer's pattern on any text; a pattern that needs more is of the exponential kind.
const MAX_STEPS_PER_BYTE = 64;

const SET = 0; // set
const LOOP = 1; // set, min, max, possessive
const SPLIT = 2; // first choice, second choice
const JUMP = 3; // target
const LOOK = 4; // negative, target behind the body
const ATOMIC = 5; // target behind the body
const END = 6;
const MATCH = 7;

export function compileMatcher(tree: Node): Matcher {
  const compiler = new Compiler();
  compiler.node(tree);
  compiler.emit(MATCH);
  const { classOf, members, samples } = classify(compiler.sets);
  return { pieceEnd: machine(Int32Array.from(compiler.program), classOf, members), samples };
}

class Compiler {
  readonly program: number[] = [];
  readonly sets: CodePointSet[] = [];
  private readonly indexOfSet = new Map<string, number>();

  emit(...words: number[]): void {
    this.program.push(...words);
    if (this.program.length > MAX_PROGRAM) throw new MapInvalidError("the pattern is too large");
  }

  node(node: Node): void {
    switch (node.kind) {
      case "set":
        this.emit(SET, this.setIndex(node.set));
        break;
      case "sequence":
        for (const part of node.nodes) this.node(part);
        break;
      case "choice":
        this.choice(node.nodes);
        break;
      case "repeat":
        this.repeat(node);
        break;
      case "look":
        this.enclosed([LOOK, node.negative ? 1 : 0], node.node);
        break;
      case "atomic":
        this.enclosed([ATOMIC], node.node);
        break;
      case "end":
        this.emit(END);
    }
  }

  private setIndex(set: CodePointSet): number {
    const key = set.join();
    const index = this.indexOfSet.get(key) ?? this.sets.push(set) - 1;
    this.indexOfSet.set(key, index);
    return index;
  }

  /** A body that runs on its own and ends in MATCH; the opening names the place behind it. */
  private enclosed(opening: number[], body: Node): void {
    this.emit(...opening, 0);
    const target = this.program.length - 1;
    this.node(body);
    this.emit(MATCH);
    this.program[target] = this.program.length;
  }

  private choice(nodes: readonly Node[]): void {
    const jumps: number[] = [];
    for (const node of nodes.slice(0, -1)) {
      this.emit(SPLIT, this.program.length + 3, 0);
      const second = this.program.length - 1;
      this.node(node);
      this.emit(JUMP, 0);
      jumps.push(this.program.length - 1);
      this.program[second] = this.program.length;
    }
    this.node(nodes.at(-1)!);
    for (const jump of jumps) this.program[jump] = this.program.length;
  }

  private repeat(repeat: Node & { kind: "repeat" }): void {
    const { node, min, max, mode } = repeat;
    if (node.kind === "set" && mode !== "lazy") {
      const most = Number.isFinite(max) ? max : 0x7fffffff;
      this.emit(LOOP, this.setIndex(node.set), min, most, mode === "possessive" ? 1 : 0);
    } else if (mode === "possessive") {
      this.enclosed([ATOMIC], { ...repeat, mode: "greedy" });
    } else {
      for (let i = 0; i < min; i++) this.node(node);
      if (Number.isFinite(max)) this.optional(node, max - min, mode === "lazy");
      else this.forever(node, mode === "lazy");
    }
  }

  private optional(node: Node, times: number, lazy: boolean): void {
    const exits: number[] = [];
    for (let i = 0; i < times; i++) {
      exits.push(this.split(lazy));
      this.node(node);
    }
    for (const exit of exits) this.program[exit] = this.program.length;
  }

  private forever(node: Node, lazy: boolean): void {
    if (canBeEmpty(node)) throw new MapInvalidError("the pattern repeats without end what may be empty");
    const start = this.program.length;
    const exit = this.split(lazy);
    this.node(node);
    this.emit(JUMP, start);
    this.program[exit] = this.program.length;
  }

  /** A fork between the next instruction and an exit; gives the place where the exit is to be written. */
  private split(lazy: boolean): number {
    const next = this.program.length + 3;
    this.emit(SPLIT, lazy ? 0 : next, lazy ? next : 0);
    return this.program.length - (lazy ? 2 : 1);
  }
}

function canBeEmpty(node: Node): boolean {
  switch (node.kind) {
    case "set":
      return false;
    case "sequence":
      return node.nodes.every(canBeEmpty);
    case "choice":
      return node.nodes.some(canBeEmpty);
    case "repeat":
      return node.min === 0 || canBeEmpty(node.node);
    case "atomic":
      return canBeEmpty(node.node);
    default:
      return true;
  }
}

/** Code points that are in the same sets are one class: a byte per code point answers for all sets. */
function classify(sets: readonly CodePointSet[]) {
  const borders = [...new Set([0, 0xd800, 0xe000, points.LIMIT, ...sets.flat()])].sort((a, b) => a - b);
  const classOf = new Uint8Array(points.LIMIT);
  const classes = new Map<string, number>();
  const samples: number[] = [];
  const rows: boolean[][] = [];
  for (let i = 0; i + 1 < borders.length; i++) {
    const first = borders[i]!;
    if (first === 0xd800) continue;
    const row = sets.map((set) => points.contains(set, first));
    const key = row.map(Number).join("");
    const number = classes.get(key) ?? samples.length;
    if (number === samples.length) {
      if (number === 256) throw new MapInvalidError("the pattern distinguishes too many classes of characters");
      classes.set(key, number);
      samples.push(first);
      rows.push(row);
    }
    classOf.fill(number, first, borders[i + 1]!);
  }
  const members = new Uint8Array(256 * Math.max(1, sets.length));
  rows.forEach((row, index) => {
    row.forEach((member, set) => {
      members[set * 256 + index] = member ? 1 : 0;
    });
  });
  return { classOf, members, samples };
}

function machine(program: Int32Array, classOf: Uint8Array, members: Uint8Array): PieceEnd {
  let stack = new Int32Array(3 * 1024);
  let top = 0;
  let steps = 0;

  function push(pc: number, at: number, low: number): void {
    if (top + 3 > stack.length) {
      const wider = new Int32Array(stack.length * 2);
      wider.set(stack);
      stack = wider;
    }
    stack[top++] = pc;
    stack[top++] = at;
    stack[top++] = low;
  }

  /** Runs from one instruction to its MATCH; restores the stack. */
  function run(from: number, start: number, bytes: Uint8Array, end: number): number {
    const bottom = top;
    let pc = from;
    let at = start;
    for (;;) {
      if (--steps < 0) throw new TextError("the map's pattern takes too many steps on this text");
      let fits = true;
      switch (program[pc]!) {
        case SET: {
          const after = at < end ? step(program[pc + 1]!, at, bytes) : -1;
          fits = after >= 0;
          at = after;
          pc += 2;
          break;
        }
        case LOOP: {
          const set = program[pc + 1]!;
          const min = program[pc + 2]!;
          const max = program[pc + 3]!;
          let count = 0;
          let low = min === 0 ? at : -1;
          while (count < max && at < end) {
            const after = step(set, at, bytes);
            if (after < 0) break;
            at = after;
            if (++count === min) low = at;
          }
          steps -= count;
          fits = count >= min;
          if (fits && program[pc + 4] === 0 && at > low) push(pc + 5, at, low);
          pc += 5;
          break;
        }
        case SPLIT:
          push(program[pc + 2]!, at, -1);
          pc = program[pc + 1]!;
          break;
        case JUMP:
          pc = program[pc + 1]!;
          break;
        case LOOK: {
          const matches = run(pc + 3, at, bytes, end) >= 0;
          fits = matches !== (program[pc + 1] === 1);
          pc = program[pc + 2]!;
          break;
        }
        case ATOMIC:
          at = run(pc + 2, at, bytes, end);
          fits = at >= 0;
          pc = program[pc + 1]!;
          break;
        case END:
          fits = at === end;
          pc += 1;
          break;
        default:
          top = bottom;
          return at;
      }
      if (fits) continue;
      if (top === bottom) return -1;
      const low = stack[--top]!;
      at = stack[--top]!;
      pc = stack[--top]!;
      if (low < 0) continue;
      // A run gives one character back, and stays on the stack as long as it has more to give.
      do at--;
      while ((bytes[at]! & 0xc0) === 0x80);
      if (at > low) push(pc, at, low);
    }
  }

  function step(set: number, at: number, bytes: Uint8Array): number {
    const lead = bytes[at]!;
    if (lead < 0x80) return members[set * 256 + classOf[lead]!] === 1 ? at + 1 : -1;
    const point = codePointAt(bytes, at);
    return members[set * 256 + classOf[point]!] === 1 ? at + widthOf(lead) : -1;
  }

  return (bytes, start, end) => {
    top = 0;
    steps = 100_000 + (end - start) * MAX_STEPS_PER_BYTE;
    return run(0, start, bytes, end);
  };
}

/** The code point whose UTF-8 starts here; the bytes are known to be well formed. */
export function codePointAt(bytes: Uint8Array, at: number): number {
  const lead = bytes[at]!;
  if (lead < 0x80) return lead;
  if (lead < 0xe0) return ((lead & 0x1f) << 6) | (bytes[at + 1]! & 0x3f);
  if (lead < 0xf0) return ((lead & 0x0f) << 12) | ((bytes[at + 1]! & 0x3f) << 6) | (bytes[at + 2]! & 0x3f);
  return (
    ((lead & 0x07) << 18) | ((bytes[at + 1]! & 0x3f) << 12) | ((bytes[at + 2]! & 0x3f) << 6) | (bytes[at + 3]! & 0x3f)
  );
}

export function widthOf(lead: number): number {
  return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}
