import { beforeAll, describe, expect, it } from "vitest";

import {
  buildMetaBlock,
  CODEC_META_KEY,
  CodecMetaMapMismatchError,
  findCodecMeta,
  hasCodecMeta,
  MapDigestError,
  type MetaTokenizer,
  makeMetaTokenizer,
  NotATokenizerError,
  packIds,
  readCodecMeta,
  readCodecMetaFromBlock,
  stripCodecMeta,
  takeIds,
  unpackIds,
  verifyCodecMeta,
  wrapServer,
  wrapToolCall,
} from "../src/index.js";
import { isPayload, parseDigest } from "../src/leaf.js";
import { digestOf } from "../src/tokenizer.js";
import { nastyText, seeded } from "./seeded.js";

const HEX = "0123456789abcdef".repeat(4);

describe("digests", () => {
  it.each([`sha256:${HEX}`, HEX, HEX.toUpperCase(), `SHA256:${HEX.toUpperCase()}`])("accepts %s", (spelling) => {
    expect(parseDigest(spelling)).toBe(`sha256:${HEX}`);
  });

  it.each([
    "",
    HEX.slice(1),
    `${HEX}0`,
    ` ${HEX}`,
    `${HEX}\n`,
    `sha512:${HEX}`,
    `sha256: ${HEX}`,
    `sha256:sha256:${HEX}`,
    `${HEX.slice(1)}g`,
    `sha256-${HEX}`,
    null,
    undefined,
    7,
    { toString: () => HEX },
    [HEX],
  ])("refuses %j", (value) => {
    expect(() => parseDigest(value)).toThrow(MapDigestError);
  });

  it("is taken over raw bytes", async () => {
    expect(await digestOf(new TextEncoder().encode("abc"))).toBe(
      "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    );
  });
});

describe("payloads", () => {
  it("are objects with a digest and an array", () => {
    expect(isPayload({ map_id: HEX, ids: [] })).toBe(true);
    for (const wrong of [null, [], "x", {}, { map_id: HEX }, { map_id: "x", ids: [] }, { map_id: HEX, ids: "1" }])
      expect(isPayload(wrong)).toBe(false);
  });
});

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

let toy: MetaTokenizer;
let payload: { map_id: string; ids: number[] };

beforeAll(async () => {
  toy = await makeMetaTokenizer({ mapUrl: "toy" });
  payload = { map_id: toy.mapId, ids: [261, 264] };
});

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}

const text = (text: string, more: object = {}) => ({ type: "text", text, ...more });
const wrapContent = (content: unknown[], options = {}) => wrapToolCall({ content }, toy, options).content;

describe("wrapToolCall", () => {
  it("puts the payload on the text block's own _meta", () => {
    expect(wrapContent([text("the cat")])).toEqual([text("the cat", { _meta: { [CODEC_META_KEY]: payload } })]);
  });

  it("keeps everything that is not ours", () => {
    const result = {
      content: [
        text("the cat", { annotations: { priority: 1 }, _meta: { other: [1], [CODEC_META_KEY]: "old" }, extra: null }),
        { type: "image", data: "AA==", mimeType: "image/png", _meta: { [CODEC_META_KEY]: payload } },
        { type: "resource", resource: { uri: "x:y", text: "the cat" } },
        "no object",
        null,
        { type: "text", text: 7 },
      ],
      isError: true,
      structuredContent: { a: 1 },
      _meta: { [CODEC_META_KEY]: "not a block's" },
      unknown: "field",
    };
    const wrapped = wrapToolCall(deepFreeze(result), toy);
    expect(wrapped).toEqual({
      ...result,
      content: [
        { ...(result.content[0] as object), _meta: { other: [1], [CODEC_META_KEY]: payload } },
        ...result.content.slice(1),
      ],
    });
    expect(wrapped).not.toBe(result);
  });

  it("replaces payloads of another map, of another text, and with more in them", () => {
    for (const old of [
      { map_id: `sha256:${"0".repeat(64)}`, ids: [1] },
      { map_id: payload.map_id, ids: [97] },
      { ...payload, more: 1 },
      null,
    ])
      expect(wrapContent([text("the cat", { _meta: { [CODEC_META_KEY]: old } })])).toEqual(
        wrapContent([text("the cat")]),
      );
  });

  it("leaves no payload where a text can have none", () => {
    for (const bad of ["", "\ud800"])
      expect(wrapContent([text(bad, { _meta: { [CODEC_META_KEY]: payload } })])).toEqual([text(bad)]);
    expect(wrapContent([text("", { _meta: { a: 1, [CODEC_META_KEY]: payload } })])).toEqual([
      text("", { _meta: { a: 1 } }),
    ]);
  });

  it("removes withdrawn blocks behind a text block, and no others", () => {
    const old = { type: "_codec_meta", ...payload };
    expect(wrapContent([old, text("the cat"), old, old, { type: "image" }, old])).toEqual([
      old,
      ...wrapContent([text("the cat")]),
      { type: "image" },
      old,
    ]);
  });

  it("counts code points for minTextLength", () => {
    const has = (value: string, minTextLength: number) =>
      CODEC_META_KEY in ((wrapContent([text(value)], { minTextLength })[0] as { _meta?: object })._meta ?? {});
    expect(has("😀😀", 2)).toBe(true);
    expect(has("😀😀", 3)).toBe(false);
    expect(has("a", 0)).toBe(true);
  });

  it("keeps a right payload on a text that is only too short, and drops a wrong one", () => {
    const right = text("the cat", { _meta: { [CODEC_META_KEY]: payload } });
    expect(wrapContent([right], { minTextLength: 100 })).toEqual([right]);
    const wrong = text("the cat", { _meta: { [CODEC_META_KEY]: { ...payload, ids: [116, 257, 264] } } });
    expect(wrapContent([wrong], { minTextLength: 100 })).toEqual([text("the cat")]);
  });

  it("takes results without content", () => {
    for (const result of [{}, { content: null }, { content: "x" }, { task: {} }]) {
      const wrapped = wrapToolCall(deepFreeze(result), toy);
      expect(wrapped).toEqual(result);
      expect(wrapped).not.toBe(result);
    }
  });

  it("is the same twice as once, on results of all kinds", () => {
    const random = seeded(7);
    const maybe = <T>(value: T) => (random() < 0.5 ? value : undefined);
    for (let i = 0; i < 400; i++) {
      const content = Array.from({ length: Math.floor(random() * 5) }, () => {
        const kind = random();
        if (kind < 0.2) return { type: "_codec_meta", ...payload };
        if (kind < 0.3) return { type: "image", data: "" };
        const value = random() < 0.1 ? "\ud800" : random() < 0.3 ? "the cat" : nastyText(random).slice(0, 40);
        const meta = { ...maybe({ other: 1 }), ...maybe({ [CODEC_META_KEY]: payload }) };
        return text(value.isWellFormed() ? value : "\ud800", maybe({ _meta: meta }));
      });
      const options = { minTextLength: Math.floor(random() * 12) };
      const once = wrapToolCall(deepFreeze({ content }), toy, options);
      expect(wrapToolCall(deepFreeze(once), toy, options)).toEqual(once);
      for (const { verdict } of verifyCodecMeta(once, toy)) expect(verdict).not.toBe("reject");
    }
  });
});

