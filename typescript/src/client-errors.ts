/**
 * In: what went wrong. Out: every error that the client throws, as one tree; `fault` says whose it is. Touches nothing.
 *
 *   ClientError
 *   ├── RequestError          caller: options or arguments that cannot be sent; the client is closed
 *   ├── ConnectionError       network: the server cannot be reached, or broke off
 *   ├── RequestTimeoutError   network: no answer in time; the call may have run
 *   ├── HttpError             an HTTP status and no more: `status`
 *   ├── RpcError              the server's own answer, an error of JSON-RPC: `code`, `data`
 *   ├── ProtocolError         server: what came is not what the protocol promises, or too much of it
 *   │   └── FrameError        server: these bytes are no frames: `reason`
 *   └── LeafError             server: ids that do not stand for their text: `textIndex`, `reason`
 *
 * Who aborts a call gets the reason of his own signal back.
 */
import type { Reason } from "./errors.js";
import type { MsgpackReason } from "./msgpack.js";

export type Fault = "caller" | "server" | "network";

export abstract class ClientError extends Error {
  abstract readonly fault: Fault;
}

export class RequestError extends ClientError {
  override name = "RequestError";
  readonly fault = "caller";
}

export class ConnectionError extends ClientError {
  override name = "ConnectionError";
  readonly fault = "network";
}

export class RequestTimeoutError extends ClientError {
  override name = "RequestTimeoutError";
  readonly fault = "network";
}

export class HttpError extends ClientError {
  override name = "HttpError";
  readonly fault: Fault;
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
    this.fault = status >= 300 && status < 500 ? "caller" : "server";
  }
}

/** JSON-RPC's codes for a request that is wrong in itself: not parsed, malformed, of no method, with wrong parameters. */
const CALLERS_CODES: readonly number[] = [-32700, -32600, -32601, -32602];

export class RpcError extends ClientError {
  override name = "RpcError";
  readonly fault: Fault;
  constructor(
    message: string,
    readonly code: number,
    readonly data: unknown,
  ) {
    super(message);
    this.fault = CALLERS_CODES.includes(code) ? "caller" : "server";
  }
}

export class ProtocolError extends ClientError {
  override name = "ProtocolError";
  readonly fault = "server";
}

export type FrameReason = "truncated" | "empty-frame" | "too-large" | "not-object" | MsgpackReason;

export class FrameError extends ProtocolError {
  override name = "FrameError";
  constructor(
    readonly reason: FrameReason,
    message: string,
  ) {
    super(message);
  }
}

export class LeafError extends ClientError {
  override name = "LeafError";
  readonly fault = "server";
  constructor(
    readonly textIndex: number,
    readonly reason: Reason,
  ) {
    super(`the ids of content[${textIndex}] are not believed: ${reason}`);
  }
}
