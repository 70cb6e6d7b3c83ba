import { describe, expect, it } from "vitest";
import { ClientError, connect, HttpError, ProtocolError, RpcError } from "../src/client.js";
import type { Message } from "../src/messages.js";
import {
  Call,
  handshakeEra,
  headerValue,
  OPENING_ERA,
  type Progress,
  rpcErrorIn,
  statelessEra,
  withMeta,
} from "../src/protocol.js";
import { against, FORMS, failure, open } from "./clients.js";
import {
  answer,
  answerText,
  type Behaviour,
  bare,
  startServer,
  stateless,
  stopServers,
  withSessions,
} from "./mcp-over-http.js";

const info = { name: "test", version: "1" };

describe("the stateless era", () => {
  it("keeps the caller's _meta, and does not touch the parameters it was given", () => {
    const given = { name: "x", _meta: { mine: 1 } };
    const { _meta } = statelessEra(info).params(given) as { _meta: Record<string, unknown> };
    expect(_meta.mine).toBe(1);
    expect(_meta["io.modelcontextprotocol/clientInfo"]).toEqual(info);
    expect(given).toEqual({ name: "x", _meta: { mine: 1 } });
  });

  it.each([
    ["tools/call", { name: "a" }, "a"],
    ["prompts/get", { name: "b" }, "b"],
    ["resources/read", { uri: "file:///c" }, "file:///c"],
    ["tools/list", { name: "a" }, undefined],
    ["tools/call", {}, undefined],
    ["tools/call", { name: 5 }, undefined],
  ])("names what %s is about: %o", (method, params, name) => {
    expect(statelessEra(info).headers(method, params)["mcp-name"]).toBe(name);
  });
});

describe("the handshake era", () => {
  it("has a session where the server keeps one", () => {
    expect(handshakeEra("2025-06-18", "s").headers("tools/list", {})).toEqual({
      "mcp-protocol-version": "2025-06-18",
      "mcp-session-id": "s",
    });
    expect(handshakeEra("2025-06-18", null).headers("tools/list", {})).toEqual({
      "mcp-protocol-version": "2025-06-18",
    });
    expect(OPENING_ERA.headers("initialize", {})).toEqual({});
  });
});

describe("headerValue", () => {
  it.each(["", "plain", "with space inside", "a:b@1#c", "=?base64?", "~"])("passes %j", (value) => {
    expect(headerValue(value)).toBe(value);
  });

  it.each(["é", " edge", "edge ", "a\nb", "a\r\nX-Evil: 1", "\u0000", "\u007f", "=?base64?YQ==?=", "😀"])(
    "wraps %j",
    (value) => {
      const wrapped = headerValue(value);
      expect(wrapped).toMatch(/^=\?base64\?[A-Za-z0-9+/]*=*\?=$/);
      expect(Buffer.from(wrapped.slice(9, -2), "base64").toString()).toBe(value);
    },
  );
});

describe("withMeta", () => {
  it("adds, and lets what is newer win", () => {
    expect(withMeta({ a: 1 }, { x: 1 })).toEqual({ a: 1, _meta: { x: 1 } });
    expect(withMeta({ _meta: { x: 1, y: 2 } }, { x: 3 })).toEqual({ _meta: { x: 3, y: 2 } });
  });
});

const told = (params: unknown): Message => ({ jsonrpc: "2.0", method: "notifications/progress", params });

describe("Call", () => {
  it("takes the answer to its own id", () => {
    expect(new Call(3).take({ jsonrpc: "2.0", id: 3, result: { a: 1 } })).toEqual({ a: 1 });
  });

  it.each([
    { id: 3, method: "ping" },
    { method: "notifications/message", params: { level: "info" } },
    told({ progressToken: 3, progress: 1 }),
    told(null),
  ])("passes over %j", (message) => {
    expect(new Call(3).take(message)).toBeNull();
  });

  it.each([3, null, undefined])("throws the server's error under the id %o", (id) => {
    const message = { jsonrpc: "2.0", id, error: { code: -32000, message: "no" } };
    expect(() => new Call(3).take(message)).toThrow(RpcError);
  });

  it.each([
    { id: 4, result: {} },
    { id: "3", result: {} },
    { id: 4, error: { code: 1, message: "another's" } },
    { id: 3, result: [] },
    { id: 3, result: null },
    { id: 3 },
    { id: 3, error: "no" },
    {},
  ])("refuses %j", (message) => {
    expect(() => new Call(3).take(message)).toThrow(ProtocolError);
  });

  it("tells progress that grows, and nothing that is none of its own", () => {
    const seen: Progress[] = [];
    const call = new Call(3, (progress) => seen.push(progress));
    for (const params of [
      { progressToken: 3, progress: 1, total: 4, message: "a" },
      { progressToken: 3, progress: 1, total: 4, message: "again" },
      { progressToken: 3, progress: 0 },
      { progressToken: 4, progress: 2 },
      { progressToken: "3", progress: 2 },
      { progressToken: 3, progress: "2" },
      { progressToken: 3, progress: 2.5, total: "x", message: 5 },
      [],
    ])
      call.take(told(params));
    expect(seen).toEqual([{ progress: 1, total: 4, message: "a" }, { progress: 2.5 }]);
  });
});

