import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { connect, ProtocolError, RequestError } from "../src/client.js";
import { RequestTimeoutError } from "../src/client-errors.js";
import { Deadline } from "../src/connection.js";
import type { Message } from "../src/messages.js";
import { against, FORMS, failure, open } from "./clients.js";
import {
  answer,
  answerText,
  type Behaviour,
  bare,
  type Heard,
  promised,
  type Speaker,
  startServer,
  stopServers,
  withSessions,
} from "./mcp-over-http.js";

const LONG = 60_000;

function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(signal.reason)));
}

describe("Deadline", () => {
  it.each([
    { timeoutMs: 5, totalTimeoutMs: LONG },
    { timeoutMs: LONG, totalTimeoutMs: 5 },
  ])("ends after %o", async (patience) => {
    const deadline = new Deadline(patience);
    expect(await aborted(deadline.signal)).toBeInstanceOf(RequestTimeoutError);
    deadline.stop();
  });

  it("ends with its caller, for the caller's reason", () => {
    const controller = new AbortController();
    const deadline = new Deadline({ timeoutMs: LONG, totalTimeoutMs: LONG }, controller.signal);
    controller.abort("mine");
    expect(deadline.signal.reason).toBe("mine");
    deadline.stop();
  });

  it("is over at once where the caller has left already", () => {
    const deadline = new Deadline({ timeoutMs: LONG, totalTimeoutMs: LONG }, AbortSignal.abort("mine"));
    expect(deadline.signal.reason).toBe("mine");
    deadline.stop();
  });

  it("keeps the first reason", () => {
    const deadline = new Deadline({ timeoutMs: LONG, totalTimeoutMs: LONG });
    deadline.end("first");
    deadline.end("second");
    expect(deadline.signal.reason).toBe("first");
    deadline.stop();
  });

  it("leaves nothing with its caller when it stops, and no longer minds it when in a hurry", async () => {
    const controller = new AbortController();
    const patience = { timeoutMs: LONG, totalTimeoutMs: LONG };
    const [stopped, hurried] = [new Deadline(patience, controller.signal), new Deadline(patience, controller.signal)];
    expect(getEventListeners(controller.signal, "abort").length).toBe(2);
    stopped.stop();
    hurried.shorten(5);
    expect(getEventListeners(controller.signal, "abort").length).toBe(0);
    expect(await aborted(hurried.signal)).toBeInstanceOf(RequestTimeoutError);
    expect(stopped.signal.aborted).toBe(false);
  });
});

describe("an impatient caller", () => {
  const silent: Behaviour = () => {};

  it("gets the reason of the signal back, and the server sees the stream close", async () => {
    const { promise: gone, keep: onGone } = promised();
    const { promise: asked, keep: onAsked } = promised();
    const { client } = await against((_, { response }) => {
      response.on("close", onGone);
      onAsked();
    });
    const controller = new AbortController();
    const call = client.callTool("slow", {}, { signal: controller.signal });
    await asked;
    const mine = new Error("enough");
    controller.abort(mine);
    expect(await failure(call)).toBe(mine);
    await gone;
  });

  it("who had left before sends nothing", async () => {
    const { client, server } = await against(silent);
    const mine = new Error("never mind");
    expect(await failure(client.callTool("slow", {}, { signal: AbortSignal.abort(mine) }))).toBe(mine);
    expect(server.asked("tools/call")).toEqual([]);
  });

  it("can leave connect as well", async () => {
    const server = await startServer(silent);
    const controller = new AbortController();
    const connecting = connect({ url: server.url, signal: controller.signal });
    controller.abort(new Error("enough"));
    expect(await failure(connecting)).toBe(controller.signal.reason);
  });

  it("is not waited for after the answer", async () => {
    const { client } = await against((heard, speaker) => answerText(heard, speaker, "x"));
    const controller = new AbortController();
    await client.callTool("echo", {}, { signal: controller.signal });
    controller.abort();
    expect((await client.callTool("echo")).texts).toEqual(["x"]);
  });

  it.each([
    ["before the first byte", silent],
    [
      "within a frame",
      ((_, { response }) => {
        response.writeHead(200, { "content-type": "application/x-codec-msgpack" }).write(Buffer.of(0, 0, 0));
      }) as Behaviour,
    ],
  ])("sets a limit to silence %s", async (_, behave) => {
    const { client } = await against(behave, "frames", { timeoutMs: 100 });
    expect(await failure(client.callTool("slow"))).toMatchObject({ name: "RequestTimeoutError", fault: "network" });
  });

  it.each(["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"])("hears of fetch's own patience: %s", async (code) => {
    const cause = Object.assign(new Error("too long"), { code });
    const giveUp = () => Promise.reject(new TypeError("fetch failed", { cause }));
    const error = await failure(connect({ url: "http://127.0.0.1:1/mcp", fetch: giveUp }));
    expect(error).toMatchObject({ name: "RequestTimeoutError" });
  });

  it("sets a limit to the whole, however much comes", async () => {
    const { client } = await against(
      (_, speaker) => {
        const timer = setInterval(() => speaker.say({ jsonrpc: "2.0", method: "notifications/message" }), 5);
        speaker.response.on("close", () => clearInterval(timer));
      },
      "frames",
      { timeoutMs: 30_000, totalTimeoutMs: 150 },
    );
    expect(await failure(client.callTool("slow"))).toMatchObject({ name: "RequestTimeoutError" });
  });
});

