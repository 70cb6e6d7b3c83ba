/**
 * In: settings, then requests of MCP. Out: their results, and progress on the way; ClientError where there is none.
 * Touches the network. Owns the era, the session and the ids of requests, and knows nothing of tools.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Call, type OnProgress } from "./call.js";
import { ConnectionError, HttpError, ProtocolError, RequestError } from "./client-errors.js";
import type { Settings } from "./connect-options.js";
import { Deadline } from "./deadline.js";
import {
  type Era,
  HANDSHAKE_VERSIONS,
  handshakeEra,
  initializeParams,
  notification,
  OPENING_ERA,
  type Params,
  request,
  STATELESS_VERSION,
  statelessEra,
  withMeta,
} from "./eras.js";
import { EVENTS_TYPE } from "./event-stream.js";
import { endSession, post, type Reply, resume } from "./exchange.js";
import { FRAMES_TYPE } from "./frames.js";
import type { Message } from "./message-reader.js";
import { firstOf, meansOlder, refuseStatus } from "./refusal.js";

/** How long a farewell may take: a cancellation, or the end of a stream or session. */
const FAREWELL_MS = 2_000;
const METHOD_NOT_FOUND = -32601;
/** Where a stream of frames begins that can be taken up again (spec 6.4.6). */
const PLACE_HEADER = "codec-event-id";
const RESUME_TRIES = 3;
const RESUME_MS = 1_000;

export interface RequestOptions {
  signal?: AbortSignal | undefined;
  /** Called for each progress notification, before the result is there. */
  onProgress?: OnProgress | undefined;
}

/** How a request is on its way. */
interface Way {
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
  private readonly underWay = new Set<Deadline>();

  private constructor(private readonly settings: Settings) {}

  /** Finds out which era the server speaks, and whether in frames. */
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

  /** The result of one request. A session that the server has forgotten is begun anew, once. */
  async request(method: string, params: Params, options: RequestOptions = {}): Promise<Params> {
    const { era } = this;
    try {
      return (await this.ask(era, method, params, options)).result;
    } catch (error) {
      if (!(era.takesMessages && error instanceof HttpError && error.status === 404)) throw error;
    }
    await this.renew(era);
    return (await this.ask(this.era, method, params, options)).result;
  }