describe("rpcErrorIn", () => {
  it("says whose fault it is", () => {
    const fault = (code: number) => rpcErrorIn({ error: { code, message: "" } })!.fault;
    expect([-32700, -32600, -32601, -32602].map(fault)).toEqual(new Array(4).fill("caller"));
    expect([-32603, -32000, 0, 1].map(fault)).toEqual(new Array(4).fill("server"));
  });

  it.each([{}, { error: null }, { error: [] }, { error: { code: "1", message: "" } }, { error: { code: 1 } }])(
    "finds none in %j",
    (message) => {
      expect(rpcErrorIn(message)).toBeNull();
    },
  );
});

describe("refusals", () => {
  it("in JSON-RPC's words, at any status and in any form", async () => {
    for (const form of FORMS)
      for (const status of [200, 400, 404]) {
        const { client } = await against(({ message: { id } }, speaker) => {
          speaker.response.statusCode = status;
          speaker.say({ jsonrpc: "2.0", id, error: { code: -32602, message: "wrong", data: { at: "/x" } } });
          speaker.end();
        }, form);
        const error = (await failure(client.callTool("echo"))) as RpcError;
        expect(error).toBeInstanceOf(RpcError);
        expect(error).toMatchObject({ code: -32602, message: "wrong", data: { at: "/x" }, fault: "caller" });
      }
  });

  it.each([
    [401, "caller", "token"],
    [403, "caller", "token"],
    [404, "caller", "endpoint"],
    [413, "caller", "413"],
    [429, "caller", "later"],
    [500, "server", "500"],
    [503, "server", "503"],
    [307, "caller", "redirect"],
  ])("by status %i are the %s's fault", async (status, fault, advice) => {
    const { client } = await against((_, { response }) =>
      response.writeHead(status, { "content-type": "application/json" }).end('{"error":"invalid_token"}'),
    );
    const error = (await failure(client.callTool("echo"))) as HttpError;
    expect(error).toBeInstanceOf(HttpError);
    expect(error).toMatchObject({ status, fault });
    expect(error.message).toContain(advice);
  });

  it.each(FORMS)("do not take the token along to where a redirect leads, in %s", async (form) => {
    const elsewhere = await startServer(stateless(() => {}));
    for (const status of [302, 308]) {
      const redirect: Behaviour = (_, { response }) => response.writeHead(status, { location: elsewhere.url }).end();
      const { client } = await against(redirect, form, { token: "secret" });
      const error = (await failure(client.callTool("echo"))) as Error;
      expect(error).toMatchObject({ name: "HttpError", status });
      expect(error.message).not.toContain("secret");
    }
    expect(elsewhere.heard).toEqual([]);
  });

  it("of a connection name the place without its secrets", async () => {
    const server = await startServer(stateless(() => {}));
    stopServers();
    const error = await failure(connect({ url: `${server.url}?key=secret`, token: "secret" }));
    expect(error).toMatchObject({ name: "ConnectionError", fault: "network" });
    expect(String(error)).toContain("/mcp");
    expect(String(error)).not.toContain("secret");
  });

  it.each<[string, string, Behaviour]>([
    ["a status without a message", "ProtocolError", (_, speaker) => bare(speaker, 202)],
    [
      "a page",
      "ProtocolError",
      (_, { response }) => response.writeHead(200, { "content-type": "text/html" }).end("<p>"),
    ],
    [
      "no JSON",
      "ProtocolError",
      (_, { response }) => response.writeHead(200, { "content-type": "application/json" }).end("{"),
    ],
    [
      "JSON that is no UTF-8",
      "ProtocolError",
      (_, { response }) =>
        response.writeHead(200, { "content-type": "application/json" }).end(Buffer.from('{"t":"\xff"}', "latin1")),
    ],
    [
      "a batch",
      "ProtocolError",
      (_, { response }) => response.writeHead(200, { "content-type": "application/json" }).end("[]"),
    ],
    [
      "bytes that are no frames",
      "FrameError",
      (_, { response }) => response.writeHead(200, { "content-type": "application/x-codec-msgpack" }).end("hello you"),
    ],
    [
      "a frame that is cut off",
      "FrameError",
      (_, { response }) =>
        response.writeHead(200, { "content-type": "application/x-codec-msgpack" }).end(Buffer.of(0, 0, 0, 9, 0x80)),
    ],
    [
      "a stream that breaks",
      "ConnectionError",
      (_, { response }) => {
        response.writeHead(200, { "content-type": "application/x-codec-msgpack" }).write(Buffer.of(0, 0, 0, 9, 0x80));
        setImmediate(() => response.destroy());
      },
    ],
    [
      "a stream without an answer",
      "ConnectionError",
      (_, speaker) => {
        speaker.say({ jsonrpc: "2.0", method: "notifications/message", params: {} });
        speaker.end();
      },
    ],
    [
      "the answer to another request",
      "ProtocolError",
      (_, speaker) => {
        speaker.say({ jsonrpc: "2.0", id: 999, result: {} });
        speaker.end();
      },
    ],
    [
      "an answer with neither result nor error",
      "ProtocolError",
      ({ message: { id } }, speaker) => {
        speaker.say({ jsonrpc: "2.0", id });
        speaker.end();
      },
    ],
    [
      "an error that is none",
      "ProtocolError",
      ({ message: { id } }, speaker) => {
        speaker.say({ jsonrpc: "2.0", id, error: "x" });
        speaker.end();
      },
    ],
    ["a result without content", "ProtocolError", (heard, speaker) => answer(heard, speaker, {})],
    [
      "a question",
      "ProtocolError",
      (heard, speaker) => answer(heard, speaker, { resultType: "input_required", content: [] }),
    ],
  ])("of %s are a %s, and the next call is served", async (_, name, behave) => {
    let calls = 0;
    const { client } = await against((heard, speaker) =>
      calls++ === 0 ? behave(heard, speaker) : answerText(heard, speaker, "fine"),
    );
    const error = await failure(client.callTool("echo"));
    expect(error).toBeInstanceOf(ClientError);
    expect((error as Error).name).toBe(name);
    expect((await client.callTool("echo")).texts).toEqual(["fine"]);
  });

  it.each(FORMS)("of too much, in %s", async (form) => {
    const large: Behaviour = (heard, speaker) => answerText(heard, speaker, "x".repeat(20_000));
    const { client } = await against(large, form, { maxMessageBytes: 10_000 });
    expect(await failure(client.callTool("echo"))).toBeInstanceOf(ProtocolError);
  });

  it("of a stream without end", async () => {
    const { client } = await against(
      (_, speaker) => {
        const again = () => {
          if (!speaker.response.writable) return;
          speaker.say({ jsonrpc: "2.0", method: "notifications/message", params: { data: "x".repeat(5_000) } });
          setImmediate(again);
        };
        again();
      },
      "frames",
      { maxMessageBytes: 10_000, maxResponseBytes: 1_000_000 },
    );
    expect(await failure(client.callTool("echo"))).toBeInstanceOf(ProtocolError);
  });
});

