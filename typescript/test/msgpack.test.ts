import { describe, expect, it } from "vitest";
import { MAX_DEPTH, MsgpackError, packJson, unpackJson } from "../src/msgpack.js";
import { nastyText, seeded } from "./seeded.js";

function reasonOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof MsgpackError) return error.reason;
    throw error;
  }
  return "none";
}

function nested(depth: number): unknown {
  return depth === 0 ? 1 : [nested(depth - 1)];
}

describe("packJson", () => {
  it.each([
    [-0, 0],
    [1.5, 1.5],
    [2 ** 53, 2 ** 53],
    [2 ** 63, 2 ** 63],
    [-(2 ** 63), -(2 ** 63)],
    [2 ** 64, 2 ** 64],
    [1e300, 1e300],
    [5e-324, 5e-324],
    [{ a: undefined, b: 1 }, { b: 1 }],
    [Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
  ])("%o comes back as JSON would give it", (value, expected) => {
    expect(unpackJson(packJson(value))).toEqual(expected);
    expect(JSON.stringify(unpackJson(packJson(value)))).toBe(JSON.stringify(value));
  });

  it.each([
    ["not-json", undefined],
    ["not-json", [undefined]],
    // biome-ignore lint/suspicious/noSparseArray: the hole is the case
    ["not-json", [1, , 2]],
    ["not-json", 10n],
    ["not-json", Symbol("s")],
    ["not-json", () => 1],
    ["not-json", new Date(0)],
    ["not-json", new Map()],
    ["not-json", { ids: new Uint8Array(3) }],
    ["not-finite", Number.NaN],
    ["not-finite", { a: [Number.POSITIVE_INFINITY] }],
    ["not-finite", Number.NEGATIVE_INFINITY],
    ["bad-text", "\ud800"],
    ["bad-text", { "\udfff": 1 }],
    ["too-deep", nested(MAX_DEPTH + 1)],
  ])("refuses with %s: %o", (reason, value) => {
    expect(reasonOf(() => packJson(value))).toBe(reason);
  });

  it("refuses what holds itself", () => {
    const ring: unknown[] = [];
    ring.push(ring);
    expect(reasonOf(() => packJson(ring))).toBe("too-deep");
  });

  it("takes what is just not too deep", () => {
    expect(unpackJson(packJson(nested(MAX_DEPTH)))).toEqual(nested(MAX_DEPTH));
  });

  it("gives bytes of their own to each value", () => {
    const first = packJson({ a: 1 });
    const before = Buffer.from(first).toString("hex");
    packJson({ b: 2 });
    expect(Buffer.from(first).toString("hex")).toBe(before);
  });
});

describe("unpackJson", () => {
  it("rounds integers beyond 2^53 as JSON.parse does", () => {
    expect(unpackJson(Buffer.from("cfffffffffffffffff", "hex"))).toBe(JSON.parse("18446744073709551615"));
    expect(unpackJson(Buffer.from("cf0020000000000001", "hex"))).toBe(JSON.parse("9007199254740993"));
    expect(unpackJson(Buffer.from("d38000000000000001", "hex"))).toBe(JSON.parse("-9223372036854775807"));
  });

  it("leaves the prototype of what it makes alone", () => {
    const value = unpackJson(packJson(JSON.parse('{"__proto__": {"admin": true}}'))) as { admin?: boolean };
    expect(value.admin).toBeUndefined();
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.keys(value)).toEqual(["__proto__"]);
  });

  it("reads bytes that lie in the middle of others", () => {
    const around = Buffer.concat([Buffer.of(1, 2, 3), packJson({ a: "b" }), Buffer.of(9)]);
    expect(unpackJson(around.subarray(3, -1))).toEqual({ a: "b" });
  });

  it("gives back whatever JSON can say", () => {
    const random = seeded(7);
    for (let round = 0; round < 500; round++) {
      const value = anyValue(random, 0);
      expect(JSON.stringify(unpackJson(packJson(value)))).toBe(JSON.stringify(value));
    }
  });

  it("answers any bytes with a value or with a reason", () => {
    const random = seeded(8);
    for (let round = 0; round < 5000; round++) {
      const bytes = packJson(anyValue(random, 0)).slice();
      for (let hits = 1 + Math.floor(random() * 3); hits > 0; hits--)
        bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
      const cut = bytes.subarray(0, random() < 0.3 ? Math.floor(random() * bytes.length) : bytes.length);
      expect(typeof reasonOf(() => JSON.stringify(unpackJson(cut)))).toBe("string");
    }
  });
});

function anyValue(random: () => number, depth: number): unknown {
  const kind = Math.floor(random() * (depth > 3 ? 4 : 6));
  const few = Math.floor(random() * 20);
  if (kind === 0) return [null, true, false][few % 3];
  if (kind === 1) return Math.floor((random() - 0.5) * 2 ** (1 + Math.floor(random() * 62)));
  if (kind === 2) return (random() - 0.5) * 10 ** (few - 10);
  if (kind === 3) return nastyText(random);
  if (kind === 4) return Array.from({ length: few }, () => anyValue(random, depth + 1));
  return Object.fromEntries(Array.from({ length: few }, () => [nastyText(random), anyValue(random, depth + 1)]));
}
