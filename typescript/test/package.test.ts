/**
 * What the package promises to those who install it: where it runs, how it is loaded, and what its types need.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runInNewContext } from "node:vm";
import { gzipSync } from "node:zlib";
import { Client } from "@modelcontextprotocol/client";
import { InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import { build } from "esbuild";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import {
  MapDigestError,
  MapHashMismatchError,
  MapInvalidError,
  MapUnreachableError,
  makeMetaTokenizer,
  makeMetaTokenizerFromBytes,
  verifyCodecMeta,
  wrapServer,
} from "../src/index.js";
import { findBundledMap } from "../src/map.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const { path, sha256 } = findBundledMap("toy")!;
const bytes = readFileSync(path);

/** A folder in which the package is installed. */
let folder: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "leaf-package-"));
  await mkdir(join(folder, "node_modules/@codecai"), { recursive: true });
  symlinkSync(root, join(folder, "node_modules/@codecai/mcp-leaf"), "dir");
});

afterEach(() => rmSync(folder, { recursive: true }));

describe("makeMetaTokenizerFromBytes", () => {
  it("gives the tokenizer of these bytes", async () => {
    const [own, loaded] = [await makeMetaTokenizerFromBytes(bytes), await makeMetaTokenizer({ mapUrl: "toy" })];
    expect([own.mapId, own.encode("the cat"), own.map]).toEqual([sha256, loaded.encode("the cat"), loaded.map]);
  });

  it("refuses other bytes than those expected, and names the map", async () => {
    expect((await makeMetaTokenizerFromBytes(bytes, { hash: sha256.slice(7).toUpperCase() })).mapId).toBe(sha256);
    const make = (hash?: string, content = bytes) => makeMetaTokenizerFromBytes(content, { hash, name: "mine" });
    await expect(make("0".repeat(64))).rejects.toThrow(MapHashMismatchError);
    await expect(make("0".repeat(64))).rejects.toThrow(/^mine: expected sha256:0/);
    await expect(make("x")).rejects.toThrow(MapDigestError);
    await expect(make(undefined, Buffer.from("{}"))).rejects.toThrow(MapInvalidError);
  });
});

it("packed files are unpacked, and their digest is that of the map", async () => {
  const packed = gzipSync(bytes);
  expect((await makeMetaTokenizerFromBytes(packed, { hash: sha256 })).mapId).toBe(sha256);
  await expect(makeMetaTokenizerFromBytes(packed.subarray(0, 40))).rejects.toThrow(/not a gzip file/);
  const file = join(folder, "toy.json.gz");
  writeFileSync(file, packed);
  const load = (maxBytes: number) => makeMetaTokenizer({ mapUrl: file, mapHash: sha256, cache: false, maxBytes });
  expect((await load(bytes.length)).encode("the cat")).toEqual([261, 264]);
  await expect(load(bytes.length - 1)).rejects.toThrow(/larger than the limit/);
  writeFileSync(file, packed.subarray(0, 40));
  await expect(load(bytes.length)).rejects.toThrow(MapUnreachableError);
});

describe("in browsers and workers", () => {
  const program = `
    import { makeMetaTokenizerFromBytes, readCodecMeta, stripCodecMeta, verifyCodecMeta, wrapToolCall }
      from "@codecai/mcp-leaf";
    globalThis.answer = makeMetaTokenizerFromBytes(mapBytes).then((meta) => {
      const result = wrapToolCall({ content: [{ type: "text", text: "the cat" }] }, meta);
      return JSON.stringify([readCodecMeta(result)[0].ids, verifyCodecMeta(result, meta), stripCodecMeta(result)]);
    });`;

  it.each(["@codecai/mcp-leaf", "@codecai/mcp-leaf/portable"])("%s runs without the modules of Node", async (entry) => {
    // For the platform `browser`, esbuild fails at any import of a module of Node.
    const { outputFiles } = await build({
      stdin: { contents: program.replace("@codecai/mcp-leaf", entry), resolveDir: folder },
      bundle: true,
      platform: "browser",
      format: "iife",
      write: false,
      logLevel: "silent",
    });
    // What browsers and workers have in common; there is no Buffer, no process and no require.
    const scope: Record<string, unknown> = { TextEncoder, TextDecoder, crypto, mapBytes: new Uint8Array(bytes) };
    runInNewContext(outputFiles[0]!.text, scope);
    expect(JSON.parse(await (scope.answer as Promise<string>))).toEqual([
      [261, 264],
      [{ textIndex: 0, verdict: "accept", reason: null }],
      { content: [{ type: "text", text: "the cat" }] },
    ]);
  });

  it("maps are built without the modules of Node", async () => {
    const contents = `
      import { buildMap, PATTERNS } from "@codecai/mcp-leaf/build";
      globalThis.answer = buildMap(ranks, { id: "toy", pattern: PATTERNS.cl100k, specials: { "<|stop|>": 300 } })
        .then(({ mapId }) => mapId);`;
    const options = { bundle: true, platform: "browser", format: "iife", write: false, logLevel: "silent" } as const;
    const { outputFiles } = await build({ stdin: { contents, resolveDir: folder }, ...options });
    const tokens = ["th", "he", "in", "er", "an", "the", " c", " ca", " cat", " the"].map((text) => Buffer.from(text));
    const rows = [...Array.from({ length: 256 }, (_, byte) => Buffer.of(byte)), ...tokens];
    const ranks = Buffer.from(rows.map((token, rank) => `${token.toString("base64")} ${rank}\n`).join(""));
    const scope: Record<string, unknown> = { TextEncoder, TextDecoder, crypto, atob, ranks: new Uint8Array(ranks) };
    runInNewContext(outputFiles[0]!.text, scope);
    expect(await scope.answer).toBe(sha256);
  });

  it("says at bundling time that maps cannot be loaded by name", async () => {
    const contents = 'import { makeMetaTokenizer } from "@codecai/mcp-leaf"; makeMetaTokenizer({ mapUrl: "toy" });';
    const options = { bundle: true, platform: "browser", write: false, logLevel: "silent" } as const;
    const building = build({ stdin: { contents, resolveDir: folder }, ...options });
    await expect(building).rejects.toThrow(/No matching export .* for import "makeMetaTokenizer"/);
  });
});

