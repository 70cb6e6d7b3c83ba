import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { connect, ProtocolError, RequestError } from "../src/client.js";
import { CLIENT_VERSION } from "../src/connect-options.js";
import { makeMetaTokenizer, wrapToolCall } from "../src/index.js";
import type { Message } from "../src/messages.js";
import { against, FORMS, failure, open } from "./clients.js";
import { answer, answerText, promised, startServer, stateless } from "./mcp-over-http.js";

describe("what goes over the wire", () => {
  it("is JSON until the server has shown that it speaks frames, then frames", async () => {
    const { client, server } = await against((heard, speaker) => answerText(heard, speaker, "hello"));
    expect((await client.callTool("echo", { text: "x" })).texts).toEqual(["hello"]);
    expect(server.heard.map(({ headers }) => headers["content-type"])).toEqual([
      "application/json",
      "application/x-codec-msgpack",
    ]);
    expect(client.speaksFrames).toBe(true);
    expect(client.protocolVersion).toBe("2026-07-28");
  });

  it.each(["events", "json"] as const)("stays JSON at a server that answers in %s", async (form) => {
    const { client, server } = await against((heard, speaker) => answerText(heard, speaker, "hello"), form);
    expect((await client.callTool("echo")).texts).toEqual(["hello"]);
    expect(new Set(server.heard.map(({ headers }) => headers["content-type"]))).toEqual(new Set(["application/json"]));
    expect(client.speaksFrames).toBe(false);
  });

  it("asks for frames first, and for JSON alone where told so", async () => {
    const server = await startServer(stateless(() => {}));
    await open(server.url);
    await open(server.url, { frames: false });
    expect(server.heard.map(({ headers }) => headers.accept)).toEqual([
      "application/x-codec-msgpack, application/json, text/event-stream",
      "application/json, text/event-stream",
    ]);
  });

  it("says who asks, what for and in which form", async () => {
    const tokenizer = await makeMetaTokenizer({ mapUrl: "toy" });
    const { client, server } = await against(
      (heard, speaker) =>
        answer(heard, speaker, wrapToolCall({ content: [{ type: "text", text: "the cat" }] }, tokenizer)),
      "frames",
      { mapId: tokenizer.mapId.slice(7).toUpperCase(), form: "both", token: "secret" },
    );
    await client.callTool("søk", { deep: [1, null, { x: 1.5 }] });
    const { headers, message } = server.asked("tools/call")[0]!;
    expect(headers).toMatchObject({
      authorization: "Bearer secret",
      "x-codec-map": tokenizer.mapId,
      "codec-client-version": "0.6",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": `=?base64?${Buffer.from("søk").toString("base64")}?=`,
    });
    expect(message).toMatchObject({
      jsonrpc: "2.0",
      method: "tools/call",
      params: {
        name: "søk",
        arguments: { deep: [1, null, { x: 1.5 }] },
        _meta: {
          "ai.codec/accept": { map_id: tokenizer.mapId, form: "both" },
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": {},
        },
      },
    });
  });

  it("asks for a token before each request, where it is a function", async () => {
    let count = 0;
    const { client, server } = await against((heard, speaker) => answerText(heard, speaker, ""), "frames", {
      token: async () => `token-${++count}`,
    });
    await client.callTool("echo");
    expect(server.heard.map(({ headers }) => headers.authorization)).toEqual(["Bearer token-1", "Bearer token-2"]);
  });

  it.each(["", "secret words", "secret\nline", "secret \u00fc"])(
    "never shows a token, not even one that no header holds: %j",
    async (token) => {
      const server = await startServer(stateless(() => {}));
      const error = (await failure(connect({ url: server.url, token }))) as Error;
      expect(error).toBeInstanceOf(RequestError);
      expect(error.message).not.toContain("secret");
      expect(server.heard).toEqual([]);
    },
  );

  it("names the version that the package has", () => {
    const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
      version: string;
    };
    expect(CLIENT_VERSION).toBe(version);
  });

  it("gives the gateway's tools what they take", async () => {
    const { client, server } = await against((heard, speaker) => answerText(heard, speaker, "ok"));
    await client.browse({ query: "time", topK: 3 });
    await client.browse({ path: "/" });
    await client.execute("time:now@1", { zone: "UTC" });
    await client.execute("time:now@1", {}, { dryRun: true });
    await client.hydrate("time:now@1");
    await client.view("h1", { head: 10 });
    const called = server.asked("tools/call").map(({ message }) => message.params as Message);
    expect(called.map((params) => [params.name, params.arguments])).toEqual([
      ["tool_browse", { query: "time", top_k: 3 }],
      ["tool_browse", { path: "/" }],
      ["tool_execute", { tool_id: "time:now@1", args: { zone: "UTC" } }],
      ["tool_execute", { tool_id: "time:now@1", args: {}, dry_run: true }],
      ["tool_hydrate", { tool_id: "time:now@1" }],
      ["tool_view", { handle: "h1", selector: { head: 10 } }],
    ]);
  });

  it.each([[{ x: Number.NaN }], [{ x: "\ud800" }], [{ x: 1n }], [{ x: new Date() }]])(
    "refuses arguments that cannot be sent, before anything is: %o",
    async (args) => {
      for (const form of FORMS) {
        const { client, server } = await against((heard, speaker) => answerText(heard, speaker, ""), form);
        expect(await failure(client.callTool("echo", args))).toBeInstanceOf(RequestError);
        expect(server.asked("tools/call")).toEqual([]);
      }
    },
  );
});

