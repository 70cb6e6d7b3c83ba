/**
 * A connection to one MCP server: sends requests, returns their results, and reports progress on the context. It owns the
 * era, the session, the ids and the deadlines of requests, and does not know tools.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { ConnectionError, HttpError, ProtocolError, RequestError, RequestTimeoutError } from "./client-errors.js";
import type { Settings } from "./connect-options.js";
import { endSession, post, type Reply, resume } from "./exchange.js";
import { EVENTS_TYPE, FRAMES_TYPE, type Message } from "./messages.js";
import {
  Call,
  type Era,
  firstOf,
  HANDSHAKE_VERSIONS,
  handshakeEra,
  initializeParams,
  notification,
  type OnProgress,
  OPENING_ERA,
  type Params,
  refuseStatus,
  request,
  STATELESS_VERSION,
  statelessEra,
  suggestsHandshake,
  withMeta,
} from "./protocol.js";

export interface Patience {
  /** The longest silence, in milliseconds: every message, also progress, restarts it. */
  timeoutMs: number;
  /** The longest time for all of a request. */
  totalTimeoutMs: number;
}

export class Deadline {
  private readonly controller = new AbortController();
  private total: NodeJS.Timeout;
  private silence: NodeJS.Timeout;
  private readonly abort = () => this.end(this.caller?.reason);

  constructor(
    private readonly patience: Patience,
    private readonly caller?: AbortSignal,
  ) {
    this.total = this.after(patience.totalTimeoutMs, "the answer was not complete");
    this.silence = this.startSilence();
    if (caller?.aborted) this.abort();
    else caller?.addEventListener("abort", this.abort, { once: true });
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  restart(): void {
    clearTimeout(this.silence);
    this.silence = this.startSilence();
  }

  /** Allows only this much more time, whatever arrives, and ignores the signal of the caller, who has the result. */
  shorten(ms: number): void {
    this.stop();
    this.total = this.after(ms, "the stream did not end");
  }

  end(reason: unknown): void {
    this.controller.abort(reason);
  }

  /** Releases the timers and the listener. To be called when the request is over. */
  stop(): void {
    clearTimeout(this.silence);
    clearTimeout(this.total);
    this.caller?.removeEventListener("abort", this.abort);
  }

  private startSilence(): NodeJS.Timeout {
    return this.after(this.patience.timeoutMs, "no message came");
  }

  private after(ms: number, what: string): NodeJS.Timeout {
    return setTimeout(() => this.end(new RequestTimeoutError(`${what} for ${ms} ms; the call may have run`)), ms);
  }
}

/** How long a cancellation, or the end of a stream or session, may take. */
const CLOSING_MS = 2_000;
const METHOD_NOT_FOUND = -32601;
/** The event id at which a stream of frames begins, if it can be resumed (spec 6.4.6). */
const EVENT_ID_HEADER = "codec-event-id";
const RESUME_TRIES = 3;
const RESUME_MS = 1_000;

export interface RequestOptions {
  signal?: AbortSignal | undefined;
  /** Called for each progress notification, before the result. */
  onProgress?: OnProgress | undefined;
}

/** The era and the deadline of a request. */
interface RequestContext {
  era: Era;
  deadline: Deadline;
}

interface Answer {
  result: Params;
  headers: Headers;
}

export class Connection {
  private era: Era = OPENING_ERA;
  private binary = false;
  private lastId = 0;
  private closed = false;
  private renewal: Promise<void> | null = null;
  private readonly active = new Set<Deadline>();

  private constructor(private readonly settings: Settings) {}

  /** Connects, and finds out which era the server speaks and whether it offers frames. */
  static async open(settings: Settings, signal: AbortSignal | undefined): Promise<Connection> {
    const connection = new Connection(settings);
    const stateless = settings.era !== "handshake" && (await connection.discover(signal));
    if (!stateless) await connection.shakeHands(signal);
    return connection;
  }

  get protocolVersion(): string {
    return this.era.version;
  }

  /** Whether the server's last answer came in frames. */
  get speaksFrames(): boolean {
    return this.binary;
  }