describe("close", () => {
  it("ends what is under way; afterwards nothing is sent", async () => {
    const { client, server } = await against(() => {});
    const call = failure(client.callTool("slow"));
    await client.close();
    await client.close();
    expect(await call).toBeInstanceOf(RequestError);
    const before = server.heard.length;
    expect(await failure(client.listTools())).toBeInstanceOf(RequestError);
    expect(server.heard.length).toBe(before);
  });

  it("ends the session where there is one", async () => {
    const server = await startServer(
      withSessions(() => {}),
      "json",
    );
    const client = await open(server.url);
    await client.close();
    const { verb, headers } = server.heard.at(-1)!;
    expect([verb, headers["mcp-session-id"]]).toEqual(["DELETE", "session-1"]);
  });

  it("does not mind a server that is gone", async () => {
    const server = await startServer(
      withSessions(() => {}),
      "json",
    );
    const client = await open(server.url);
    stopServers();
    await client.close();
  });
});

describe("a server of the era before", () => {
  it.each(FORMS)("is met with a handshake, in %s", async (form) => {
    const server = await startServer(
      withSessions((heard, speaker) => answerText(heard, speaker, "hello")),
      form,
    );
    const client = await open(server.url);
    expect((await client.callTool("echo")).texts).toEqual(["hello"]);
    expect(client.protocolVersion).toBe("2025-11-25");
    expect(server.heard.map(({ message }) => message.method)).toEqual([
      "server/discover",
      "initialize",
      "notifications/initialized",
      "tools/call",
    ]);
    const [, opening, , call] = server.heard;
    expect([opening!.headers["mcp-protocol-version"], opening!.headers["mcp-session-id"]]).toEqual([
      undefined,
      undefined,
    ]);
    expect(call!.headers).toMatchObject({ "mcp-protocol-version": "2025-11-25", "mcp-session-id": "session-1" });
    expect(call!.headers["content-type"]).toBe(form === "frames" ? "application/x-codec-msgpack" : "application/json");
  });

  it("is met at once where the caller knows it", async () => {
    const server = await startServer(
      withSessions(() => {}),
      "json",
    );
    await open(server.url, { era: "handshake" });
    expect(server.asked("server/discover")).toEqual([]);
  });

  it("that forgot the session gets one new handshake, however many calls found out", async () => {
    let forgotten = 5;
    const server = await startServer(
      withSessions((heard, speaker) => {
        if (forgotten-- > 0) {
          speaker.response.statusCode = 404;
          speaker.say({ jsonrpc: "2.0", id: null, error: { code: -32600, message: "Session not found" } });
          speaker.end();
        } else answerText(heard, speaker, String(heard.headers["mcp-session-id"]));
      }),
      "json",
    );
    const client = await open(server.url);
    const answers = await Promise.all(Array.from({ length: 5 }, () => client.callTool("echo")));
    expect(answers.map(({ texts }) => texts[0])).toEqual(new Array(5).fill("session-2"));
    expect(server.asked("initialize").length).toBe(2);
  });

  it("that forgets every session is given up", async () => {
    const server = await startServer(
      withSessions((_, speaker) => bare(speaker, 404)),
      "json",
    );
    const client = await open(server.url);
    expect(await failure(client.callTool("echo"))).toMatchObject({ name: "HttpError", status: 404 });
    expect(server.asked("initialize").length).toBe(2);
  });

  it("is told that a call is no longer wanted", async () => {
    const { promise: asked, keep: onAsked } = promised();
    const { promise: told, keep: onTold } = promised<Message>();
    const sessions = withSessions(() => onAsked());
    const server = await startServer((heard, speaker) => {
      if (heard.message.method === "notifications/cancelled") onTold(heard.message);
      return sessions(heard, speaker);
    }, "events");
    const client = await open(server.url);
    const controller = new AbortController();
    const call = client.callTool("slow", {}, { signal: controller.signal });
    await asked;
    controller.abort();
    expect(await failure(call)).toBe(controller.signal.reason);
    expect((await told).params).toEqual({ requestId: server.asked("tools/call")[0]!.message.id });
  });

  it.each([202, 400])(
    "gets an answer to its ping, and to nothing else, and may answer that with %i",
    async (status) => {
      const answers: Message[] = [];
      const server = await startServer(async (heard, speaker) => {
        const { message } = heard;
        if (message.method === undefined && heard.verb === "POST") {
          answers.push(message);
          return bare(speaker, status);
        }
        return withSessions((asked, out) => {
          out.say({ jsonrpc: "2.0", id: "p", method: "ping" });
          out.say({ jsonrpc: "2.0", id: "q", method: "sampling/createMessage", params: {} });
          answerText(asked, out, "done");
        })(heard, speaker);
      }, "events");
      const client = await open(server.url);
      expect((await client.callTool("echo")).texts).toEqual(["done"]);
      expect(answers).toEqual([
        { jsonrpc: "2.0", id: "p", result: {} },
        { jsonrpc: "2.0", id: "q", error: { code: -32601, message: expect.any(String) } },
      ]);
    },
  );

  it.each([
    ["of no version that we speak", { protocolVersion: "1999-01-01" }],
    ["that names none", {}],
  ])("%s is refused", async (_, result) => {
    const server = await startServer(
      (heard, speaker) => (heard.message.method === "initialize" ? answer(heard, speaker, result) : bare(speaker, 400)),
      "json",
    );
    expect(await failure(connect({ url: server.url }))).toBeInstanceOf(ProtocolError);
  });
});