describe("answers", () => {
  it.each(FORMS.slice(0, 2))("bring their progress before they are there, in %s", async (form) => {
    const { promise: released, keep: release } = promised();
    const { client } = await against(async (heard, speaker) => {
      const { progressToken } = (heard.message.params as { _meta: { progressToken: number } })._meta;
      const told = (progress: number) => ({ progressToken, progress, total: 2, message: `step ${progress}` });
      speaker.say({ jsonrpc: "2.0", method: "notifications/progress", params: told(1) });
      speaker.say({
        jsonrpc: "2.0",
        method: "notifications/progress",
        params: { progressToken: "other", progress: 9 },
      });
      speaker.say({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "x" } });
      // A client that waits for the end of the stream would wait for ever.
      await released;
      speaker.say({ jsonrpc: "2.0", method: "notifications/progress", params: told(2) });
      answerText(heard, speaker, "done");
    }, form);
    const seen: unknown[] = [];
    const { texts } = await client.callTool(
      "slow",
      {},
      {
        onProgress(progress) {
          seen.push(progress);
          release();
        },
      },
    );
    expect(texts).toEqual(["done"]);
    expect(seen).toEqual([
      { progress: 1, total: 2, message: "step 1" },
      { progress: 2, total: 2, message: "step 2" },
    ]);
  });

  it("throw what onProgress throws", async () => {
    const { client } = await against((heard, speaker) => {
      const { progressToken } = (heard.message.params as { _meta: { progressToken: number } })._meta;
      speaker.say({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken, progress: 1 } });
    });
    const mine = new Error("mine");
    const onProgress = () => {
      throw mine;
    };
    expect(await failure(client.callTool("slow", {}, { onProgress }))).toBe(mine);
  });

  it("find their requests, twenty at once", async () => {
    const { client } = await against((heard, speaker) =>
      answerText(heard, speaker, JSON.stringify((heard.message.params as Message).arguments)),
    );
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => client.callTool("echo", { n })));
    expect(answers.map(({ texts }) => texts[0])).toEqual(Array.from({ length: 20 }, (_, n) => `{"n":${n}}`));
  });

  it("keep what is foreign to us: structure, other blocks, unknown fields", async () => {
    const result = JSON.parse(
      '{"content":[{"type":"image","data":"","x":1}],"structuredContent":{"__proto__":1,"n":[1.5,null]},"isError":true,"_meta":{"a":1}}',
    ) as Message;
    const answers = await Promise.all(
      FORMS.map(async (form) => {
        const { client } = await against((heard, speaker) => answer(heard, speaker, result), form);
        return client.callTool("echo");
      }),
    );
    for (const { result: found, isError, texts, ids } of answers) {
      expect(JSON.stringify(found)).toBe(JSON.stringify(result));
      expect([isError, texts, ids]).toEqual([true, [], []]);
    }
  });

  it("may be large, and come in many chunks", async () => {
    const text = "the cat ".repeat(400_000);
    for (const form of FORMS) {
      const { client } = await against((heard, speaker) => answerText(heard, speaker, text), form);
      expect((await client.callTool("echo")).texts[0] === text).toBe(true);
    }
  });

  it("are listed through all pages", async () => {
    const page = (name: string, nextCursor?: string) => ({ tools: [{ name }], ...(nextCursor ? { nextCursor } : {}) });
    const pages: Record<string, Message> = { "": page("a", "1"), "1": page("b", "2"), "2": page("c") };
    const server = await startServer((heard, speaker) => {
      const { cursor = "" } = heard.message.params as { cursor?: string };
      const discovered = { supportedVersions: ["2026-07-28"] };
      answer(heard, speaker, heard.message.method === "server/discover" ? discovered : pages[cursor]!);
    });
    const client = await open(server.url);
    expect((await client.listTools()).map(({ name }) => name)).toEqual(["a", "b", "c"]);
    pages["2"] = page("c", "2");
    expect(await failure(client.listTools())).toBeInstanceOf(ProtocolError);
    pages[""] = { tools: [{ title: "nameless" }] };
    expect(await failure(client.listTools())).toBeInstanceOf(ProtocolError);
  });
});
