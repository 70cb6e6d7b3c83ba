import { describe, expect, it } from "vitest";
import { LeafError } from "../src/client-errors.js";
import { type MetaTokenizer, makeMetaTokenizer } from "../src/index.js";
import { CODEC_META_KEY } from "../src/leaf.js";
import { type Reading, readAnswer } from "../src/tool-answer.js";
import { against } from "./clients.js";
import { answer } from "./mcp-over-http.js";

const tokenizer: MetaTokenizer = await makeMetaTokenizer({ mapUrl: "toy" });
const checked: Reading = { mapId: tokenizer.mapId, tokenizer, level: "canonical" };
const unchecked: Reading = { ...checked, tokenizer: null };

function leaf(text: string, ids: unknown[], map_id = tokenizer.mapId) {
  return {
    content: [
      { type: "text", text: "plain" },
      { type: "text", text, _meta: { [CODEC_META_KEY]: { map_id, ids } } },
    ],
  };
}

function refusal(result: object, reading: Reading): LeafError {
  try {
    readAnswer({ ...result }, reading);
  } catch (error) {
    if (error instanceof LeafError) return error;
    throw error;
  }
  throw new Error("it was not refused");
}

describe("readAnswer", () => {
  it.each(["the cat", ""])("checks ids, and decodes them where the text is %o", (text) => {
    const result = leaf(text, tokenizer.encode("the cat"));
    const found = readAnswer(result, checked);
    expect(found.texts).toEqual(["plain", "the cat"]);
    expect(found.ids).toEqual([null, tokenizer.encode("the cat")]);
    expect(found.result).toBe(result);
  });

  it("gives ids as they are without a tokenizer", () => {
    const { texts, ids } = readAnswer(leaf("", [1, 2]), unchecked);
    expect([texts, ids]).toEqual([
      ["plain", ""],
      [null, [1, 2]],
    ]);
  });

  it.each([
    ["text-mismatch", "the dog", [261, 264]],
    ["text-mismatch", "the cat", []],
    ["empty-text", "", []],
    ["non-canonical", "the", [116, 104, 101]],
    ["non-canonical", "", [116, 104, 101]],
    ["unknown-id", "", [99_999]],
    ["not-integer", "", ["261"]],
    ["not-integer", "the", [1.5]],
    ["negative", "", [-1]],
    ["too-large", "", [2 ** 40]],
    ["too-many-ids", "a", [97, 97]],
    ["bad-text", "", [255]],
  ])("refuses with %s: %o as %o", (reason, text, ids) => {
    const error = refusal(leaf(text, ids), checked);
    expect([error.textIndex, error.reason, error.fault]).toEqual([1, reason, "server"]);
  });

  it.each([checked, unchecked])("refuses ids of another map", (reading) => {
    expect(refusal(leaf("the", [261], `sha256:${"0".repeat(64)}`), reading).reason).toBe("foreign-map");
  });

  it("takes odd splits at level decode", () => {
    expect(readAnswer(leaf("the", [116, 104, 101]), { ...checked, level: "decode" }).texts).toEqual(["plain", "the"]);
  });

  it("says of an error that it is one, and of nothing else", () => {
    const isError = (value: unknown) => readAnswer({ content: [], isError: value }, checked).isError;
    expect([true, false, undefined, "true", 1].map(isError)).toEqual([true, false, false, false, false]);
  });
});

describe("a client with a tokenizer", () => {
  it("reads ids, and refuses those that are wrong", async () => {
    const ids = [tokenizer.encode("the cat"), [116, 104, 101]];
    const options = { tokenizer, form: "ids" as const };
    const { client } = await against(
      (heard, speaker) => answer(heard, speaker, leaf("", ids.shift()!)),
      "frames",
      options,
    );
    expect((await client.callTool("echo")).texts).toEqual(["plain", "the cat"]);
    await expect(client.callTool("echo")).rejects.toMatchObject({ name: "LeafError", reason: "non-canonical" });
  });
});