  /** Ends what is under way, and the session. Never throws; twice is the same as once. */
  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    for (const deadline of this.underWay) deadline.end(new RequestError("the client was closed"));
    const headers = this.era.headers("", {});
    if (headers["mcp-session-id"] === undefined) return;
    try {
      const signal = AbortSignal.timeout(FAREWELL_MS);
      await firstOf((await endSession(this.settings.endpoint, await this.headers(headers), signal)).messages);
    } catch {
      // The server forgets the session by itself in time.
    }
  }

  /** True if the server speaks the stateless era; false if it seems to be older. */
  private async discover(signal: AbortSignal | undefined): Promise<boolean> {
    const era = statelessEra(this.settings.clientInfo);
    const forced = this.settings.era === "stateless";
    try {
      const { supportedVersions } = (await this.ask(era, "server/discover", {}, { signal })).result;
      const spoken = Array.isArray(supportedVersions) && supportedVersions.includes(STATELESS_VERSION);
      if (forced && !spoken) throw new ProtocolError(`the server does not speak ${STATELESS_VERSION}`);
      if (spoken) this.era = era;
      return spoken;
    } catch (error) {
      if (forced || !meansOlder(error)) throw error;
      return false;
    }
  }

  private async shakeHands(signal: AbortSignal | undefined): Promise<void> {
    const params = initializeParams(this.settings.clientInfo);
    const { result, headers } = await this.ask(OPENING_ERA, "initialize", params, { signal });
    const version = result.protocolVersion;
    if (typeof version !== "string" || !HANDSHAKE_VERSIONS.includes(version))
      throw new ProtocolError("the server wants a version of the protocol that this client does not speak");
    const era = handshakeEra(version, headers.get("mcp-session-id"));
    await this.tell(era, notification("notifications/initialized"), signal);
    this.era = era;
  }

  /** One handshake, however many requests found the session gone. */
  private async renew(lost: Era): Promise<void> {
    if (this.era !== lost) return;
    this.renewal ??= this.shakeHands(undefined).finally(() => {
      this.renewal = null;
    });
    await this.renewal;
  }

  private async ask(era: Era, method: string, given: Params, options: RequestOptions): Promise<Answer> {
    const { onProgress, signal } = options;
    const id = ++this.lastId;
    const params = era.params(onProgress === undefined ? given : withMeta(given, { progressToken: id }));
    const deadline = this.begin(signal);
    try {
      const reply = await this.send(era.headers(method, params), request(id, method, params), deadline);
      if (reply.status < 400) this.binary = reply.type === FRAMES_TYPE;
      const result = await this.resultOf(reply, new Call(id, onProgress), { era, deadline });
      return { result, headers: reply.headers };
    } catch (error) {
      if (deadline.signal.aborted && era.takesMessages && !this.closed) this.cancel(era, id);
      // Closes the stream, where something else than its end was the error.
      deadline.end(error);
      this.finish(deadline);
      throw error;
    }
  }

  private async resultOf(reply: Reply, call: Call, way: Way): Promise<Params> {
    await refuseStatus(reply);
    const place = reply.headers.get(PLACE_HEADER);
    if (place === null) return (await this.listen(reply, call, way)) ?? unanswered(reply);
    for (let tries = 0; tries <= RESUME_TRIES; tries++) {
      const result = await this.listenOn(tries === 0 ? reply : null, place, call, way);
      if (result !== null) return result;
    }
    return unanswered(reply);
  }

  /** Listens to a stream, or where it broke to what is left of it; null where that broke too. */
  private async listenOn(reply: Reply | null, place: string, call: Call, way: Way): Promise<Params | null> {
    const { era, deadline } = way;
    try {
      return await this.listen(reply ?? (await this.takeUp(place, era, deadline)), call, way);
    } catch (error) {
      if (error instanceof ConnectionError) return null;
      throw error;
    }
  }

  private async takeUp(place: string, era: Era, { signal }: Deadline): Promise<Reply> {
    await sleep(RESUME_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
    const reply = await resume(this.settings.endpoint, place, await this.headers(era.headers("", {})), signal);
    if (reply.status < 300) return reply;
    await firstOf(reply.messages);
    // Not the refusal itself: a lost session would have the call made again, and it may have run.
    throw new ConnectionError(`the stream cannot be taken up again: status ${reply.status}`);
  }

  /** The result, or null where the stream ends before it. */
  private async listen(reply: Reply, call: Call, { era, deadline }: Way): Promise<Params | null> {
    // Not `for await`: it would close a stream whose connection can be used again.
    for (let next = await reply.messages.next(); !next.done; next = await reply.messages.next()) {
      deadline.heard();
      if (isQuestion(next.value)) await this.answer(era, next.value, deadline.signal);
      const result = call.take(next.value);
      if (result === null) continue;
      this.leave(reply, deadline);
      return result;
    }
    return null;
  }

  /** The answer is there, and the end of its stream as good as: read to it, the connection serves the next request. */
  private leave({ messages }: Reply, deadline: Deadline): void {
    deadline.hurry(FAREWELL_MS);
    firstOf(messages)
      .catch(() => {})
      .finally(() => this.finish(deadline));
  }

  /** What a server asks of its client: only a ping has an answer here. One at a time, so that none can flood us. */
  private async answer(era: Era, { id, method }: Message, signal: AbortSignal): Promise<void> {
    if (!era.takesMessages) return;
    const error = { code: METHOD_NOT_FOUND, message: "this client does not take such requests" };
    const said = { jsonrpc: "2.0", id, ...(method === "ping" ? { result: {} } : { error }) };
    // Whoever asks and does not take the answer may still finish what it was asked itself.
    await this.tell(era, said, signal).catch(() => {});
  }

  private cancel(era: Era, requestId: number): void {
    const cancelled = notification("notifications/cancelled", { requestId });
    // Nobody waits for it: the caller has left already.
    this.tell(era, cancelled, AbortSignal.timeout(FAREWELL_MS)).catch(() => {});
  }

  /** Sends what has no answer. */
  private async tell(era: Era, message: Message, signal: AbortSignal | undefined): Promise<void> {
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
    // Checked here, because fetch would show the whole of it in its error.
    if (bearer !== null && !/^[\x21-\x7e]+$/.test(bearer))
      throw new RequestError("the token is none that a header holds");
    return { ...headers, ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }), ...more };
  }

  private begin(signal: AbortSignal | undefined): Deadline {
    if (this.closed) throw new RequestError("the client is closed");
    const deadline = new Deadline(this.settings.patience, signal);
    this.underWay.add(deadline);
    return deadline;
  }

  private finish(deadline: Deadline): void {
    deadline.stop();
    this.underWay.delete(deadline);
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
