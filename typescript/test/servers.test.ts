import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { hasCodecMeta, makeMetaTokenizer, readCodecMeta, verifyCodecMeta, wrapServer } from "../src/index.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const timeServer = `${root}dist/examples/time-server/main.js`;
const cli = `${root}dist/src/cli.js`;
const everything = `${root}node_modules/@modelcontextprotocol/server-everything/dist/index.js`;
const clients: Client[] = [];

async function connect(args: string[], env: Record<string, string> = {}) {
  const client = new Client({ name: "test", version: "1" });
  clients.push(client);
  const transport = new StdioClientTransport({ command: process.execPath, args, env, stderr: "pipe" });
  let stderr = "";
  transport.stderr?.on("data", (chunk) => (stderr += chunk));
  await client.connect(transport);
  return { client, stderr: () => stderr };
}

async function call(client: Client, name: string, args: Record<string, unknown> = {}): Promise<CallToolResult> {
  return (await client.callTool({ name, arguments: args })) as CallToolResult;
}

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

describe("the time server", () => {
  it("tells the time with ids that verify", async () => {
    const qwen = await makeMetaTokenizer({ mapUrl: "qwen/qwen2" });
    const { client } = await connect([timeServer]);
    const { tools } = await client.listTools();
    expect(tools.map((tool) => tool.name)).toEqual(["get_current_time", "convert_time"]);
    for (const result of [
      await call(client, "get_current_time"),
      await call(client, "get_current_time", { timezone: "Asia/Kolkata" }),
      await call(client, "convert_time", {
        source_timezone: "Europe/Berlin",
        time: "09:05",
        target_timezone: "Asia/Tokyo",
      }),
      await call(client, "get_current_time", { timezone: "Mars/Olympus" }),
    ])
      expect(verifyCodecMeta(result, qwen)).toEqual([{ textIndex: 0, verdict: "accept", reason: null }]);
  });

  it("answers wrong input with an error result", async () => {
    const { client } = await connect([timeServer], { CODEC_MAP_URL: "toy" });
    const zone = await call(client, "get_current_time", { timezone: "Mars/Olympus" });
    expect([zone.isError, readCodecMeta(zone)[0]!.text]).toEqual([true, expect.stringContaining("Mars/Olympus")]);
    const time = await call(client, "convert_time", { source_timezone: "UTC", time: "25:00", target_timezone: "UTC" });
    expect([time.isError, readCodecMeta(time)[0]!.text]).toEqual([true, expect.stringContaining("25:00")]);
  });

  it.each([
    [{ CODEC_MAP_URL: "/no/such/map", CODEC_MAP_HASH: "0".repeat(64) }],
    [{ CODEC_MAP_URL: "toy", CODEC_MAP_HASH: "0".repeat(64) }],
    [{ CODEC_MAP_HASH: "nonsense" }],
  ])("serves plain results without its map, and says so: %j", async (env) => {
    const { client, stderr } = await connect([timeServer], env);
    const result = await call(client, "get_current_time");
    expect(hasCodecMeta(result)).toBe(false);
    expect(readCodecMeta(result)[0]!.text).toMatch(/^It is currently \d\d:\d\d UTC\.$/);
    expect(stderr()).toContain("serving plain results");
  });

  it("is graduated by mcp-leaf wrap as well", async () => {
    const toy = await makeMetaTokenizer({ mapUrl: "toy" });
    const env = { CODEC_MAP_URL: "/no/such/map" };
    const { client } = await connect([cli, "wrap", "--map", "toy", "--", process.execPath, timeServer], env);
    expect(verifyCodecMeta(await call(client, "get_current_time"), toy)[0]!.verdict).toBe("accept");
  });
});

