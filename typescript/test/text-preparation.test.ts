import { describe, expect, it } from "vitest";
import { makeMetaTokenizer, TextError } from "../src/index.js";
import { AddedTokens, normalize } from "../src/text-preparation.js";

const nfkc = await makeMetaTokenizer({ mapUrl: "toy-nfkc" });

describe("a map with a normalizer", () => {
  it("gives a text the ids of its normalized form", () => {
    expect(nfkc.encode("\ufb01 \u2460")).toEqual(nfkc.encode("fi 1"));
    expect(nfkc.decode(nfkc.encode("\ufb01 \u2460"))).toBe("fi 1");
  });

  it.each(["decode", "canonical"] as const)("checks ids against the normalized form, at level %s", (level) => {
    const reason = (text: string, ids: readonly number[]) => nfkc.check(text, ids, { level }).reason;
    expect(reason("\ufb01", nfkc.encode("fi"))).toBeNull();
    expect(reason("\ufb02", nfkc.encode("fi"))).toBe("text-mismatch");
    // One character of three bytes, and two of one byte each.
    expect(reason("\ufb01", [102, 105, 105])).toBe("too-many-ids");
  });

  it("refuses what engines normalize differently", () => {
    expect(() => nfkc.encode("a \u32ff")).toThrow(TextError);
    expect(() => nfkc.encode("a \u32ff")).toThrow(/U\+32FF/);
    expect(nfkc.check("a \u32ff", [97]).reason).toBe("bad-text");
    expect(normalize("\u32ff", null)).toBe("\u32ff");
    expect(normalize("e\u0301 \ufb01", "nfc")).toBe("\u00e9 \ufb01");
  });
});

describe("added tokens", () => {
  const added = new AddedTokens(
    new Map([
      ["<b>", 1],
      ["<b", 2],
      ["\n\n", 3],
      ["$.[x]-/", 4],
    ]),
  );
  const encode = (text: string) =>
    added.encode(text, (stretch) => Array.from(stretch, (char) => -char.codePointAt(0)!));

  it.each<[string, number[]]>([
    ["", []],
    ["xy", [-120, -121]],
    ["<b>x<b", [1, -120, 2]],
    ["\n\n\n", [3, -10]],
    ["a$.[x]-/", [-97, 4]],
    ["<<b>>", [-60, 1, -62]],
  ])("are the longest that stand at a place, from the left: %j", (text, ids) => {
    expect(encode(text)).toEqual(ids);
  });

  it("stand between stretches of any length", () => {
    const long = "x".repeat(300_000);
    expect(encode(`${long}<b>${long}`)).toHaveLength(600_001);
  });
});
