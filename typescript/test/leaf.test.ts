import { describe, expect, it } from "vitest";
import { MapDigestError } from "../src/errors.js";
import { digestOf, isPayload, parseDigest } from "../src/leaf.js";

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

  it("is taken over raw bytes", () => {
    expect(digestOf(new TextEncoder().encode("abc"))).toBe(
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
