import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { MapInvalidError, TextError } from "../src/errors.js";
import { bundledMaps } from "../src/map.js";
import { familyScanner } from "../src/pattern-families.js";
import { compileMatcher, type PieceEnd } from "../src/pattern-matcher.js";
import { parsePattern } from "../src/pattern-syntax.js";
import { nastyText, seeded } from "./seeded.js";

function pieces(pieceEnd: PieceEnd, text: string): string[] {
  const bytes = Buffer.from(text);
  const found: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const stop = pieceEnd(bytes, at, bytes.length);
    if (stop <= at) throw new Error(`stuck at ${at} of ${JSON.stringify(text)}`);
    found.push(bytes.subarray(at, stop).toString());
    at = stop;
  }
  return found;
}

function cut(pattern: string, text: string): string[] {
  return pieces(compileMatcher(parsePattern(pattern)).pieceEnd, text);
}

describe("the general machine", () => {
  const patterns = bundledMaps()
    .map(({ path }) => (path.endsWith(".gz") ? gunzipSync(readFileSync(path)) : readFileSync(path)))
    .map((bytes) => JSON.parse(bytes.toString()).pre_tokenizer_pattern as string | undefined)
    .filter((pattern) => pattern !== undefined && familyScanner(pattern) !== undefined) as string[];

  it("has hand-written scanners for most bundled maps", () => expect(new Set(patterns).size).toBeGreaterThan(2));

  it.each([...new Set(patterns)])("cuts as the hand-written scanner does: %s", (pattern) => {
    const family = familyScanner(pattern)!;
    const { pieceEnd } = compileMatcher(parsePattern(pattern));
    const random = seeded(5);
    for (let i = 0; i < 1500; i++) {
      const text = nastyText(random);
      expect(pieces(pieceEnd, text)).toEqual(pieces(family, text));
    }
  });

  it.each([
    ["a|ab|b", "ab", ["a", "b"]],
    ["ab|a|b", "ab", ["ab"]],
    ["a{2}|a", "aaa", ["aa", "a"]],
    ["a{1,2}b|a", "aaab", ["a", "aab"]],
    ["a{2,}|.", "aab", ["aa", "b"]],
    ["a*?b|a", "aab", ["aab"]],
    ["a++b|a+|b", "aab", ["aab"]],
    ["a*+ab|a|b", "aab", ["a", "a", "b"]],
    ["(?>a|ab)c|.", "abc", ["a", "b", "c"]],
    ["(?:ab)+|.", "ababa", ["abab", "a"]],
    ["(?:ab)*+a|.", "ababa", ["ababa"]],
    ["a(?=b)|ab|.", "abaa", ["a", "b", "a", "a"]],
    ["\\s+(?!\\S)|\\s+|\\S+", "a   b", ["a", "  ", " ", "b"]],
    ["\\s++$|.", "a  ", ["a", "  "]],
    ["(?i:k)+|.", "kK\u212ax", ["kK\u212a", "x"]],
    ["(?i:[^s])|..", "x\u017fx", ["x", "\u017fx"]],
    ["[a-c\\-\\]]+|.", "a-]d", ["a-]", "d"]],
    ["[]a]+|.", "]a[", ["]a", "["]],
    ["[\\p{L}&&[^a]]+|.", "aba", ["a", "b", "a"]],
    ["[^\\p{Han}]+|\\p{Han}+", "a中b", ["a", "中", "b"]],
    ["\\x41\\u{1F600}|.", "A\u{1f600}", ["A\u{1f600}"]],
    ["\\d+|\\D+", "1٣a", ["1٣", "a"]],
    ["\\w+|\\W+", "a_1!?", ["a_1", "!?"]],
    ["\\P{L}+|\\pL+", "12ab", ["12", "ab"]],
  ])("%s cuts %j", (pattern, text, expected) => {
    expect(cut(pattern, text)).toEqual(expected);
  });

  it.each([
    "(",
    "a)",
    "[a",
    "a**",
    "*a",
    "a{2,1}",
    "a{99999}",
    "(?<=a)b",
    "(?<n>a)",
    "\\1",
    "\\bx",
    "^a",
    "\\p{Klingon}",
    "\\p{constructor}",
    "[[:alpha:]]",
    "[a--b]",
    "(?x: a)",
    "(?:a?)*",
    "\\u{110000}",
    "((((a{500}){500}){500}))",
  ])("refuses %s", (pattern) => {
    expect(() => compileMatcher(parsePattern(pattern))).toThrow(MapInvalidError);
  });

  it("gives up on a pattern that explodes, and says so", () => {
    const { pieceEnd } = compileMatcher(parsePattern("(?:a+)+b|a"));
    expect(() => pieceEnd(Buffer.from("a".repeat(60)), 0, 60)).toThrow(TextError);
  });

  it("repeats groups a million times", () => {
    expect(cut("(?:ab)+", "ab".repeat(500_000))).toHaveLength(1);
  });
});