describe("a stream of frames that breaks", () => {
  /** Breaks off each call after its first progress; `again` answers the requests that take the stream up. */
  async function breaking(again: (call: Message, speaker: Speaker, tries: number) => void) {
    let call: Message = {};
    let tries = 0;
    const sessions = withSessions(({ message }, speaker) => {
      call = message;
      speaker.response.setHeader("codec-event-id", "7");
      speaker.say(progress(call, 1));
      setImmediate(() => speaker.response.destroy());
    });
    const server = await startServer((heard, speaker) =>
      heard.verb === "GET" ? again(call, speaker, ++tries) : sessions(heard, speaker),
    );
    return { server, client: await open(server.url) };
  }

  function progress({ id }: Message, step: number): Message {
    return { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: id, progress: step } };
  }

  it("is taken up from its place, and tells nothing twice", async () => {
    const { client, server } = await breaking((call, speaker, tries) => {
      if (tries === 1) return speaker.response.destroy();
      speaker.say(progress(call, 1));
      speaker.say(progress(call, 2));
      return answerText({ message: call } as Heard, speaker, "done");
    });
    const seen: number[] = [];
    const { texts } = await client.callTool("slow", {}, { onProgress: (step) => seen.push(step.progress) });
    expect([texts, seen]).toEqual([["done"], [1, 2]]);
    const [first] = server.heard.filter(({ verb }) => verb === "GET");
    expect(first!.headers).toMatchObject({
      "last-event-id": "7",
      "mcp-session-id": "session-1",
      accept: expect.stringContaining("application/x-codec-msgpack"),
    });
    expect(server.asked("tools/call").length).toBe(1);
  });

  it("that cannot be taken up is given up, and the call is not made again", async () => {
    const { client, server } = await breaking((_, speaker) => {
      speaker.response.statusCode = 404;
      speaker.say({ jsonrpc: "2.0", id: null, error: { code: -32600, message: "Session not found" } });
      speaker.end();
    });
    expect(await failure(client.callTool("slow"))).toMatchObject({ name: "ConnectionError", fault: "network" });
    expect(server.asked("tools/call").length).toBe(1);
    expect(server.heard.filter(({ verb }) => verb === "GET").length).toBe(3);
  });

  it("is left alone when the caller has left", async () => {
    const controller = new AbortController();
    const { client, server } = await breaking((_, speaker) => bare(speaker, 404));
    const call = client.callTool(
      "slow",
      {},
      { signal: controller.signal, onProgress: () => setTimeout(() => controller.abort(), 50) },
    );
    expect(await failure(call)).toBe(controller.signal.reason);
    expect(server.heard.filter(({ verb }) => verb === "GET")).toEqual([]);
  });
});