  /** The result of one request. If the server no longer has the session, a new one is opened, once. */
  async request(method: string, params: Params, options: RequestOptions = {}): Promise<Params> {
    const { era } = this;
    try {
      return (await this.ask(era, method, params, options)).result;
    } catch (error) {
      if (!(era.acceptsMessages && error instanceof HttpError && error.status === 404)) throw error;
    }
    await this.renew(era);
    return (await this.ask(this.era, method, params, options)).result;
  }

  /** Ends all requests and the session. Never throws; may be called twice. */
  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    for (const deadline of this.active) deadline.end(new RequestError("the client was closed"));
    const headers = this.era.headers("", {});
    if (headers["mcp-session-id"] === undefined) return;
    try {
      const signal = AbortSignal.timeout(CLOSING_MS);
      await firstOf((await endSession(this.settings.endpoint, await this.headers(headers), signal)).messages);
    } catch {
      // The server drops an idle session by itself.
    }
  }

  /** True if the server speaks the stateless era; false if it seems to be older. */
  private async discover(signal: AbortSignal | undefined): Promise<boolean> {
    const era = statelessEra(this.settings.clientInfo);
    const forced = this.settings.era === "stateless";
    try {
      const { supportedVersions } = (await this.ask(era, "server/discover", {}, { signal })).result;
      const isStateless = Array.isArray(supportedVersions) && supportedVersions.includes(STATELESS_VERSION);
      if (forced && !isStateless) throw new ProtocolError(`the server does not speak ${STATELESS_VERSION}`);
      if (isStateless) this.era = era;
      return isStateless;
    } catch (error) {
      if (forced || !suggestsHandshake(error)) throw error;
      return false;
    }
  }

  private async shakeHands(signal: AbortSignal | undefined): Promise<void> {
    const params = initializeParams(this.settings.clientInfo);
    const { result, headers } = await this.ask(OPENING_ERA, "initialize", params, { signal });
    const version = result.protocolVersion;
    if (typeof version !== "string" || !HANDSHAKE_VERSIONS.includes(version))
      throw new ProtocolError("the server requires a version of the protocol that this client does not speak");
    const era = handshakeEra(version, headers.get("mcp-session-id"));
    await this.notify(era, notification("notifications/initialized"), signal);
    this.era = era;
  }

  /** One handshake for all requests that lost the session. */
  private async renew(old: Era): Promise<void> {
    if (this.era !== old) return;
    this.renewal ??= this.shakeHands(undefined).finally(() => {
      this.renewal = null;
    });
    await this.renewal;
  }

  private async ask(era: Era, method: string, ownParams: Params, options: RequestOptions): Promise<Answer> {
    const { onProgress, signal } = options;
    const id = ++this.lastId;
    const params = era.params(onProgress === undefined ? ownParams : withMeta(ownParams, { progressToken: id }));
    const deadline = this.begin(signal);
    try {
      const reply = await this.send(era.headers(method, params), request(id, method, params), deadline);
      if (reply.status < 400) this.binary = reply.type === FRAMES_TYPE;
      const result = await this.resultOf(reply, new Call(id, onProgress), { era, deadline });
      return { result, headers: reply.headers };
    } catch (error) {
      if (deadline.signal.aborted && era.acceptsMessages && !this.closed) this.cancel(era, id);
      // Closes the stream, unless its end was the error.
      deadline.end(error);
      this.finish(deadline);
      throw error;
    }
  }

  private async resultOf(reply: Reply, call: Call, context: RequestContext): Promise<Params> {
    await refuseStatus(reply);
    const place = reply.headers.get(EVENT_ID_HEADER);
    if (place === null) return (await this.listen(reply, call, context)) ?? unanswered(reply);
    for (let tries = 0; tries <= RESUME_TRIES; tries++) {
      const result = await this.tryListen(tries === 0 ? reply : null, place, call, context);
      if (result !== null) return result;
    }
    return unanswered(reply);
  }

  /** Reads a stream, or resumes it if `reply` is null. Returns null if it broke. */
  private async tryListen(
    reply: Reply | null,
    place: string,
    call: Call,
    context: RequestContext,
  ): Promise<Params | null> {
    const { era, deadline } = context;
    try {
      return await this.listen(reply ?? (await this.resumeStream(place, era, deadline)), call, context);
    } catch (error) {
      if (error instanceof ConnectionError) return null;
      throw error;
    }
  }

