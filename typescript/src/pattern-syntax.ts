/**
 * Parses a pre_tokenizer_pattern into a syntax tree. Throws MapInvalidError for unsupported syntax: a guess would give
 * wrong ids.
 */

import type { CodePointSet } from "./code-point-set.js";
import * as points from "./code-point-set.js";
import { MapInvalidError } from "./errors.js";

export type Node =
  | { kind: "set"; set: CodePointSet }
  | { kind: "sequence"; nodes: readonly Node[] }
  | { kind: "choice"; nodes: readonly Node[] }
  | { kind: "repeat"; node: Node; min: number; max: number; mode: "greedy" | "lazy" | "possessive" }
  | { kind: "look"; node: Node; negative: boolean }
  | { kind: "atomic"; node: Node }
  | { kind: "end" };

const MAX_REPEAT = 1000;
const CONTROL: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11, a: 7 };
const LONG_NAMES = new Map([
  ["Letter", "L"],
  ["Mark", "M"],
  ["Number", "N"],
  ["Punctuation", "P"],
  ["Symbol", "S"],
  ["Separator", "Z"],
  ["Other", "C"],
  ["Uppercase_Letter", "Lu"],
  ["Lowercase_Letter", "Ll"],
  ["Titlecase_Letter", "Lt"],
  ["Modifier_Letter", "Lm"],
  ["Other_Letter", "Lo"],
  ["Decimal_Number", "Nd"],
]);

export function parsePattern(pattern: string): Node {
  return new Parser(pattern).whole();
}

class Parser {
  private readonly chars: readonly string[];
  private at = 0;
  private ignoreCase = false;

  constructor(private readonly pattern: string) {
    this.chars = [...pattern];
  }

  whole(): Node {
    const node = this.choice();
    if (this.at < this.chars.length) throw this.refuse("an unmatched )");
    return node;
  }

  private refuse(what: string): MapInvalidError {
    return new MapInvalidError(`pattern ${JSON.stringify(this.pattern.slice(0, 200))}: ${what} at ${this.at}`);
  }

  private peek(text: string): boolean {
    for (let i = 0; i < text.length; i++) if (this.chars[this.at + i] !== text[i]) return false;
    return true;
  }

  private take(text: string): boolean {
    if (!this.peek(text)) return false;
    this.at += text.length;
    return true;
  }

  private next(): string {
    const char = this.chars[this.at];
    if (char === undefined) throw this.refuse("an early end");
    this.at++;
    return char;
  }

  private choice(): Node {
    const nodes = [this.sequence()];
    while (this.take("|")) nodes.push(this.sequence());
    return nodes.length === 1 ? nodes[0]! : { kind: "choice", nodes };
  }

  private sequence(): Node {
    const nodes: Node[] = [];
    while (this.at < this.chars.length && !this.peek("|") && !this.peek(")")) nodes.push(this.repeated());
    return nodes.length === 1 ? nodes[0]! : { kind: "sequence", nodes };
  }

  private repeated(): Node {
    const node = this.atom();
    const counts = this.counts();
    if (counts === null) return node;
    if (node.kind === "look" || node.kind === "end") throw this.refuse("a repeated assertion");
    const mode = this.take("?") ? "lazy" : this.take("+") ? "possessive" : "greedy";
    if (["*", "+", "?", "{"].some((sign) => this.peek(sign))) throw this.refuse("a repeated repetition");
    return { kind: "repeat", node, min: counts[0], max: counts[1], mode };
  }

  private counts(): [number, number] | null {
    if (this.take("*")) return [0, Number.POSITIVE_INFINITY];
    if (this.take("+")) return [1, Number.POSITIVE_INFINITY];
    if (this.take("?")) return [0, 1];
    if (!this.take("{")) return null;
    const min = this.number();
    let max = min;
    if (this.take(",")) max = this.peek("}") ? Number.POSITIVE_INFINITY : this.number();
    if (!this.take("}") || max < min || min > MAX_REPEAT || (max > MAX_REPEAT && Number.isFinite(max)))
      throw this.refuse("an unusable repetition");
    return [min, max];
  }

  private number(): number {
    let digits = "";
    while (/^[0-9]$/.test(this.chars[this.at] ?? "")) digits += this.next();
    if (digits === "" || digits.length > 6) throw this.refuse("an unusable repetition");
    return Number(digits);
  }

  private atom(): Node {
    if (this.take("(")) return this.group();
    if (this.take("[")) return { kind: "set", set: this.bracket() };
    if (this.take("$")) return { kind: "end" };
    if (this.take(".")) return { kind: "set", set: points.complement(points.range(10, 10)) };
    const char = this.next();
    if (char === "\\") return this.escapedAtom();
    if ("*+?{}^]".includes(char)) throw this.refuse(`an unsupported ${char}`);
    return this.literal(char.codePointAt(0)!);
  }