describe("buildMetaBlock", () => {
  it("gives the payload alone, or null", () => {
    expect(buildMetaBlock("the cat", toy)).toEqual(payload);
    expect(buildMetaBlock("", toy)).toBeNull();
    expect(buildMetaBlock("\udfff", toy)).toBeNull();
  });
});

describe("what a call asks for", () => {
  const plain = { content: [{ type: "text", text: "the cat" }] };
  const wish = (accept: unknown) => ({ requestMeta: { "ai.codec/accept": accept } });

  it("chooses one of several maps, and the form", async () => {
    const [toy, metaspace] = await Promise.all(["toy", "toy-metaspace"].map((mapUrl) => makeMetaTokenizer({ mapUrl })));
    const metas = [toy!, metaspace!];
    expect(takeIds(wrapToolCall(plain, metas))).toEqual([[261, 264]]);
    const other = wrapToolCall(plain, metas, wish({ maps: [metaspace!.mapId], form: "ids" }));
    expect(readCodecMeta(other)[0]).toMatchObject({ mapId: metaspace!.mapId, ids: metaspace!.encode("the cat") });
    const packed = wrapToolCall(plain, metas, wish({ maps: [toy!.mapId], form: "packed" }));
    expect(findCodecMeta(packed, 0)).toEqual({ map_id: toy!.mapId, ids: "BQEACAEA" });
    expect(takeIds(packed)).toEqual([[261, 264]]);
    expect(verifyCodecMeta(packed, toy!)).toEqual([{ textIndex: 0, verdict: "accept", reason: null }]);
  });

  it("makes no ids where none are wanted: the tokenizer is not asked", () => {
    const meta = { ...brokenTokenizer, mapId: MAP };
    expect(wrapToolCall(plain, meta, wish({ maps: [], form: "none" }))).toEqual(plain);
  });
});

const brokenTokenizer: MetaTokenizer = {
  mapId: MAP,
  encode: () => {
    throw new Error("out of order");
  },
  decode: () => "",
  check: () => ({ verdict: "reject", reason: null }),
};

describe("a tokenizer that is none", () => {
  const plain = { content: [{ type: "text", text: "the cat" }] };

  it("fails later: the result stays plain, and the failure is reported", () => {
    const failures: unknown[] = [];
    expect(wrapToolCall(plain, brokenTokenizer, { onError: (error) => failures.push(error) })).toEqual(plain);
    expect(failures).toHaveLength(1);
  });

  it("is a promise: it is refused at once, with the fix", () => {
    const promise = makeMetaTokenizer({ mapUrl: "toy" }) as unknown as MetaTokenizer;
    expect(() => wrapToolCall(plain, promise)).toThrow(NotATokenizerError);
    expect(() => wrapServer({}, promise)).toThrow(/await makeMetaTokenizer/);
    expect(() => wrapToolCall(plain, {} as MetaTokenizer)).toThrow(NotATokenizerError);
  });
});

describe("packed ids", () => {
  it("are read back as they were, for all sizes of ids", () => {
    const random = seeded(5);
    for (let round = 0; round < 200; round++) {
      const ids = Array.from({ length: round % 9 }, () => Math.floor(random() * 2 ** (1 + (round % 24))));
      expect(unpackIds(packIds(ids)!)).toEqual(ids);
      expect(packIds(ids)).toBe(
        Buffer.from(ids.flatMap((id) => [id & 255, (id >> 8) & 255, id >> 16])).toString("base64"),
      );
    }
    expect(packIds([0x1000000])).toBeNull();
  });
});
