/**
 * In: one message and where to send it. Out: the server's status, headers and messages, each as it arrives.
 * Touches the network. Redirects are not followed: they would carry the token elsewhere.
 */
import { acceptedCodings, isBroken, plainBytes } from "./body-coding.js";
import { ClientError, ConnectionError, ProtocolError, RequestError, RequestTimeoutError } from "./client-errors.js";
import { EVENTS_TYPE, EventReader } from "./event-stream.js";
import { FRAMES_TYPE, FrameReader } from "./frames.js";
import { JSON_TYPE, JsonReader } from "./json-message.js";
import type { Message, MessageReader } from "./message-reader.js";
import { MsgpackError, packJson } from "./msgpack.js";

export interface Endpoint {
  url: URL;
  fetch: typeof fetch;
  /** Whether frames are asked for; the server may answer otherwise. */
  asksFrames: boolean;
  /** The largest message, in bytes as it is without coding. */
  maxMessageBytes: number;
  /** The most that one response may hold in all, in bytes without coding. */
  maxResponseBytes: number;
}

export interface Sending {
  headers: Record<string, string>;
  message: Message;
  /** Whether the body is msgpack: only where the server has shown that it speaks it. */
  binary: boolean;
  signal: AbortSignal;
}

export interface Reply {
  status: number;
  headers: Headers;
  /** The media type of the body. */
  type: string;
  /** None for a body of another type than the three that hold messages. Leaving the loop closes the stream. */
  messages: AsyncGenerator<Message>;
}

/** Posts one message. Throws RequestError, ConnectionError or ProtocolError; the signal's reason where it was given. */
export async function post(endpoint: Endpoint, { headers, message, binary, signal }: Sending): Promise<Reply> {
  const body = binary ? pack(message) : stringify(message);
  const typed = { ...headers, "content-type": binary ? FRAMES_TYPE : JSON_TYPE };
  return open(endpoint, { method: "POST", headers: typed, body, signal });
}

/** Takes up a stream that broke, from this place on. Throws as `post` does. */
export async function resume(
  endpoint: Endpoint,
  place: string,
  headers: Record<string, string>,
  signal: AbortSignal,
): Promise<Reply> {
  return open(endpoint, { method: "GET", headers: { ...headers, "last-event-id": place }, signal });
}

/** Ends a session. */
export async function endSession(
  endpoint: Endpoint,
  headers: Record<string, string>,
  signal: AbortSignal,
): Promise<Reply> {
  return open(endpoint, { method: "DELETE", headers, signal });
}

interface Opening {
  method: string;
  headers: Record<string, string>;
  body?: string | Uint8Array;
  signal: AbortSignal;
}

async function open(endpoint: Endpoint, opening: Opening): Promise<Reply> {
  const response = await send(endpoint, opening);
  const type = (response.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase();
  return {
    status: response.status,
    headers: response.headers,
    type,
    messages: messagesOf(response, readerFor(type, endpoint), endpoint, opening.signal),
  };
}

async function send(endpoint: Endpoint, opening: Opening): Promise<Response> {
  const accept = `${endpoint.asksFrames ? `${FRAMES_TYPE}, ` : ""}${JSON_TYPE}, ${EVENTS_TYPE}`;
  const headers = { ...opening.headers, accept, "accept-encoding": acceptedCodings() };
  try {
    opening.signal.throwIfAborted();
    return await endpoint.fetch(endpoint.url, { ...opening, headers, redirect: "manual" });
  } catch (error) {
    throw explained(error, endpoint, opening.signal);
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
    throw explained(error, endpoint, signal);
  }
}

/** Null for a body that holds no messages. */
function readerFor(type: string, { maxMessageBytes }: Endpoint): MessageReader | null {
  if (type === FRAMES_TYPE) return new FrameReader(maxMessageBytes);
  if (type === EVENTS_TYPE) return new EventReader(maxMessageBytes);
  return type === JSON_TYPE ? new JsonReader(maxMessageBytes) : null;
}

function explained(error: unknown, { url }: Endpoint, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof ClientError) return error;
  if (isFetchTimeout(error))
    return new RequestTimeoutError("nothing came for as long as fetch waits", { cause: error });
  if (isBroken(error)) return new ProtocolError("the body is not in the coding that it names", { cause: error });
  return new ConnectionError(`${url.origin}${url.pathname}: ${reasonOf(error)}`, { cause: error });
}

/** Node's fetch has a patience of its own, five minutes for the first byte and for each that follows. */
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
  // The same values are refused in both forms, so that it does not depend on the server what may be sent.
  pack(message);
  return JSON.stringify(message);
}
