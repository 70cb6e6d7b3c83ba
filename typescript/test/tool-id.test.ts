import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  CatalogError,
  canonicalHash8,
  canonicalShape,
  clashingNamespaces,
  formatPrimitiveId,
  formatToolId,
  inferNamespace,
  normalizeNamespace,
  parsePrimitiveId,
  parseToolId,
  promptIdFor,
  resolveCollisions,
  resourceIdFor,
  type ToolIdParts,
  toolIdFor,
} from "../src/index.js";
import { idWeight } from "../src/tool-id.js";
import { nastyText, seeded } from "./seeded.js";

interface Case {
  name: string;
  // biome-ignore lint/suspicious/noExplicitAny: each question has fields of its own.
  input: any;
  expect: object;
}

const folder = new URL("../../shared-fixtures/tool-id/", import.meta.url);
const cases = readdirSync(folder)
  .filter((file) => file.endsWith(".json"))
  .flatMap((file) => JSON.parse(readFileSync(new URL(file, folder), "utf8")).cases as Case[]);

const questions: Record<string, (input: Case["input"]) => object> = {
  "parse-tool-id": ({ id }) => parseToolId(id),
  "parse-primitive-id": ({ id }) => parsePrimitiveId(id),
  hash8: ({ name, input_schema }) => ({
    shape: canonicalShape(input_schema),
    hash8: canonicalHash8(name, input_schema),
  }),
  "infer-namespace": ({ name }) => ({ namespace: inferNamespace(name) }),
  "normalize-namespace": ({ server }) => ({ namespace: normalizeNamespace(server) }),
  "tool-id": ({ name, input_schema, server, version }) => ({ id: toolIdFor(name, input_schema, { server, version }) }),
  "resource-id": ({ uri, name, server }) => ({ id: resourceIdFor(uri, name, server) }),
  "prompt-id": (input) => ({ id: promptIdFor(input.name, input.arguments, input.server) }),
  "resolve-collisions": ({ ids }) => ({ keys: resolveCollisions(ids) }),
};

function answer(input: Case["input"]): object {
  try {
    return questions[input.ask]!(input);
  } catch (error) {
    if (error instanceof CatalogError) return { error: error.reason };
    throw error;
  }
}

describe("shared cases", () => {
  it.each(cases.map((each) => [each.name, each] as const))("%s", (_, { input, expect: expected }) => {
    expect(answer(input)).toEqual(expected);
  });

  it("are there", () => {
    expect(new Set(cases.map(({ input }) => input.ask))).toEqual(new Set(Object.keys(questions)));
  });
});

describe("generated names", () => {
  const random = seeded(1);
  const names = Array.from({ length: 1500 }, () => nastyText(random)).filter((name) => name !== "");

  it("all have ids that round-trip and are light", () => {
    for (const [index, name] of names.entries()) {
      const server = index % 3 === 0 ? null : names[(index * 7) % names.length];
      const id = toolIdFor(name, {}, { server, version: index % 2 ? "1.2" : undefined });
      expect(formatToolId(parseToolId(id))).toBe(id);
      expect(idWeight(id)).toBeLessThanOrEqual(47);
      for (const other of [resourceIdFor(name, name, server), promptIdFor(name, [name], server)]) {
        const { kind, ...parts } = parsePrimitiveId(other);
        expect(formatPrimitiveId(kind, parts)).toBe(other);
        expect(() => parseToolId(other)).toThrow(CatalogError);
      }
    }
  });

  it("never share an id on one server", () => {
    const different = [...new Set(names)];
    expect(new Set(different.map((name) => toolIdFor(name, {}, { server: "fs" }))).size).toBe(different.length);
  });

  it("become namespaces that stay", () => {
    for (const name of names) {
      const namespace = normalizeNamespace(name);
      expect(namespace).toMatch(/^[a-z][a-z0-9_-]{0,63}$/);
      expect(normalizeNamespace(namespace)).toBe(namespace);
    }
  });
});

describe("refusals", () => {
  it.each([null, undefined, 5, ["a:b"], { toString: () => "a:b" }])("of what is no string: %j", (value) => {
    expect(() => parseToolId(value as never)).toThrow(CatalogError);
    expect(() => parsePrimitiveId(value as never)).toThrow(CatalogError);
    expect(() => toolIdFor(value as never, {})).toThrow(CatalogError);
  });

  it.each<Partial<ToolIdParts>>([
    { namespace: "A" },
    { name: "" },
    { name: "b:c" },
    { name: "b@1" },
    { name: "b\n" },
    { version: "" },
    { version: undefined as never },
    { hash8: "0" },
  ])("to format %j", (wrong) => {
    const parts = { namespace: "a", name: "b", version: null, hash8: null };
    expect(formatToolId(parts)).toBe("a:b");
    expect(() => formatToolId({ ...parts, ...wrong })).toThrow(CatalogError);
    expect(() => formatPrimitiveId("agent" as never, parts)).toThrow(CatalogError);
  });

  it("of lone surrogates wherever they would be hashed", () => {
    for (const lone of ["\ud800", "a\udc00b", "\ude00\ud83d.x"]) {
      expect(() => toolIdFor(lone, {})).toThrow(CatalogError);
      expect(() => toolIdFor("x", {}, { server: lone })).toThrow(CatalogError);
      expect(() => resourceIdFor(lone, "x")).toThrow(CatalogError);
      expect(() => promptIdFor(lone, [])).toThrow(CatalogError);
      expect(() => normalizeNamespace(lone)).toThrow(CatalogError);
    }
    expect(resourceIdFor("a://b", "x\ud800y", "fs")).toMatch(/^resource::fs:x_y#/);
  });
});

describe("what languages disagree on", () => {
  it("is the order of names, by code point", () => {
    const properties = { "😀": 1, "\uff5e": 1, "\ud83d": 1, b: 1, ab: 1, a: 1, 10: 1, 9: 1 };
    const sorted = ["10", "9", "a", "ab", "b", "\\ud83d", "\\uff5e", "\\ud83d\\ude00"];
    const names = sorted.map((name) => `"${name}"`).join();
    expect(canonicalShape({ properties, required: Object.keys(properties) })).toBe(
      `{"properties":[${names}],"required":[${names}]}`,
    );
  });

  it("is the names that every object has", () => {
    const schema = JSON.parse('{"properties":{"__proto__":{},"constructor":{}},"__proto__":{"required":["x"]}}');
    expect(canonicalShape(schema)).toBe('{"properties":["__proto__","constructor"],"required":[]}');
    expect(clashingNamespaces(["Constructor", "constructor", "b", "B", "b", "c"])).toEqual(
      new Map([
        ["b", ["b", "B"]],
        ["constructor", ["Constructor", "constructor"]],
      ]),
    );
    expect([...clashingNamespaces(["C", "c", "B", "b"]).keys()]).toEqual(["b", "c"]);
  });

  it("is lower case beyond ASCII", () => {
    expect(normalizeNamespace("\u212aelvin")).toBe("elvin");
    expect(normalizeNamespace("A\u0130B")).toBe("a-b");
  });

  it("is how many characters a text has", () => {
    const name = `${"😀".repeat(1023)}ab`;
    expect(toolIdFor(name, {}, { server: "w" })).toMatch(/^w:_a#/);
  });

  it("is what a line end is", () => {
    expect(inferNamespace("a.\nb")).toBe("a");
    expect(resourceIdFor("a:/x\u2028/y", "", "fs")).toMatch(/^resource::fs:y#/);
    expect(resourceIdFor("a:/x/", "", "fs")).toMatch(/^resource::fs:x_#/);
  });
});
