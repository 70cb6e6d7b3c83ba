/**
 * In: a request of MCP. Out: how it is written in each of the protocol's two eras: its headers and its `_meta`.
 * Touches nothing. 2026-07-28 has no sessions: every request says all about itself. Before it, a handshake said it once.
 */
import type { Message } from "./message-reader.js";

export const STATELESS_VERSION = "2026-07-28";
export const HANDSHAKE_VERSIONS: readonly string[] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

export type Params = Record<string, unknown>;

export interface ClientInfo {
  name: string;
  version: string;
}

export interface Era {
  readonly version: string;
  /** Whether notifications and answers of the client reach the server; without them, closing a stream cancels. */
  readonly takesMessages: boolean;
  headers(method: string, params: Params): Record<string, string>;
  params(params: Params): Params;
}

/** The parameter that names what a request is about, and is repeated in a header for those that route it. */
const NAMING: ReadonlyMap<string, string> = new Map([
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
    takesMessages: false,
    params: (params) => withMeta(params, envelope),
    headers(method, params) {
      const name = params[NAMING.get(method) ?? ""];
      return {
        "mcp-protocol-version": STATELESS_VERSION,
        "mcp-method": method,
        ...(typeof name === "string" ? { "mcp-name": headerValue(name) } : {}),
      };
    },
  };
}

/** `sessionId` is null at a server that keeps no sessions. */
export function handshakeEra(version: string, sessionId: string | null): Era {
  const session = sessionId === null ? {} : { "mcp-session-id": sessionId };
  const headers = { "mcp-protocol-version": version, ...session };
  return { version, takesMessages: true, params: (params) => params, headers: () => headers };
}

/** The handshake itself: no version is agreed on yet. */
export const OPENING_ERA: Era = {
  version: HANDSHAKE_VERSIONS[0]!,
  takesMessages: false,
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

/** A value as a header can carry it: as it is where that is safe, else in base64, marked as such. */
export function headerValue(value: string): string {
  const plain = /^[\x20-\x7e]*$/.test(value) && value === value.trim() && !/^=\?base64\?.*\?=$/.test(value);
  return plain ? value : `=?base64?${Buffer.from(value, "utf8").toString("base64")}?=`;
}