  private escapedAtom(): Node {
    if (this.take("z")) return { kind: "end" };
    const escaped = this.escape();
    return typeof escaped === "number" ? this.literal(escaped) : { kind: "set", set: this.folded(escaped) };
  }

  private literal(point: number): Node {
    return { kind: "set", set: this.folded(points.range(point, point)) };
  }

  private folded(set: CodePointSet): CodePointSet {
    return this.ignoreCase ? points.withCaseVariants(set) : set;
  }

  private group(): Node {
    const outer = this.ignoreCase;
    const wrap = this.groupOpening();
    const node = wrap(this.choice());
    if (!this.take(")")) throw this.refuse("a missing )");
    this.ignoreCase = outer;
    return node;
  }

  private groupOpening(): (node: Node) => Node {
    if (!this.take("?")) return (node) => node;
    if (this.take(":")) return (node) => node;
    if (this.take("=")) return (node) => ({ kind: "look", node, negative: false });
    if (this.take("!")) return (node) => ({ kind: "look", node, negative: true });
    if (this.take(">")) return (node) => ({ kind: "atomic", node });
    if (this.take("i:")) this.ignoreCase = true;
    else if (this.take("-i:")) this.ignoreCase = false;
    else throw this.refuse("an unsupported group");
    return (node) => node;
  }

  /** A class, its opening bracket already taken. */
  private bracket(): CodePointSet {
    const negated = this.take("^");
    let set = this.bracketItems(true);
    while (this.take("&&")) set = points.intersection(set, this.bracketItems(false));
    if (!this.take("]")) throw this.refuse("a missing ]");
    const folded = this.folded(set);
    return negated ? points.complement(folded) : folded;
  }

  private bracketItems(first: boolean): CodePointSet {
    const items: CodePointSet[] = [];
    if (first && this.take("]")) items.push(points.range(0x5d, 0x5d));
    while (!this.peek("]") && !this.peek("&&")) {
      if (this.peek("[:") || this.peek("--") || this.peek("~~")) throw this.refuse("an unsupported class");
      items.push(this.take("[") ? this.bracket() : this.bracketItem());
    }
    return points.union(...items);
  }

  private bracketItem(): CodePointSet {
    const first = this.bracketPoint();
    if (typeof first !== "number") return first;
    if (!this.peek("-") || this.chars[this.at + 1] === "]") return points.range(first, first);
    this.at++;
    const last = this.bracketPoint();
    if (typeof last !== "number" || last < first) throw this.refuse("an unusable range");
    return points.range(first, last);
  }

  private bracketPoint(): number | CodePointSet {
    const char = this.next();
    return char === "\\" ? this.escape() : char.codePointAt(0)!;
  }

  /** What follows a backslash: a code point, or a set of them. */
  private escape(): number | CodePointSet {
    const char = this.next();
    if (char === "p" || char === "P") return this.namedProperty(char === "P");
    if (char === "s" || char === "S") return this.shorthand("White_Space", char === "S");
    if (char === "d" || char === "D") return this.shorthand("Nd", char === "D");
    if (char === "w" || char === "W") return this.shorthand("Word", char === "W");
    if (char === "x" || char === "u") return this.hexadecimal(char === "x" ? 2 : 4);
    if (Object.hasOwn(CONTROL, char)) return CONTROL[char]!;
    if (/^[A-Za-z0-9]$/.test(char)) throw this.refuse(`an unsupported escape \\${char}`);
    return char.codePointAt(0)!;
  }

  private shorthand(name: string, negated: boolean): CodePointSet {
    const set = points.property(name)!;
    return negated ? points.complement(set) : set;
  }

  private hexadecimal(width: number): number {
    let digits = "";
    if (this.take("{")) while (!this.take("}")) digits += this.next();
    else for (let i = 0; i < width; i++) digits += this.next();
    const point = /^[0-9A-Fa-f]{1,6}$/.test(digits) ? Number.parseInt(digits, 16) : points.LIMIT;
    if (point >= points.LIMIT) throw this.refuse("an unusable code point");
    return point;
  }

  private namedProperty(negatedByLetter: boolean): CodePointSet {
    let name = this.next();
    if (name === "{") {
      name = "";
      while (!this.take("}")) name += this.next();
    }
    const negated = negatedByLetter !== name.startsWith("^");
    const bare = name.replace(/^\^/, "").replace(/^(?:gc|General_Category|sc|Script)=/, "");
    const set = points.property(LONG_NAMES.get(bare) ?? bare);
    if (set === undefined) throw this.refuse(`an unsupported property ${name}`);
    return negated ? points.complement(set) : set;
  }
}
