/**
 * One HTTP exchange: sends a message and returns the status, headers and messages of the response as they arrive.
 * Redirects are not followed: they would send the token to another address.
 */

import { acceptedCodings, isBroken, plainBytes } from "./body-coding.js";
import { ClientError, ConnectionError, ProtocolError, RequestError, RequestTimeoutError } from "./client-errors.js";
import {
  EVENTS_TYPE,
  EventReader,
  FRAMES_TYPE,
  FrameReader,
  JSON_TYPE,
  JsonReader,
  type Message,
  type MessageReader,
} from "./messages.js";
import { MsgpackError, packJson } from "./msgpack.js";

export interface Endpoint {
  url: URL;
  fetch: typeof fetch;
  /** Whether frames are accepted; the server may still answer in JSON. */
  acceptsFrames: boolean;
  /** The largest message, in bytes after decompression. */
  maxMessageBytes: number;
  /** The largest response, in bytes after decompression. */
  maxResponseBytes: number;
}

export interface Outgoing {
  headers: Record<string, string>;
  message: Message;
  /** Whether the body is msgpack: only after the server has answered in frames. */
  binary: boolean;
  signal: AbortSignal;
}

export interface Reply {
  status: number;
  headers: Headers;
  /** The media type of the body. */
  type: string;
  /** Empty if the media type is none of the three with messages. Leaving the loop closes the stream. */
  messages: AsyncGenerator<Message>;
}

/** Posts one message. Throws RequestError, ConnectionError or ProtocolError, or the reason of the signal. */
export async function post(endpoint: Endpoint, { headers, message, binary, signal }: Outgoing): Promise<Reply> {
  const body = binary ? pack(message) : stringify(message);
  const typed = { ...headers, "content-type": binary ? FRAMES_TYPE : JSON_TYPE };
  return open(endpoint, { method: "POST", headers: typed, body, signal });
}

/** Resumes a stream that broke, after this event id. Throws like `post`. */
export async function resume(
  endpoint: Endpoint,
  eventId: string,
  headers: Record<string, string>,
  signal: AbortSignal,
): Promise<Reply> {
  return open(endpoint, { method: "GET", headers: { ...headers, "last-event-id": eventId }, signal });
}

/** Ends a session. */
export async function endSession(
  endpoint: Endpoint,
  headers: Record<string, string>,
  signal: AbortSignal,
): Promise<Reply> {
  return open(endpoint, { method: "DELETE", headers, signal });
}

interface HttpRequest {
  method: string;
  headers: Record<string, string>;
  body?: string | Uint8Array;
  signal: AbortSignal;
}

async function open(endpoint: Endpoint, request: HttpRequest): Promise<Reply> {
  const response = await send(endpoint, request);
  const type = (response.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase();
  return {
    status: response.status,
    headers: response.headers,
    type,
    messages: messagesOf(response, readerFor(type, endpoint), endpoint, request.signal),
  };
}

async function send(endpoint: Endpoint, request: HttpRequest): Promise<Response> {
  const accept = `${endpoint.acceptsFrames ? `${FRAMES_TYPE}, ` : ""}${JSON_TYPE}, ${EVENTS_TYPE}`;
  const headers = { ...request.headers, accept, "accept-encoding": acceptedCodings() };
  try {
    request.signal.throwIfAborted();
    return await endpoint.fetch(endpoint.url, { ...request, headers, redirect: "manual" });
  } catch (error) {
    throw explainError(error, endpoint, request.signal);
  }
}

async function* messagesOf(
  response: Response,
  reader: MessageReader | null,
  endpoint: Endpoint,
  signal: AbortSignal,
): AsyncGenerator<Message> {
  if (reader === null) {
    await response.body?.cancel();
    return;
  }
  const { maxResponseBytes } = endpoint;
  let length = 0;
  try {
    for await (const chunk of plainBytes(response)) {
      length += chunk.length;
      if (length > maxResponseBytes)
        throw new ProtocolError(`the response is larger than the limit of ${maxResponseBytes} bytes`);
      yield* reader.push(chunk);
    }
    yield* reader.end();
  } catch (error) {
    throw explainError(error, endpoint, signal);
  }
}

/** Null for a media type without messages. */
function readerFor(type: string, { maxMessageBytes }: Endpoint): MessageReader | null {
  if (type === FRAMES_TYPE) return new FrameReader(maxMessageBytes);
  if (type === EVENTS_TYPE) return new EventReader(maxMessageBytes);
  return type === JSON_TYPE ? new JsonReader(maxMessageBytes) : null;
}

function explainError(error: unknown, { url }: Endpoint, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof ClientError) return error;
  if (isFetchTimeout(error))
    return new RequestTimeoutError("no data came for as long as fetch waits", { cause: error });
  if (isBroken(error)) return new ProtocolError("the body is not in the coding that it names", { cause: error });
  return new ConnectionError(`${url.origin}${url.pathname}: ${reasonOf(error)}`, { cause: error });
}

/** The fetch of Node has its own timeouts, five minutes for the first byte and between any two. */
function isFetchTimeout(error: unknown): boolean {
  const { code } = (error instanceof Error ? (error.cause ?? {}) : {}) as { code?: unknown };
  return code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT";
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "the connection failed";
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message;
}

function pack(message: Message): Uint8Array {
  try {
    return packJson(message);
  } catch (error) {
    if (error instanceof MsgpackError)
      throw new RequestError(`this cannot be sent: ${error.message}`, { cause: error });
    throw error;
  }
}

function stringify(message: Message): string {
  // The same values are refused in both forms, so that the server does not decide what may be sent.
  pack(message);
  return JSON.stringify(message);
}
