import { describe, expect, it } from "vitest";
import { RequestError } from "../src/client-errors.js";
import { type ConnectOptions, settingsOf } from "../src/connect-options.js";
import { makeMetaTokenizer } from "../src/index.js";

const url = "http://127.0.0.1:1/mcp";
const digest = `sha256:${"ab".repeat(32)}`;

describe("settingsOf", () => {
  it("wants nothing of maps unless told so", () => {
    const { headers, acceptMeta, reading } = settingsOf({ url });
    expect(headers).toEqual({ "codec-client-version": "0.6" });
    expect(acceptMeta).toEqual({ "leafgate/accept": { envelope: "full" } });
    expect(reading).toEqual({ mapId: null, tokenizer: null, level: "canonical" });
  });

  it.each([
    [{ mapId: digest }, { map_id: digest }, digest],
    [{ mapId: digest.slice(7).toUpperCase() }, { map_id: digest }, digest],
    [{ mapId: digest, form: "ids" }, { map_id: digest, form: "ids" }, digest],
    [{ mapId: digest, form: "text" }, { map_id: digest, form: "text" }, undefined],
    [{ form: "ids" }, { form: "ids" }, undefined],
  ] as const)("of %o asks for %o", (options, accept, header) => {
    const { headers, acceptMeta } = settingsOf({ url, ...options });
    expect(acceptMeta).toEqual({ "leafgate/accept": { envelope: "full" }, "ai.codec/accept": accept });
    expect(headers["x-codec-map"]).toBe(header);
  });

  it("takes the tokenizer's map where none is named", async () => {
    const tokenizer = await makeMetaTokenizer({ mapUrl: "toy" });
    expect(settingsOf({ url, tokenizer }).reading.mapId).toBe(tokenizer.mapId);
    expect(settingsOf({ url, tokenizer, mapId: tokenizer.mapId }).reading.mapId).toBe(tokenizer.mapId);
    expect(() => settingsOf({ url, tokenizer, mapId: digest })).toThrow(RequestError);
  });

  it.each(["https://example.org/mcp", "http://localhost:1/mcp", "http://[::1]:1/mcp", url])(
    "sends a token to %s",
    (safe) => {
      expect(settingsOf({ url: safe, token: "t" }).endpoint.url.href).toBe(safe);
    },
  );

  it.each<[string, Partial<Record<keyof ConnectOptions, unknown>>]>([
    ["no URL", { url: "mcp" }],
    ["another scheme", { url: "file:///mcp" }],
    ["another scheme with a host", { url: "ws://127.0.0.1/mcp" }],
    ["a password in the URL", { url: "http://user:password@127.0.0.1/mcp" }],
    ["a token over plain http", { url: "http://example.org/mcp", token: "t" }],
    ["a token to a name that only looks local", { url: "http://localhost.example.org/mcp", token: () => "t" }],
    ["a map that is no digest", { mapId: "qwen/qwen2" }],
    ["a digest that is too short", { mapId: "sha256:ab" }],
    ["an unknown form", { form: "tokens" }],
    ["an unknown level", { level: "trust" }],
    ["an unknown era", { era: "modern" }],
    ["no patience", { timeoutMs: 0 }],
    ["patience without measure", { totalTimeoutMs: Number.POSITIVE_INFINITY }],
    ["patience beyond what timers count", { timeoutMs: 2 ** 31 }],
    ["half a byte", { maxResponseBytes: 0.5 }],
    ["frames that could be taken for gzip", { maxMessageBytes: 0x1f8b0000 }],
  ])("refuses %s", (_, options) => {
    const refused = () => settingsOf({ url, ...options } as ConnectOptions);
    expect(refused).toThrow(RequestError);
    expect(refused).not.toThrow(/password@|user:/);
  });
});
