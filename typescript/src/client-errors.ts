/**
 * All errors of the client; `fault` says whose fault it is.
 *
 *   ClientError
 *   ├── RequestError          caller: options or arguments that cannot be sent; the client is closed
 *   ├── ConnectionError       network: the server cannot be reached, or the connection broke
 *   ├── RequestTimeoutError   network: no answer in time; the call may have run
 *   ├── HttpError             an HTTP error status without a message of the protocol: `status`
 *   ├── RpcError              an error of JSON-RPC in the server's answer: `code`, `data`
 *   ├── ProtocolError         server: the answer breaks the protocol or a limit
 *   │   └── FrameError        server: these bytes are not frames: `reason`
 *   └── LeafError             server: ids that do not match their text: `textIndex`, `reason`
 *
 * A call that is aborted by its signal throws the reason of that signal.
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

/** The codes of JSON-RPC for invalid requests: parse error, invalid request, unknown method, invalid parameters. */
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
    super(`content[${textIndex}] has ids that are not valid: ${reason}`);
  }
}