  private async resumeStream(place: string, era: Era, { signal }: Deadline): Promise<Reply> {
    await sleep(RESUME_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
    const reply = await resume(this.settings.endpoint, place, await this.headers(era.headers("", {})), signal);
    if (reply.status < 300) return reply;
    await firstOf(reply.messages);
    // Not the HttpError itself: a status of 404 would repeat the call, which may have run.
    throw new ConnectionError(`the stream cannot be resumed: status ${reply.status}`);
  }

  /** The result, or null if the stream ends before it. */
  private async listen(reply: Reply, call: Call, { era, deadline }: RequestContext): Promise<Params | null> {
    // Not `for await`: it would close the stream, and its connection could not be used again.
    for (let next = await reply.messages.next(); !next.done; next = await reply.messages.next()) {
      deadline.restart();
      if (isQuestion(next.value)) await this.answer(era, next.value, deadline.signal);
      const result = call.take(next.value);
      if (result === null) continue;
      this.readRest(reply, deadline);
      return result;
    }
    return null;
  }

  /** Reads the stream to its end after the answer, so that the connection serves the next request. */
  private readRest({ messages }: Reply, deadline: Deadline): void {
    deadline.shorten(CLOSING_MS);
    firstOf(messages)
      .catch(() => {})
      .finally(() => this.finish(deadline));
  }

  /** Answers a request of the server: a ping with a result, all others with an error. One at a time, against floods. */
  private async answer(era: Era, { id, method }: Message, signal: AbortSignal): Promise<void> {
    if (!era.acceptsMessages) return;
    const error = { code: METHOD_NOT_FOUND, message: "this client does not support this method" };
    const message = { jsonrpc: "2.0", id, ...(method === "ping" ? { result: {} } : { error }) };
    // A server that refuses this answer may still answer the request itself.
    await this.notify(era, message, signal).catch(() => {});
  }

  private cancel(era: Era, requestId: number): void {
    const cancelled = notification("notifications/cancelled", { requestId });
    // Not awaited: the caller has already got its error.
    this.notify(era, cancelled, AbortSignal.timeout(CLOSING_MS)).catch(() => {});
  }

  /** Sends a message that has no answer. */
  private async notify(era: Era, message: Message, signal: AbortSignal | undefined): Promise<void> {
    const deadline = this.begin(signal);
    try {
      const reply = await this.send(era.headers("", {}), message, deadline);
      await refuseStatus(reply);
      await firstOf(reply.messages);
    } finally {
      this.finish(deadline);
    }
  }

  private async send(headers: Record<string, string>, message: Message, { signal }: Deadline): Promise<Reply> {
    const { endpoint } = this.settings;
    return post(endpoint, { headers: await this.headers(headers), message, binary: this.binary, signal });
  }

  private async headers(more: Record<string, string>): Promise<Record<string, string>> {
    const { token, headers } = this.settings;
    const bearer = typeof token === "function" ? await token() : token;
    // Checked here, because the error of fetch would contain the token.
    if (bearer !== null && !/^[\x21-\x7e]+$/.test(bearer))
      throw new RequestError("the token has characters that are not allowed in a header");
    return { ...headers, ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }), ...more };
  }

  private begin(signal: AbortSignal | undefined): Deadline {
    if (this.closed) throw new RequestError("the client is closed");
    const deadline = new Deadline(this.settings.patience, signal);
    this.active.add(deadline);
    return deadline;
  }

  private finish(deadline: Deadline): void {
    deadline.stop();
    this.active.delete(deadline);
  }
}

function isQuestion({ id, method }: Message): boolean {
  return id !== undefined && typeof method === "string";
}

function unanswered({ type, status }: Reply): never {
  if (type === FRAMES_TYPE || type === EVENTS_TYPE)
    throw new ConnectionError("the stream ended before the answer; the call may have run");
  throw new ProtocolError(`the server answered with status ${status} and no message`);
}
