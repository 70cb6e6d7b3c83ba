import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { connect, RpcError } from "../src/client.js";
import { makeMetaTokenizer, wrapServer } from "../src/index.js";

const running: Server[] = [];

/** The SDK's own server, with sessions, as its users set it up; its tools ship leaves of the toy map. */
async function startSdkServer(enableJsonResponse: boolean): Promise<{ url: string; sessions: Map<string, unknown> }> {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const http = createServer(async (request, response) => {
    const session = request.headers["mcp-session-id"] as string | undefined;
    const known = sessions.get(session ?? "");
    if (session !== undefined && known === undefined) return void response.writeHead(404).end();
    const transport =
      known ??
      new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        enableJsonResponse,
        onsessioninitialized: (id) => void sessions.set(id, transport),
        onsessionclosed: (id) => void sessions.delete(id),
      });
    if (known === undefined) await (await makeServer()).connect(transport as Parameters<McpServer["connect"]>[0]);
    await transport.handleRequest(request, response);
  });
  running.push(http);
  await new Promise<void>((done) => http.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`, sessions };
}

async function makeServer(): Promise<McpServer> {
  const server = new McpServer({ name: "sdk", version: "1" });
  server.registerTool("echo", { inputSchema: { text: z.string() } }, ({ text }) => ({
    content: [{ type: "text", text }],
  }));
  server.registerTool("count", { inputSchema: { to: z.number() } }, async ({ to }, { _meta, sendNotification }) => {
    const progressToken = _meta?.progressToken;
    for (let progress = 1; progressToken !== undefined && progress <= to; progress++)
      await sendNotification({ method: "notifications/progress", params: { progressToken, progress, total: to } });
    return { content: [{ type: "text", text: "counted" }] };
  });
  wrapServer(server, await makeMetaTokenizer({ mapUrl: "toy" }));
  return server;
}

afterEach(() => {
  for (const http of running.splice(0)) {
    http.closeAllConnections();
    http.close();
  }
});

describe.each([
  ["events", false],
  ["JSON", true],
])("the SDK's server that answers in %s", (_, enableJsonResponse) => {
  it("is spoken to as it likes it, and its leaves are checked", async () => {
    const { url, sessions } = await startSdkServer(enableJsonResponse);
    const tokenizer = await makeMetaTokenizer({ mapUrl: "toy" });
    const client = await connect({ url, tokenizer });
    expect([client.protocolVersion, client.speaksFrames]).toEqual(["2025-11-25", false]);
    expect((await client.listTools()).map(({ name }) => name)).toEqual(["echo", "count"]);
    const { texts, ids } = await client.callTool("echo", { text: "the cat" });
    expect([texts, ids]).toEqual([["the cat"], [tokenizer.encode("the cat")]]);
    expect((await client.callTool("echo", { text: 5 })).isError).toBe(true);
    await expect(client.request("no/such/method")).rejects.toBeInstanceOf(RpcError);
    expect(sessions.size).toBe(1);
    await client.close();
    expect(sessions.size).toBe(0);
  });

  it("gets a new handshake after it forgot the session", async () => {
    const { url, sessions } = await startSdkServer(enableJsonResponse);
    const client = await connect({ url });
    sessions.clear();
    expect((await client.callTool("echo", { text: "x" })).texts).toEqual(["x"]);
    await client.close();
  });
});

it("progress of the SDK's server arrives step by step", async () => {
  const { url } = await startSdkServer(false);
  const client = await connect({ url });
  const seen: number[] = [];
  const { texts } = await client.callTool("count", { to: 3 }, { onProgress: ({ progress }) => seen.push(progress) });
  expect([seen, texts]).toEqual([[1, 2, 3], ["counted"]]);
  await client.close();
});

it("the package offers the client under a name of its own", () => {
  const program = `
    import * as client from "@codecai/mcp-leaf/client";
    import * as leaf from "@codecai/mcp-leaf";
    console.log(typeof client.connect, typeof client.FrameReader, "connect" in leaf);`;
  const args = ["--input-type=module", "--eval", program];
  const { stdout } = spawnSync(process.execPath, args, { cwd: new URL("..", import.meta.url), encoding: "utf8" });
  expect(stdout.trim()).toBe("function function false");
});
