/**
 * A scripted MCP server on its own port, which records what it receives.
 * Real sockets, and no SDK: a test says byte by byte what goes wrong.
 */

import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { FRAMES_TYPE, type Message, packFrame, unpackMessage } from "../src/messages.js";

export interface Heard {
  verb: string;
  headers: IncomingHttpHeaders;
  /** Empty for what has no body. */
  message: Message;
}

export interface Speaker {
  readonly response: ServerResponse;
  /** Sends one message in the server's form, and leaves the stream open. */
  say(message: Message): void;
  end(): void;
}

export type Behaviour = (heard: Heard, speaker: Speaker) => unknown;
export type SpeaksAs = "frames" | "events" | "json";

export interface TestServer {
  url: string;
  heard: Heard[];
  /** What was heard of this method. */
  asked(method: string): Heard[];
}

const TYPES = { frames: FRAMES_TYPE, events: "text/event-stream", json: "application/json" };
const running: Server[] = [];

export async function startServer(behave: Behaviour, form: SpeaksAs = "frames"): Promise<TestServer> {
  const heard: Heard[] = [];
  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const told = { verb: incoming.method!, headers: incoming.headers, message: read(Buffer.concat(chunks), incoming) };
    heard.push(told);
    await behave(told, speaker(response, form));
  });
  running.push(server);
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  return { url, heard, asked: (method) => heard.filter(({ message }) => message.method === method) };
}

export function stopServers(): void {
  for (const server of running.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
}

/** A stateless server whose tools/call behaves as given; everything else it does right. */
export function stateless(call: Behaviour): Behaviour {
  return (heard, speaker) => {
    const { method } = heard.message;
    return method === "tools/call" ? call(heard, speaker) : answer(heard, speaker, RESULTS[String(method)] ?? {});
  };
}

/** A server of the era before, with sessions; `call` gets what is no part of the handshake. */
export function withSessions(call: Behaviour): Behaviour {
  let sessions = 0;
  return (heard, speaker) => {
    const { method } = heard.message;
    if (heard.verb === "DELETE" || String(method).startsWith("notifications/")) return bare(speaker, 202);
    if (method === "server/discover") return bare(speaker, 400);
    if (method !== "initialize") return call(heard, speaker);
    speaker.response.setHeader("mcp-session-id", `session-${++sessions}`);
    return answer(heard, speaker, {
      protocolVersion: "2025-11-25",
      capabilities: {},
      serverInfo: { name: "t", version: "1" },
    });
  };
}

const RESULTS: Record<string, Message> = {
  "server/discover": { resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: {} },
  "tools/list": { tools: [{ name: "echo", inputSchema: { type: "object" } }] },
};

export function answer({ message: { id } }: Heard, speaker: Speaker, result: Message): void {
  speaker.say({ jsonrpc: "2.0", id, result });
  speaker.end();
}

export function answerText(heard: Heard, speaker: Speaker, text: string): void {
  answer(heard, speaker, { content: [{ type: "text", text }] });
}

export function bare({ response }: Speaker, status: number): void {
  response.writeHead(status).end();
}

/** A promise, and what keeps it. */
export function promised<T = void>(): { promise: Promise<T>; keep: (value: T) => void } {
  let keep!: (value: T) => void;
  const promise = new Promise<T>((resolve) => {
    keep = resolve;
  });
  return { promise, keep };
}

function speaker(response: ServerResponse, form: SpeaksAs): Speaker {
  return {
    response,
    say(message) {
      if (!response.headersSent) response.writeHead(response.statusCode, { "content-type": TYPES[form] });
      if (form === "frames") response.write(packFrame(message));
      else if (form === "json") response.write(JSON.stringify(message));
      else response.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
    },
    end: () => response.end(),
  };
}

function read(body: Buffer, { headers }: { headers: IncomingHttpHeaders }): Message {
  if (body.length === 0) return {};
  return headers["content-type"] === FRAMES_TYPE ? unpackMessage(body) : (JSON.parse(body.toString()) as Message);
}
