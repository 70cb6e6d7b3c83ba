import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type BuildOptions, buildMap, PATTERNS, type PatternName } from "../src/building.js";
import { idsDigest } from "../src/ids-digest.js";
import { bundledMaps } from "../src/map.js";
import { compare, describeDifference, openOriginal } from "../src/map-check.js";
import { readMapDocument } from "../src/map-document.js";
import { mapsCommand } from "../src/maps-command.js";
import { quote } from "../src/quoting.js";
import { makeTokenizer } from "../src/tokenizer.js";

interface Source {
  text?: string;
  base64?: string;
  json?: unknown;
  like?: string;
  set?: Record<string, unknown>;
  options?: { pattern?: string } & Omit<BuildOptions, "id">;
}
interface Case {
  name: string;
  input: Source;
  expect: { error?: string; map_id?: string };
}

const CASES = ["build", "refuse"].flatMap((name) => {
  const file = new URL(`../../shared-fixtures/build-map/${name}.json`, import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { cases: Case[] }).cases;
});
const ROOT = new URL("../../maps/", import.meta.url);

function documentOf({ like, set = {}, json }: Source): unknown {
  if (like === undefined) return json;
  const found = structuredClone(documentOf(CASES.find(({ name }) => name === like)!.input)) as Record<string, unknown>;
  for (const [path, value] of Object.entries(set)) {
    const names = path.split(".");
    const last = names.pop()!;
    const place = names.reduce((at, name) => at[name] as Record<string, unknown>, found);
    place[last] = value;
  }
  return found;
}

function bytesOf(source: Source): Uint8Array {
  if (source.base64 !== undefined) return Buffer.from(source.base64, "base64");
  return Buffer.from(source.text ?? JSON.stringify(documentOf(source)));
}

describe("building as Python does", () => {
  it.each(CASES)("$name", async ({ input, expect: expected }) => {
    const { pattern, ...options } = input.options ?? {};
    const chosen = Object.hasOwn(PATTERNS, pattern ?? "") ? PATTERNS[pattern as PatternName] : pattern;
    const building = buildMap(bytesOf(input), { id: "me/mine", name: "x", pattern: chosen, ...options });
    if (expected.error !== undefined) {
      const error = await building.then(
        () => new Error("it was built"),
        (reason: Error) => reason,
      );
      expect(error.name).toBe("MapInvalidError");
      expect(error.message.slice(0, expected.error.length)).toBe(expected.error);
      return;
    }
    const { bytes, mapId, idsDigest: ids, notes } = await building;
    expect({ map_id: mapId, ids_digest: ids, bytes: bytes.length, notes }).toEqual(expected);
  });
});

it.each(bundledMaps())("the ids digest of $id is that of the index", async ({ id, path }) => {
  const { maps } = JSON.parse(readFileSync(new URL("index.json", ROOT), "utf8")) as { maps: Array<{ ids: string }> };
  const raw = path.endsWith(".gz") ? gunzipSync(readFileSync(path)) : readFileSync(path);
  const { ids } = maps[bundledMaps().findIndex((map) => map.id === id)]!;
  expect(await idsDigest(readMapDocument(raw, id))).toBe(ids);
});

it.each([
  ["it's", `"it's"`],
  [`'"`, `'\\'"'`],
  ["\u0000\n\u00a0\u200b\u{e0001}é\u{1f600}\\", "'\\x00\\n\\xa0\\u200b\\U000e0001é\u{1f600}\\\\'"],
])("a text in a message is quoted as in Python: %j", (text, expected) => expect(quote(text)).toBe(expected));