describe("loading", () => {
  it("works with require", () => {
    const program = `
      const leaf = require("@codecai/mcp-leaf");
      const { connect } = require("@codecai/mcp-leaf/client");
      const { buildMap } = require("@codecai/mcp-leaf/build");
      console.log(typeof leaf.wrapServer, typeof leaf.toolIdFor, typeof connect, typeof buildMap);`;
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=commonjs", "--eval", program], {
      cwd: folder,
      encoding: "utf8",
    });
    expect(stdout.trim(), stderr).toBe("function function function function");
  });

  it("needs a Node that can require modules, and says so", () => {
    const { engines } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    expect(engines.node).toBe("^20.19.0 || >=22.12.0");
  });
});

describe("types", () => {
  it.each([
    ["NodeNext", '["ES2022", "DOM"]'],
    ["Preserve", '["ES2022", "DOM"]'],
  ])("need none of Node's, with module %s", (module, lib) => {
    writeFileSync(
      join(folder, "consumer.mts"),
      `import { makeMetaTokenizer, makeMetaTokenizerFromBytes, wrapServer, type LoadedTokenizer } from "@codecai/mcp-leaf";
       import { readCodecMeta, verifyCodecMeta } from "@codecai/mcp-leaf/portable";
       import { connect, type Card } from "@codecai/mcp-leaf/client";
       import { type BuiltMap, buildMap } from "@codecai/mcp-leaf/build";
       const built: BuiltMap = await buildMap(new Uint8Array(), { id: "me/mine", pattern: "x", normalizer: "nfc" });
       const meta: LoadedTokenizer = await makeMetaTokenizer({ mapUrl: "toy", fetchImpl: fetch });
       const other: LoadedTokenizer = await makeMetaTokenizerFromBytes(new Uint8Array(), { hash: "x" });
       const client = await connect({ url: "http://127.0.0.1/", tokenizer: meta });
       const cards: readonly Card[] = (await client.browse({ query: "x" })).page?.cards ?? [];
       const schema: unknown = (await client.hydrate(cards[0]?.id ?? "")).tool?.args_schema;
       export const all = [readCodecMeta({}), verifyCodecMeta({}, other), wrapServer({}, other), schema, built];
       // @ts-expect-error: the types of Node are not here
       export const missing: Buffer = new Uint8Array();`,
    );
    writeFileSync(
      join(folder, "tsconfig.json"),
      `{"compilerOptions": {"module": "${module}", "target": "ES2022", "lib": ${lib}, "types": [], "strict": true,
        "exactOptionalPropertyTypes": true, "skipLibCheck": false, "noEmit": true}, "include": ["consumer.mts"]}`,
    );
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    const { stdout } = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" });
    expect(stdout).toBe("");
  });
});

it("a server of SDK 2 ships leaves, also of tools that are registered later", async () => {
  const meta = await makeMetaTokenizer({ mapUrl: "toy" });
  const server = new McpServer({ name: "test", version: "1" });
  const answer = async ({ text }: { text: string }) => ({ content: [{ type: "text" as const, text }] });
  server.registerTool("early", { inputSchema: z.object({ text: z.string() }) }, answer);
  wrapServer(server, meta);
  server.registerTool("late", { inputSchema: z.object({ text: z.string() }) }, answer);
  const client = new Client({ name: "test", version: "1" });
  const [here, there] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(there), client.connect(here)]);
  for (const name of ["early", "late"]) {
    const result = await client.callTool({ name, arguments: { text: "the cat" } });
    expect(verifyCodecMeta(result, meta)).toEqual([{ textIndex: 0, verdict: "accept", reason: null }]);
  }
  await client.close();
});
