import { describe, expect, it } from "vitest";
import { handshakeEra, headerValue, OPENING_ERA, statelessEra, withMeta } from "../src/eras.js";

const info = { name: "test", version: "1" };

describe("the stateless era", () => {
  it("keeps the caller's _meta, and does not touch the parameters it was given", () => {
    const given = { name: "x", _meta: { mine: 1 } };
    const { _meta } = statelessEra(info).params(given) as { _meta: Record<string, unknown> };
    expect(_meta.mine).toBe(1);
    expect(_meta["io.modelcontextprotocol/clientInfo"]).toEqual(info);
    expect(given).toEqual({ name: "x", _meta: { mine: 1 } });
  });

  it.each([
    ["tools/call", { name: "a" }, "a"],
    ["prompts/get", { name: "b" }, "b"],
    ["resources/read", { uri: "file:///c" }, "file:///c"],
    ["tools/list", { name: "a" }, undefined],
    ["tools/call", {}, undefined],
    ["tools/call", { name: 5 }, undefined],
  ])("names what %s is about: %o", (method, params, name) => {
    expect(statelessEra(info).headers(method, params)["mcp-name"]).toBe(name);
  });
});

describe("the handshake era", () => {
  it("has a session where the server keeps one", () => {
    expect(handshakeEra("2025-06-18", "s").headers("tools/list", {})).toEqual({
      "mcp-protocol-version": "2025-06-18",
      "mcp-session-id": "s",
    });
    expect(handshakeEra("2025-06-18", null).headers("tools/list", {})).toEqual({
      "mcp-protocol-version": "2025-06-18",
    });
    expect(OPENING_ERA.headers("initialize", {})).toEqual({});
  });
});

describe("headerValue", () => {
  it.each(["", "plain", "with space inside", "a:b@1#c", "=?base64?", "~"])("passes %j", (value) => {
    expect(headerValue(value)).toBe(value);
  });

  it.each(["é", " edge", "edge ", "a\nb", "a\r\nX-Evil: 1", "\u0000", "\u007f", "=?base64?YQ==?=", "😀"])(
    "wraps %j",
    (value) => {
      const wrapped = headerValue(value);
      expect(wrapped).toMatch(/^=\?base64\?[A-Za-z0-9+/]*=*\?=$/);
      expect(Buffer.from(wrapped.slice(9, -2), "base64").toString()).toBe(value);
    },
  );
});

describe("withMeta", () => {
  it("adds, and lets what is newer win", () => {
    expect(withMeta({ a: 1 }, { x: 1 })).toEqual({ a: 1, _meta: { x: 1 } });
    expect(withMeta({ _meta: { x: 1, y: 2 } }, { x: 3 })).toEqual({ _meta: { x: 3, y: 2 } });
  });
});