describe("server-everything behind mcp-leaf wrap", () => {
  const inputs: Record<string, Record<string, unknown>> = {
    echo: { message: "Hello, wörld <|im_end|>" },
    "get-sum": { a: 1, b: 2 },
    "get-annotated-message": { messageType: "error", includeImage: true },
    "get-structured-content": { location: "New York" },
    "get-resource-reference": { resourceType: "Text", resourceId: 1 },
    "get-resource-links": { count: 2 },
    "trigger-long-running-operation": { duration: 1, steps: 2 },
    "gzip-file-as-resource": { name: "a.gz", data: "data:text/plain,hello", outputType: "resource" },
  };

  it("answers with all its tools as it does without, and with ids that verify", async () => {
    const cl100k = await makeMetaTokenizer({ mapUrl: "openai/cl100k_base" });
    const plain = await connect([everything, "stdio"]);
    const wrapped = await connect([
      cli,
      "wrap",
      "--map",
      "openai/cl100k_base",
      "--",
      process.execPath,
      everything,
      "stdio",
    ]);
    const tools = (await wrapped.client.listTools()).tools;
    expect(tools).toEqual((await plain.client.listTools()).tools);
    expect(tools.length).toBeGreaterThan(8);
    let texts = 0;
    for (const { name, execution } of tools) {
      // A tool that only runs as a task answers no plain call, with or without us.
      if (execution?.taskSupport === "required") continue;
      const expected = await call(plain.client, name, inputs[name]);
      const result = await call(wrapped.client, name, inputs[name]);
      expect(result.isError, name).toBe(expected.isError);
      expect(
        result.content.map((block) => block.type),
        name,
      ).toEqual(expected.content.map((block) => block.type));
      expect(result.structuredContent, name).toEqual(expected.structuredContent);
      for (const { verdict } of verifyCodecMeta(result, cl100k)) {
        expect(verdict, name).toBe("accept");
        texts++;
      }
    }
    expect(texts).toBeGreaterThan(8);
  });
});

describe("wrapServer", () => {
  async function served(server: McpServer): Promise<Client> {
    const [near, far] = InMemoryTransport.createLinkedPair();
    const client = new Client({ name: "test", version: "1" });
    clients.push(client);
    await Promise.all([server.connect(far), client.connect(near)]);
    return client;
  }

  const say = (text: string) => () => ({ content: [{ type: "text" as const, text }] });

  it("wraps tools that are there, and tools that come later, even after connecting", async () => {
    const toy = await makeMetaTokenizer({ mapUrl: "toy" });
    const server = new McpServer({ name: "s", version: "1" });
    server.registerTool("before", {}, say("the cat"));
    expect(wrapServer(server, toy)).toBe(server);
    server.registerTool("after", { inputSchema: { who: z.string() } }, ({ who }) => say(`the ${who}`)());
    const client = await served(server);
    server.registerTool("late", {}, say("the cat"));
    for (const [name, args] of [
      ["before", {}],
      ["after", { who: "cat" }],
      ["late", {}],
    ] as const)
      expect(verifyCodecMeta(await call(client, name, args), toy), name).toEqual([
        { textIndex: 0, verdict: "accept", reason: null },
      ]);
  });

  it("wraps a server that has no tool yet, once only, with options", async () => {
    const toy = await makeMetaTokenizer({ mapUrl: "toy" });
    const server = wrapServer(wrapServer(new McpServer({ name: "s", version: "1" }), toy), toy, { minTextLength: 100 });
    server.registerTool("tool", {}, say("the cat"));
    expect(hasCodecMeta(await call(await served(server), "tool"))).toBe(true);
  });

  it("keeps errors, output schemas and the plain Server's own handlers", async () => {
    const toy = await makeMetaTokenizer({ mapUrl: "toy" });
    const server = new McpServer({ name: "s", version: "1" });
    wrapServer(server.server, toy);
    server.registerTool("fails", {}, () => {
      throw new Error("the cat");
    });
    server.registerTool("typed", { outputSchema: { n: z.number() } }, () => ({
      ...say("the cat")(),
      structuredContent: { n: 1 },
    }));
    const client = await served(server);
    const failed = await call(client, "fails");
    expect([failed.isError, hasCodecMeta(failed)]).toEqual([true, true]);
    expect(await call(client, "typed")).toMatchObject({ structuredContent: { n: 1 } });
  });

  it("says what it needs", async () => {
    const toy = await makeMetaTokenizer({ mapUrl: "toy" });
    expect(() => wrapServer({}, toy)).toThrow(TypeError);
    expect(() => wrapServer({ server: null }, toy)).toThrow(/McpServer/);
  });
});
