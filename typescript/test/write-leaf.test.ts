import { beforeAll, describe, expect, it } from "vitest";
import {
  buildMetaBlock,
  CODEC_META_KEY,
  type MetaTokenizer,
  makeMetaTokenizer,
  verifyCodecMeta,
  wrapToolCall,
} from "../src/index.js";
import { nastyText, seeded } from "./seeded.js";

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
