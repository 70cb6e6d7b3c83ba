import { beforeAll, describe, expect, it } from "vitest";
import {
  CODEC_META_KEY,
  CodecMetaMapMismatchError,
  findCodecMeta,
  hasCodecMeta,
  MapDigestError,
  type MetaTokenizer,
  makeMetaTokenizer,
  readCodecMeta,
  readCodecMetaFromBlock,
  stripCodecMeta,
  takeIds,
  verifyCodecMeta,
  wrapToolCall,
} from "../src/index.js";

const MAP = `sha256:${"a".repeat(64)}`;
const OTHER = `sha256:${"b".repeat(64)}`;
const withPayload = (text: string, payload: unknown, more: object = {}) => ({
  type: "text",
  text,
  _meta: { [CODEC_META_KEY]: payload, ...more },
});
const sibling = (ids: unknown, map_id: unknown = MAP) => ({ type: "_codec_meta", map_id, ids });

describe("reading", () => {
  it("gives one entry per text block, in either form", () => {
    const result = {
      content: [
        withPayload("a", { map_id: MAP.toUpperCase(), ids: [1] }),
        { type: "image" },
        { type: "text", text: "b" },
        sibling([2]),
        { type: "text", text: "c" },
        withPayload("d", { map_id: MAP, ids: [4] }),
        sibling([5]),
      ],
    };
    expect(readCodecMeta(result)).toEqual([
      { textIndex: 0, text: "a", ids: [1], mapId: MAP, source: "meta" },
      { textIndex: 2, text: "b", ids: [2], mapId: MAP, source: "sibling" },
      { textIndex: 4, text: "c", ids: null, mapId: null, source: null },
      { textIndex: 5, text: "d", ids: [4], mapId: MAP, source: "meta" },
    ]);
    expect(takeIds(result)).toEqual([[1], [2], null, [4]]);
    expect(hasCodecMeta(result)).toBe(true);
    expect(findCodecMeta(result, 2)).toMatchObject({ map_id: MAP, ids: [2] });
    expect(findCodecMeta(result, 1)).toBeNull();
    expect(findCodecMeta(result, 99)).toBeNull();
    expect(readCodecMetaFromBlock(result.content[2])).toBeNull();
  });

  it.each([
    null,
    [],
    "x",
    {},
    { map_id: MAP },
    { ids: [1] },
    { map_id: "sha256:1", ids: [1] },
    { map_id: MAP, ids: { 0: 1, length: 1 } },
    { map_id: MAP, ids: "1" },
    { map_id: null, ids: [] },
  ])("takes %j for no payload", (payload) => {
    const result = { content: [withPayload("a", payload)] };
    expect(hasCodecMeta(result)).toBe(false);
    expect(readCodecMeta(result, { expectedMapHash: OTHER })).toEqual([
      { textIndex: 0, text: "a", ids: null, mapId: null, source: null },
    ]);
  });

  it("falls back to the sibling where the block's own payload is malformed", () => {
    expect(takeIds({ content: [withPayload("a", "bad"), sibling([7])] })).toEqual([[7]]);
    expect(takeIds({ content: [{ type: "text", text: "a" }, sibling("bad")] })).toEqual([null]);
    expect(takeIds({ content: [{ type: "image" }, sibling([7])] })).toEqual([]);
  });

  it("raises for the first payload of another map", () => {
    const result = { content: [{ type: "text", text: "x" }, withPayload("a", { map_id: OTHER, ids: [] })] };
    const read = () => readCodecMeta(result, { expectedMapHash: MAP.slice(7).toUpperCase() });
    expect(read).toThrow(CodecMetaMapMismatchError);
    expect(read).toThrow(expect.objectContaining({ expected: MAP, found: OTHER, textIndex: 1 }));
    expect(() => takeIds(result, { expectedMapHash: "x" })).toThrow(MapDigestError);
    expect(readCodecMeta(result, { expectedMapHash: OTHER })).toHaveLength(2);
  });

  it.each([null, undefined, 5, "x", [], {}, { content: {} }, { content: null }])(
    "takes %j for a result without text",
    (result) => {
      expect(readCodecMeta(result)).toEqual([]);
      expect(hasCodecMeta(result)).toBe(false);
      expect(stripCodecMeta(result)).toBe(result);
    },
  );
});

describe("stripping", () => {
  it("gives the very same object where there is nothing to remove", () => {
    const result = {
      content: [
        { type: "text", text: "a", _meta: {} },
        { type: "image", _meta: { [CODEC_META_KEY]: 1 } },
      ],
    };
    expect(stripCodecMeta(result)).toBe(result);
  });

  it("removes payloads and siblings, and an emptied _meta", () => {
    const result = {
      content: [withPayload("a", { map_id: MAP, ids: [1] }), withPayload("b", "bad", { k: 1 }), sibling([1])],
      isError: false,
    };
    const before = structuredClone(result);
    expect(stripCodecMeta(result)).toEqual({
      content: [
        { type: "text", text: "a" },
        { type: "text", text: "b", _meta: { k: 1 } },
      ],
      isError: false,
    });
    expect(result).toEqual(before);
  });
});

describe("verifyCodecMeta", () => {
  let toy: MetaTokenizer;

  beforeAll(async () => {
    toy = await makeMetaTokenizer({ mapUrl: "toy" });
  });

  it("judges each text block by itself", () => {
    const odd = { map_id: toy.mapId, ids: [116, 257, 264] };
    const result = {
      content: [
        ...wrapToolCall({ content: [{ type: "text", text: "the cat" }] }, toy).content,
        withPayload("the cat", odd),
        { type: "text", text: "the cat" },
        withPayload("the dog", { map_id: toy.mapId, ids: [261, 264] }),
        withPayload("the cat", { map_id: OTHER, ids: [261, 264] }),
        withPayload("", { map_id: toy.mapId, ids: [] }),
        { type: "text", text: "the cat" },
        { type: "_codec_meta", ...odd },
      ],
    };
    const verdicts = (level: "decode" | "canonical") =>
      verifyCodecMeta(result, toy, { level }).map((v) => v.reason ?? v.verdict);
    expect(verdicts("canonical")).toEqual([
      "accept",
      "non-canonical",
      "absent",
      "text-mismatch",
      "foreign-map",
      "empty-text",
      "non-canonical",
    ]);
    expect(verdicts("decode")).toEqual([
      "accept",
      "accept",
      "absent",
      "text-mismatch",
      "foreign-map",
      "empty-text",
      "accept",
    ]);
  });

  it("rejects the ids that a published example gave for its sentence", async () => {
    const qwen = await makeMetaTokenizer({ mapUrl: "qwen/qwen2" });
    const ids = [2132, 374, 5023, 220, 16, 19, 25, 18, 15, 27269, 13];
    expect(qwen.check("It is currently 14:30 UTC.", ids, { level: "decode" }).reason).toBe("text-mismatch");
  });
});
