import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { MapInvalidError } from "../src/errors.js";
import { findBundledMap } from "../src/map.js";
import { makeTokenizer } from "../src/tokenizer.js";

type Fields = Record<string, unknown> & { vocab: Record<string, number>; special_tokens: Record<string, number> };

const TOY = readFileSync(findBundledMap("toy")!.path, "utf8");
const toy = (): Fields => JSON.parse(TOY);
const load = (fields: unknown) =>
  makeTokenizer(
    Buffer.from(typeof fields === "string" ? fields : JSON.stringify(fields)),
    `sha256:${"0".repeat(64)}`,
    "it",
  );

/** The toy map with one thing changed. */
function changed(change: (fields: Fields) => unknown, fields = toy()): Fields {
  change(fields);
  return fields;
}

const bundled = (id: string): Fields => JSON.parse(readFileSync(findBundledMap(id)!.path, "utf8"));
const metaspace = (change: (fields: Fields) => unknown) => changed(change, bundled("toy-metaspace"));
const plain = (change: (fields: Fields) => unknown) => changed(change, bundled("toy-plain"));
const staged = (change: (fields: Fields) => unknown) => changed(change, bundled("toy-staged"));

describe("a map is refused with a reason", () => {
  it.each<[string, unknown, RegExp]>([
    ["no JSON", "{", /not JSON/],
    ["not UTF-8", "\ufeff{}", /not JSON/],
    ["Hugging Face file", { version: "1.0", model: { type: "BPE" } }, /tokenizer.json, not a map; build a map of it: /],
    ["claude.json", { pat_str: "", bpe_ranks: "" }, /a tiktoken file, not a map; build/],
    ["tekken.json", { config: {}, vocab: [] }, /a tekken.json, not a map; build/],
    ["no object", "[]", /not a JSON object/],
    ["placeholder", changed((m) => (m._synthetic = true)), /placeholder/],
    ["cut off", changed((m) => (m.vocab_size = 268)), /declares 268 entries and holds 267/],
    ["no vocab", changed((m) => delete (m as Partial<Fields>).vocab), /`tokens` is missing/],
    ["empty vocab", changed((m) => (m.vocab = {})), /placeholder/],
    [
      "missing byte",
      changed((m) => {
        delete m.vocab.a;
        m.vocab_size = 266;
      }),
      /no token for 1 of the 256 bytes, the first is 0x61/,
    ],
    ["shared id", changed((m) => (m.vocab.th = 257)), /share an id/],
    ["shared special id", changed((m) => (m.special_tokens["<x>"] = 300)), /share an id/],
    ["fraction", changed((m) => (m.vocab.th = 256.5)), /not an integer/],
    ["negative", changed((m) => (m.vocab.th = -1)), /not an integer/],
    ["too large", changed((m) => (m.vocab.th = 2 ** 32)), /not an integer/],
    ["string id", changed((m) => (m.vocab.th = "256" as unknown as number)), /not an integer/],
    ["empty token", changed((m) => (m.vocab[""] = 400)), /empty token/],
    ["outside the alphabet", changed((m) => (m.vocab["a b"] = 400)), /byte alphabet/],
    ["far outside the alphabet", changed((m) => (m.vocab["\u{1f600}"] = 400)), /byte alphabet/],
    ["no pattern", changed((m) => delete m.pre_tokenizer_pattern), /pattern/],
    ["foreign pattern", changed((m) => (m.pre_tokenizer_pattern = "(?<=a)b|.")), /unsupported group/],
    ["leaky pattern", changed((m) => (m.pre_tokenizer_pattern = "\\p{L}+|\\s+")), /leaves out/],
    ["pattern of nothing", changed((m) => (m.pre_tokenizer_pattern = "a*")), /leaves out/],
    ["unknown encoder", changed((m) => (m.encoder = "wordpiece")), /unknown encoder/],
    ["merges no array", changed((m) => (m.merges = "t h")), /not an array/],
    ["merge of three", changed((m) => (m.merges = ["t h e"])), /left right/],
    ["merge of no token", changed((m) => (m.merges = ["x y"])), /not a token/],
    ["metaspace with a pattern", metaspace((m) => (m.pre_tokenizer_pattern = ".")), /has no patterns/],
    ["merge of no metaspace token", metaspace((m) => (m.merges = ["\u2581 nothing"])), /which is not a token/],
    ["unknown prefix", metaspace((m) => (m.prefix = "sometimes")), /unknown prefix/],
    [
      "token in the place of a byte",
      plain((m) => Object.assign(m.vocab, { b: m.vocab["\t"], "\t": 259 })),
      /the id of a fallback byte/,
    ],
    ["added tokens behind a prefix", metaspace((m) => (m.added_tokens = ["a"])), /need `"prefix": "never"`/],
    ["added token with a blank", plain((m) => (m.added_tokens = ["\u2581\u2581"])), /holds a token with/],
    ["unknown normalizer", changed((m) => (m.normalizer = "nfd")), /unknown normalizer/],
    ["added tokens no array", changed((m) => (m.added_tokens = "th")), /not an array/],
    ["added token twice", changed((m) => (m.added_tokens = ["th", "th"])), /twice/],
    ["added token of no token", changed((m) => (m.added_tokens = ["zzz"])), /not a token/],
    ["special added token", changed((m) => (m.added_tokens = ["<|stop|>"])), /not a token/],
    [
      "words among added tokens beside a normalizer",
      changed((m) => Object.assign(m, { normalizer: "nfc", added_tokens: ["th"] })),
      /more than white space/,
    ],
    ["both kinds of patterns", changed((m) => (m.pre_tokenizer_patterns = ["."])), /both/],
    ["no patterns", staged((m) => (m.pre_tokenizer_patterns = [])), /not a list of patterns/],
    ["empty pattern", staged((m) => (m.pre_tokenizer_patterns = [""])), /not a list of patterns/],
    ["foreign stage", staged((m) => (m.pre_tokenizer_patterns = ["a", "(?<=a)b"])), /unsupported group/],
    [
      "metaspace without fallback",
      changed((m) => Object.assign(m, { encoder: "metaspace", merges: ["t h"] })),
      /span 256/,
    ],
  ])("%s", (_, fields, reason) => {
    expect(() => load(fields)).toThrow(MapInvalidError);
    expect(() => load(fields)).toThrow(reason);
  });
});