describe("mcp-leaf maps", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "leaf-building-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const source = (name: string, document: unknown): string => {
    writeFileSync(join(folder, name), typeof document === "string" ? document : JSON.stringify(document));
    return join(folder, name);
  };
  const documentNamed = (name: string) => documentOf({ like: name }) as Record<string, unknown>;
  const build = (...args: string[]) => mapsCommand(["build", ...args]);

  it("build writes the map and says what it is", async () => {
    const out = join(folder, "out.json");
    const from = source("tokenizer.json", documentNamed("byte-level"));
    const { text, status } = await build(from, "--id", "me/mine", "-o", out, "--json");
    const facts = JSON.parse(text);
    const { expect: expected } = CASES.find(({ name }) => name === "byte-level")!;
    expect([status, facts.map_id, facts.patterns]).toEqual([0, expected.map_id, ["gpt2"]]);
    expect(facts.bytes).toBe(readFileSync(out).length);
    const shown = await build("--from", from, "--id", "me/mine", "--output", out, "--special", "a=b=400");
    expect(shown.text).toContain("special_tokens  3\n");
    expect(JSON.parse(readFileSync(out, "utf8")).special_tokens["a=b"]).toBe(400);
  });

  it.each([
    [["--id", "a/b"], /x.tiktoken has no split pattern; --pattern takes cl100k, o200k/],
    [["--id", "a/b", "--pattern", "cl100kk"], /unknown pattern 'cl100kk'; give one of cl100k, o200k/],
    [["--id", "a/b", "--pattern", "[a-z]+"], /leaves out/],
    [["--id", "../b", "--pattern", "gpt2"], /'..\/b' is not an id for a map; write owner\/name/],
    [["--id", "a/b", "--pattern", "gpt2", "--special", "x"], /--special 'x' is not NAME=ID/],
    [["--id", "a/b", "--pattern", "gpt2", "--special", "=5"], /NAME=ID/],
    [["--id", "a/b", "--pattern", "gpt2", "--special", "x=-1"], /NAME=ID/],
    [["--id", "a/b", "--pattern", "gpt2", "--special", "x=300", "--special", "x=301"], /--special 'x' is given twice/],
    [["--id", "a/b", "--pattern", "gpt2", "--special", "x=99999999999"], /integer/],
    [["--id", "a/b", "--pattern", "gpt2", "--normalizer", "nfd"], /--normalizer takes nfc, nfkc, none/],
    [["--pattern", "gpt2"], /--id is missing/],
  ])("build refuses %j", async (options, message) => {
    const { input } = CASES.find(({ name }) => name === "ranks")!;
    const from = source("x.tiktoken", input.text!);
    await expect(build(from, "--out", join(folder, "out.json"), ...options)).rejects.toThrow(message);
    expect(() => readFileSync(join(folder, "out.json"))).toThrow(/ENOENT/);
  });

  it("build says that a file is missing, or cannot be written", async () => {
    await expect(build(join(folder, "no"), "--id", "a/b")).rejects.toThrow(/ENOENT/);
    const from = source("tokenizer.json", documentNamed("byte-level"));
    await expect(build(from, "--id", "a/b", "--out", join(folder, "no/out.json"))).rejects.toThrow(/out.json: ENOENT/);
    await expect(build()).rejects.toThrow(/give one SOURCE/);
  });

  it("check says nothing about an original that it does not have", async () => {
    const { text, status } = await mapsCommand(["check", "toy"]);
    expect(status).toBe(0);
    expect(text).toContain("checked         the ids of 2360 of 2360 texts decode to them\n");
    expect(text).toContain("compared        with no original: --against takes its file\n");
    expect(text).not.toContain("differences");
    const json = JSON.parse((await mapsCommand(["check", "toy", "--json"])).text);
    expect(json).toMatchObject({ tokens: 266, max_id: 300, special_tokens: { "<|stop|>": 300 }, compared: null });
    expect((await mapsCommand(["check", "toy-metaspace"])).text).toContain("; 9 texts have no tokenization\n");
    await expect(mapsCommand(["check", "qwen/qwen22"])).rejects.toThrow(/did you mean qwen\/qwen2\?/);
  });

  it.each(["byte-level", "byte-level, NFKC in a sequence", "byte-level, stages", "metaspace"])(
    "check compares with the engine of %s",
    async (name) => {
      const from = source("tokenizer.json", documentNamed(name));
      const out = join(folder, "out.json");
      await build(from, "--id", "me/mine", "--out", out);
      const { text, status } = await mapsCommand(["check", out, "--against", from, "--json"]);
      const { compared } = JSON.parse(text);
      expect(compared).toMatchObject({ differences: 0, first_difference: null });
      expect(compared.against).toMatch(/^tokenizers [0-9.]+ \(tokenizer.json\)$/);
      expect(compared.texts + compared.without_ids).toBe(2360);
      expect(status).toBe(0);
    },
  );

  it("check names the first difference in words, and ends with status 1", async () => {
    const from = source("tokenizer.json", documentNamed("byte-level"));
    const { text, status } = await mapsCommand(["check", "toy", "--against", from]);
    expect(status).toBe(1);
    expect(text).toContain(" differences on 2360 texts with tokenizers ");
    expect(text).toContain("\nin the text 'a', at token 0 (character 0): the map gives 97 'a', the original ");
  });

  it("check says what is needed to compare with other files", async () => {
    const from = source("x.tiktoken", CASES.find(({ name }) => name === "ranks")!.input.text!);
    const check = mapsCommand(["check", "toy", "--against", from]);
    await expect(check).rejects.toThrow(/x.tiktoken needs the engines of Python: leafgate maps check MAP --against/);
  });
});

it("a difference is named where the lists part, in characters of the text", async () => {
  const raw = readFileSync(new URL("toy.json", ROOT));
  const tokenizer = makeTokenizer(raw, "sha256:0", "toy");
  const text = `é${"the cat ".repeat(8)}`;
  const ids = tokenizer.encode(text);
  const theirs = [...ids.slice(0, 3), 195, 999];
  expect(describeDifference(tokenizer, text, ids, theirs)).toBe(
    `in the text 'é${"the cat ".repeat(8).slice(0, 59)}' and 5 more characters, at token 3 (character 4): ` +
      "the map gives 264 ' cat', 265 ' the', 264 ' cat', 265 ' the', the original 195 '\\\\xc3', 999",
  );
  const same = { name: "itself", encode: async (each: string) => tokenizer.encode(each) };
  const compared = await compare(tokenizer, same, [text, "\ud800"]);
  expect(compared).toEqual({
    against: "itself",
    texts: 1,
    without_ids: 1,
    differences: 0,
    first_difference: null,
  });
  await expect(openOriginal(Buffer.from('{"model": {}}'), "x")).rejects.toThrow(/^x: /);
});
