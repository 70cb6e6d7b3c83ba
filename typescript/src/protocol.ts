/**
 * Requests and answers of MCP in the two eras of the protocol. Since 2026-07-28 there are no sessions, and each request
 * describes itself; before, a handshake opened a session. This file writes requests and reads results, progress and
 * refusals; it does not send anything.
 */

import { HttpError, ProtocolError, RpcError } from "./client-errors.js";
import type { Reply } from "./exchange.js";
import { isRecord } from "./leaf.js";
import type { Message } from "./messages.js";

export const STATELESS_VERSION = "2026-07-28";
export const HANDSHAKE_VERSIONS: readonly string[] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

export type Params = Record<string, unknown>;

export interface ClientInfo {
  name: string;
  version: string;
}

export interface Era {
  readonly version: string;
  /** Whether the server accepts notifications and answers; if not, closing a stream cancels its request. */
  readonly acceptsMessages: boolean;
  headers(method: string, params: Params): Record<string, string>;
  params(params: Params): Params;
}

/** The parameter that is repeated in a header, for proxies that route by it. */
const NAME_PARAMS: ReadonlyMap<string, string> = new Map([
  ["tools/call", "name"],
  ["prompts/get", "name"],
  ["resources/read", "uri"],
]);

export function statelessEra(clientInfo: ClientInfo): Era {
  const envelope = {
    "io.modelcontextprotocol/protocolVersion": STATELESS_VERSION,
    "io.modelcontextprotocol/clientInfo": clientInfo,
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  return {
    version: STATELESS_VERSION,
    acceptsMessages: false,
    params: (params) => withMeta(params, envelope),
    headers(method, params) {
      const name = params[NAME_PARAMS.get(method) ?? ""];
      return {
        "mcp-protocol-version": STATELESS_VERSION,
        "mcp-method": method,
        ...(typeof name === "string" ? { "mcp-name": headerValue(name) } : {}),
      };
    },
  };
}

/** `sessionId` is null if the server has no sessions. */
export function handshakeEra(version: string, sessionId: string | null): Era {
  const session = sessionId === null ? {} : { "mcp-session-id": sessionId };
  const headers = { "mcp-protocol-version": version, ...session };
  return { version, acceptsMessages: true, params: (params) => params, headers: () => headers };
}

/** The era of the handshake itself, before a version is agreed on. */
export const OPENING_ERA: Era = {
  version: HANDSHAKE_VERSIONS[0]!,
  acceptsMessages: false,
  params: (params) => params,
  headers: () => ({}),
};

export function initializeParams(clientInfo: ClientInfo): Params {
  return { protocolVersion: OPENING_ERA.version, capabilities: {}, clientInfo };
}

export function withMeta(params: Params, more: Params): Params {
  return { ...params, _meta: { ...(params._meta as Params | undefined), ...more } };
}

export function request(id: number, method: string, params: Params): Message {
  return { jsonrpc: "2.0", id, method, params };
}

export function notification(method: string, params?: Params): Message {
  return { jsonrpc: "2.0", method, ...(params === undefined ? {} : { params }) };
}

/** A value for a header: as it is if that is safe, otherwise in base64. */
export function headerValue(value: string): string {
  const plain = /^[\x20-\x7e]*$/.test(value) && value === value.trim() && !/^=\?base64\?.*\?=$/.test(value);
  return plain ? value : `=?base64?${Buffer.from(value, "utf8").toString("base64")}?=`;
}

export interface Progress {
  progress: number;
  total?: number | undefined;
  message?: string | undefined;
}

export type OnProgress = (progress: Progress) => void;

/** A request that waits for its answer. Reports its progress. */
export class Call {
  private latest = Number.NEGATIVE_INFINITY;

  constructor(
    readonly id: number,
    private readonly onProgress?: OnProgress | undefined,
  ) {}

  /** The result, if this message is the answer; else null. Throws RpcError or ProtocolError. */
  take(message: Message): Params | null {
    if (typeof message.method !== "string") return this.resultIn(message);
    if (message.method === "notifications/progress" && isRecord(message.params)) this.report(message.params);
    return null;
  }

  private resultIn(message: Message): Params {
    const error = rpcErrorIn(message);
    // The answer to a request that the server could not parse has no id.
    if (error !== null && (message.id === this.id || message.id === null || message.id === undefined)) throw error;
    if (message.id !== this.id) throw new ProtocolError("the server answered another request");
    if (!isRecord(message.result)) throw new ProtocolError("the answer has no result");
    return message.result;
  }

  /** Reports progress once: a stream that is resumed repeats earlier notifications. */
  private report({ progressToken, progress, total, message }: Params): void {
    if (progressToken !== this.id || typeof progress !== "number" || progress <= this.latest) return;
    this.latest = progress;
    this.onProgress?.({
      progress,
      ...(typeof total === "number" ? { total } : {}),
      ...(typeof message === "string" ? { message } : {}),
    });
  }
}

/** The JSON-RPC error in an answer, or null. */
export function rpcErrorIn({ error }: Message): RpcError | null {
  if (!isRecord(error) || typeof error.code !== "number" || typeof error.message !== "string") return null;
  return new RpcError(error.message, error.code, error.data);
}

const UNSUPPORTED_VERSION = -32022;
/** Statuses that do not depend on the era: a handshake would get the same. */
const ERA_INDEPENDENT: readonly number[] = [401, 403, 407, 429];

/** Throws for every status that is not a success: the error in the body if there is one, otherwise HttpError. */
export async function refuseStatus(reply: Reply): Promise<void> {
  const { status } = reply;
  if (status >= 200 && status < 300) return;
  const message = await firstOf(reply.messages);
  const error = status >= 400 && message !== null ? rpcErrorIn(message) : null;
  // The status alone identifies a lost session; the error in the body differs between servers.
  if (error !== null && !(status === 404 && message?.id === null)) throw error;
  throw new HttpError(`the server answered with status ${status}${adviceOn(status)}`, status);
}

/** The first message, or null if there is none or it is malformed. The rest is not read. */
export async function firstOf(messages: AsyncGenerator<Message>): Promise<Message | null> {
  try {
    for await (const message of messages) return message;
  } catch (error) {
    // The status says more than a malformed body.
    if (!(error instanceof ProtocolError)) throw error;
  }
  return null;
}

/** Whether this error of a stateless request may come from a server of the handshake era. */
export function suggestsHandshake(error: unknown): boolean {
  if (error instanceof HttpError) return error.fault === "caller" && !ERA_INDEPENDENT.includes(error.status);
  if (!(error instanceof RpcError)) return false;
  const supported = isRecord(error.data) ? error.data.supported : undefined;
  if (error.code !== UNSUPPORTED_VERSION || !Array.isArray(supported)) return true;
  return supported.some((version) => HANDSHAKE_VERSIONS.includes(version));
}

function adviceOn(status: number): string {
  if (status >= 300 && status < 400) return ": a redirect, which is not followed; give the final url";
  if (status === 401) return ": a token is missing or no longer valid";
  if (status === 403) return ": this token does not allow it";
  if (status === 404) return ": not an MCP endpoint, or the session has ended";
  return status === 429 ? ": too many requests, try later" : "";
}