describe("a map is taken", () => {
  it("with tokens whose names are property names", () => {
    const names = ["constructor", "toString", "hasOwnProperty", "prototype"];
    const added = Object.fromEntries(names.map((name, i) => [name, 400 + i]));
    const tokenizer = load(changed((m) => Object.assign(m.vocab, added)));
    expect(names.flatMap((name) => tokenizer.encode(name))).toEqual([400, 401, 402, 403]);
  });

  it("with a token named __proto__, be it written escaped", () => {
    const json = TOY.replace('"th":256', '"__proto__":400,"\\u0074h":256').replaceAll("\\\\p{L}+", "[\\\\p{L}_]+");
    expect(load(json).encode("__proto__ th")).toEqual([400, 32, 256]);
  });

  it("unless it gives a token twice", () => {
    expect(() => load(TOY.replace('"he":257', '"th":257').replace('"vocab_size":267', '"vocab_size":1'))).toThrow(
      /twice/,
    );
  });

  it("whatever the order of its tokens, and pretty-printed", () => {
    const reversed = changed((m) => (m.vocab = Object.fromEntries(Object.entries(m.vocab).reverse())));
    expect(load(JSON.stringify(reversed, null, 2)).encode("the cat")).toEqual([261, 264]);
  });

  it("of version 1, with tokens as an object or a list", () => {
    const { vocab, ...rest } = toy();
    expect(load({ ...rest, version: "1", tokens: vocab }).encode("the cat")).toEqual([261, 264]);
    const list = Object.entries(vocab)
      .sort((a, b) => a[1] - b[1])
      .map(([token]) => token);
    expect(load({ ...rest, version: "1", tokens: list }).encode("the cat")).toEqual([261, 264]);
  });

  it("with merges, whose order is the rank", () => {
    const tokenizer = load(changed((m) => (m.merges = ["h e", "t h", "t he", "Ġ c"])));
    // " cat" is made by no merge: it is decoded, but never made, not even as a whole piece.
    expect(tokenizer.encode("xthe cat")).toEqual([120, 261, 262, 97, 116]);
    expect(tokenizer.decode([264])).toBe(" cat");
    expect(load(changed((m) => (m.merges = ["t h", "h e"]))).encode("xthe")).toEqual([120, 256, 101]);
  });

  it("with special tokens in its vocabulary, which text never gives", () => {
    const tokenizer = load(changed((m) => (m.vocab["<|stop|>"] = 300)));
    expect(tokenizer.encode("<|stop|>")).not.toContain(300);
    expect(tokenizer.check("<|stop|>", [300]).reason).toBe("special-id");
  });

  it("with ids as sparse as they may be", () => {
    const tokenizer = load(changed((m) => (m.vocab.th = 2 ** 32 - 1)));
    expect(tokenizer.encode("th")).toEqual([2 ** 32 - 1]);
    expect(tokenizer.check("th", [2 ** 32 - 1]).reason).toBeNull();
    expect(tokenizer.check("th", [1.5]).reason).toBe("not-integer");
  });

  it("with another pattern, cut by the general machine", () => {
    const gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    expect(load(changed((m) => (m.pre_tokenizer_pattern = gpt2))).encode("the cat")).toEqual([261, 264]);
  });

  it("with a warning where its program and its pattern disagree", () => {
    const ops = [{ op: "numbers", lead_space: true }];
    expect(load(changed((m) => (m.pre_tokenizer_program = { ops }))).map.warnings).toHaveLength(1);
    expect(load(toy()).map.warnings).toHaveLength(0);
  });
});
