/**
 * Readers of response bodies: a single JSON message, an event stream, or frames (a big-endian u32 length, then one
 * message in msgpack). All three accept chunks of any size and return messages as soon as they are complete.
 */
import { FrameError, ProtocolError } from "./client-errors.js";
import { isRecord } from "./leaf.js";
import { MsgpackError, packJson, unpackJson } from "./msgpack.js";

export type Message = Record<string, unknown>;

export interface MessageReader {
  /** The messages that these bytes complete. Throws ProtocolError. */
  push(chunk: Uint8Array): Message[];
  /** The messages that the end completes. Throws ProtocolError where a message is cut off. */
  end(): Message[];
}

export const JSON_TYPE = "application/json";

/** Throws ProtocolError for text that is not a JSON object. */
export function parseMessage(text: string): Message {
  const value = parse(text);
  if (!isRecord(value)) throw new ProtocolError("the server sent JSON that is not a message");
  return value;
}

/** The text of these bytes; with `more`, the last character may be incomplete. Throws ProtocolError. */
export function utf8Text(decoder: InstanceType<typeof TextDecoder>, bytes: Uint8Array, more = false): string {
  try {
    return decoder.decode(bytes, { stream: more });
  } catch {
    throw new ProtocolError("the server sent text that is not UTF-8");
  }
}

/** A body that is one message, or empty, as for a notification. */
export class JsonReader implements MessageReader {
  private readonly chunks: Uint8Array[] = [];
  private size = 0;

  constructor(private readonly maxMessageBytes: number) {}

  push(chunk: Uint8Array): Message[] {
    this.size += chunk.length;
    if (this.size > this.maxMessageBytes)
      throw new ProtocolError(`a message is larger than the limit of ${this.maxMessageBytes} bytes`);
    this.chunks.push(chunk);
    return [];
  }

  end(): Message[] {
    if (this.size === 0) return [];
    return [parseMessage(utf8Text(new TextDecoder("utf-8", { fatal: true }), Buffer.concat(this.chunks, this.size)))];
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ProtocolError("the server sent text that is not JSON");
  }
}

export const EVENTS_TYPE = "text/event-stream";

const LINE_END = /\r\n|\n|\r/g;

export class EventReader implements MessageReader {
  private readonly decoder = new TextDecoder("utf-8", { fatal: true });
  /** A long line arrives in many chunks, which are joined once. */
  private line: string[] = [];
  private data: string[] = [];
  private event = "";
  private size = 0;
  private afterReturn = false;

  constructor(private readonly maxMessageBytes: number) {}

  push(chunk: Uint8Array): Message[] {
    const text = this.withoutHalfLineEnd(utf8Text(this.decoder, chunk, true));
    const messages: Message[] = [];
    let start = 0;
    for (const { index, 0: mark } of text.matchAll(LINE_END)) {
      this.hold(text.slice(start, index));
      const message = this.endLine();
      if (message !== null) messages.push(message);
      start = index + mark.length;
    }
    this.hold(text.slice(start));
    return messages;
  }

  /** An event that is cut off at the end is dropped, as the format requires. */
  end(): Message[] {
    return [];
  }

  /** A line feed at the start of a chunk may belong to a carriage return at the end of the last one. */
  private withoutHalfLineEnd(text: string): string {
    if (text === "") return text;
    const rest = this.afterReturn && text.startsWith("\n") ? text.slice(1) : text;
    this.afterReturn = text.endsWith("\r");
    return rest;
  }

  private hold(part: string): void {
    this.size += part.length;
    if (this.size > this.maxMessageBytes)
      throw new ProtocolError(`an event is larger than the limit of ${this.maxMessageBytes} bytes`);
    if (part !== "") this.line.push(part);
  }

  private endLine(): Message | null {
    const line = this.line.join("");
    this.line = [];
    if (line === "") return this.endEvent();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    if (field === "event") this.event = value;
    return null;
  }

  private endEvent(): Message | null {
    const text = this.data.join("\n");
    const isMessage = text !== "" && (this.event === "" || this.event === "message");
    this.data = [];
    this.event = "";
    this.size = 0;
    return isMessage ? parseMessage(text) : null;
  }
}

export const FRAMES_TYPE = "application/x-codec-msgpack";
export const MAX_MESSAGE_BYTES = 64 << 20;

const HEAD = 4;

/** One frame of a binary response. Throws MsgpackError for what JSON cannot say. */
export function packFrame(message: Message): Uint8Array {
  const body = packJson(message);
  const frame = new Uint8Array(HEAD + body.length);
  new DataView(frame.buffer).setUint32(0, body.length);
  frame.set(body, HEAD);
  return frame;
}

/** The message in the body of a frame, or of a binary request, which has no length before it. Throws FrameError. */
export function unpackMessage(body: Uint8Array): Message {
  const message = unpack(body);
  if (!isRecord(message)) throw new FrameError("not-object", "a message is not an object");
  return message;
}

/** Cuts a stream of frames into messages. It cannot be used after an error. */
export class FrameReader implements MessageReader {
  private chunks: Uint8Array[] = [];
  private size = 0;
  /** How many bytes the next step needs: a head first, then its body. */
  private needed = HEAD;
  private inBody = false;

  constructor(private readonly maxMessageBytes = MAX_MESSAGE_BYTES) {}

  push(chunk: Uint8Array): Message[] {
    this.chunks.push(chunk);
    this.size += chunk.length;
    const messages: Message[] = [];
    while (this.size >= this.needed) {
      const part = this.take(this.needed);
      if (this.inBody) messages.push(unpackMessage(part));
      this.needed = this.inBody ? HEAD : this.bodyLength(part);
      this.inBody = !this.inBody;
    }
    return messages;
  }

  end(): Message[] {
    if (this.inBody || this.size > 0) throw new FrameError("truncated", "the stream ends inside a frame");
    return [];
  }

  private bodyLength(head: Uint8Array): number {
    const length = new DataView(head.buffer, head.byteOffset).getUint32(0);
    if (length === 0) throw new FrameError("empty-frame", "a frame is empty");
    if (length > this.maxMessageBytes)
      throw new FrameError("too-large", `a frame has ${length} bytes, the limit is ${this.maxMessageBytes}`);
    return length;
  }

  /** Joins the chunks once per part, however many there are. */
  private take(size: number): Uint8Array {
    const joined = this.chunks.length === 1 ? this.chunks[0]! : Buffer.concat(this.chunks, this.size);
    const left = joined.subarray(size);
    this.chunks = left.length > 0 ? [left] : [];
    this.size = left.length;
    return joined.subarray(0, size);
  }
}

function unpack(body: Uint8Array): unknown {
  try {
    return unpackJson(body);
  } catch (error) {
    if (error instanceof MsgpackError) throw new FrameError(error.reason, `not a message: ${error.message}`);
    throw error;
  }
}
