import { beforeAll, describe, expect, it } from "vitest";
import { IdsError, type LoadedTokenizer, makeMetaTokenizer, TextError } from "../src/index.js";
import frozen from "./frozen-ids.json" with { type: "json" };
import { nastyText, seeded } from "./seeded.js";

const MAPS = Object.keys(frozen) as Array<keyof typeof frozen>;

describe.each(MAPS)("%s", (id) => {
  let tokenizer: LoadedTokenizer;

  beforeAll(async () => {
    tokenizer = await makeMetaTokenizer({ mapUrl: id });
  });

  it("gives the ids that tiktoken gave", () => {
    for (const [text, ids] of frozen[id] as Array<[string, number[]]>) {
      expect(tokenizer.encode(text), JSON.stringify(text)).toEqual(ids);
    }
  });

  it("decodes what it encodes, and believes it", () => {
    const random = seeded(11);
    for (let i = 0; i < 500; i++) {
      const text = nastyText(random);
      const ids = tokenizer.encode(text);
      expect(tokenizer.decode(ids)).toBe(text);
      if (text !== "") expect(tokenizer.check(text, ids).reason).toBeNull();
    }
  });

  it("gives no other ids when the piece comes back", () => {
    const word = "qzxjvkwpy-unheard-of";
    const first = tokenizer.encode(word);
    expect(tokenizer.encode(word)).toEqual(first);
    expect(tokenizer.encode(`${word}\n${word}`).slice(0, first.length)).toEqual(first);
  });

  it("takes long runs of one character", () => {
    for (const unit of ["a", " ", "7", "\n", "中", "\u{1f600}", "\u0301", "A", "-"]) {
      const text = unit.repeat(200_000);
      expect(tokenizer.decode(tokenizer.encode(text)) === text).toBe(true);
    }
  });

  it("has no ids for lone surrogates", () => {
    for (const text of ["\ud800", "a\udc00b", "\udc00\ud800", `${"x".repeat(500_000)}\ud83d`])
      expect(() => tokenizer.encode(text)).toThrow(TextError);
  });
});

describe("the toy map, checked by hand", () => {
  let toy: LoadedTokenizer;

  beforeAll(async () => {
    toy = await makeMetaTokenizer({ mapUrl: "toy" });
  });

  it("knows its facts", () => {
    expect(toy.map).toEqual({ name: "toy", encoder: "byte_level", warnings: [] });
    expect(toy.encode("the cat")).toEqual([261, 264]);
    expect(toy.encode("")).toEqual([]);
    expect(toy.decode([])).toBe("");
  });

  it("keeps special tokens out of text", () => {
    expect(toy.encode("<|stop|>")).not.toContain(300);
  });

  it.each([
    [[300], "special-id"],
    [[299], "unknown-id"],
    [[-1], "negative"],
    [[4294967296], "too-large"],
    [[1.5], "not-integer"],
    [["97"], "not-integer"],
    [[true], "not-integer"],
    [[200], "bad-text"],
  ])("does not decode %j: %s", (ids, reason) => {
    expect(() => toy.decode(ids as number[])).toThrow(expect.objectContaining({ name: "IdsError", reason }));
    expect(new IdsError("negative", "")).toBeInstanceOf(Error);
  });

  it.each([
    ["the cat", [261, 264], { mapId: "sha256:00" }, "foreign-map"],
    ["the cat", [261, 264], { mapId: 5 }, "foreign-map"],
    ["the cat", [261, 264], { mapId: `sha256:${"0".repeat(64)}` }, "foreign-map"],
    ["", [], {}, "empty-text"],
    ["\ud800", [1], {}, "bad-text"],
    ["a", [97, 98], {}, "too-many-ids"],
    ["ab", [97, "98"], {}, "not-integer"],
    ["ab", [97, null], {}, "not-integer"],
    ["ab", [97, true], {}, "not-integer"],
    ["ab", [97, 98.5], {}, "not-integer"],
    ["ab", [97, Number.NaN], {}, "not-integer"],
    ["ab", [97, [98]], {}, "not-integer"],
    ["ab", [-1, "x"], {}, "negative"],
    ["ab", [97, 2 ** 32], {}, "too-large"],
    ["ab", [97, Number.POSITIVE_INFINITY], {}, "too-large"],
    ["ab", [97, 300], {}, "special-id"],
    ["ab", [97, 299], {}, "unknown-id"],
    ["ab", [97], {}, "text-mismatch"],
    ["ab", [], {}, "text-mismatch"],
    ["ab", [97, 99], {}, "text-mismatch"],
    ["a", [261], {}, "text-mismatch"],
    ["the", [116, 257], {}, "non-canonical"],
    ["the", [116, 257], { level: "decode" }, null],
    ["the", [261], { level: "decode" }, null],
    ["the", [261], { mapId: null }, null],
  ] as const)("judges %j %j %j: %s", (text, ids, options, reason) => {
    expect(toy.check(text, [...ids], options)).toEqual({ verdict: reason === null ? "accept" : "reject", reason });
  });

  it("accepts its own digest in any spelling", () => {
    for (const mapId of [toy.mapId, toy.mapId.toUpperCase(), toy.mapId.slice(7)])
      expect(toy.check("the", [261], { mapId }).reason).toBeNull();
  });
});

describe("a metaspace map", () => {
  let meta: LoadedTokenizer;

  beforeAll(async () => {
    meta = await makeMetaTokenizer({ mapUrl: "toy-metaspace" });
  });

  it("puts one blank in front, and takes it away again", () => {
    expect(meta.encode("the cat")).toEqual([309, 312]);
    for (const text of [" ", "  the", "the  cat ", "Ünknown\u0000", "中文 é", "😀", "a\nb"]) {
      const ids = meta.encode(text);
      expect(meta.decode(ids)).toBe(text);
      expect(meta.check(text, ids).reason).toBeNull();
    }
  });

  it("has no ids for the sign that it writes for a space", () => {
    expect(() => meta.encode("a\u2581b")).toThrow(TextError);
    expect(() => meta.encode("\ud800")).toThrow(TextError);
  });

  it("takes a long text as one piece", () => {
    const text = "the cat in the hat ".repeat(20_000);
    expect(meta.decode(meta.encode(text)) === text).toBe(true);
  });
});