describe("finding out the era", () => {
  it.each([401, 403, 429, 500])("ends with status %i: another handshake would meet the same", async (status) => {
    const server = await startServer((_, speaker) => bare(speaker, status));
    expect(await failure(connect({ url: server.url }))).toMatchObject({ name: "HttpError", status });
    expect(server.heard.length).toBe(1);
  });

  it.each([
    [["2027-01-01"], 1],
    [["2027-01-01", "2025-11-25"], 2],
  ])("goes on where the server names %j", async (supported, requests) => {
    const server = await startServer(({ message: { id } }, speaker) => {
      speaker.response.statusCode = 400;
      speaker.say({ jsonrpc: "2.0", id, error: { code: -32022, message: "no", data: { supported, requested: "x" } } });
      speaker.end();
    }, "json");
    expect(await failure(connect({ url: server.url }))).toBeInstanceOf(RpcError);
    expect(server.heard.length).toBe(requests);
  });

  it("goes on where the server discovers itself as an older one", async () => {
    const sessions = withSessions((heard, speaker) => answerText(heard, speaker, "x"));
    const server = await startServer(
      (heard, speaker) =>
        heard.message.method === "server/discover"
          ? answer(heard, speaker, { supportedVersions: ["2025-11-25"] })
          : sessions(heard, speaker),
      "json",
    );
    expect((await open(server.url)).protocolVersion).toBe("2025-11-25");
    expect(await failure(connect({ url: server.url, era: "stateless" }))).toBeInstanceOf(ProtocolError);
  });
});
