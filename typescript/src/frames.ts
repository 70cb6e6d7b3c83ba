/**
 * In: JSON-RPC messages, or the bytes of a binary response in chunks of any size. Out: frames (u32 big-endian length,
 * then the msgpack of one message), or the messages of the frames. Touches nothing.
 */
import { FrameError } from "./client-errors.js";
import { isRecord } from "./leaf.js";
import type { Message, MessageReader } from "./message-reader.js";
import { MsgpackError, packJson, unpackJson } from "./msgpack.js";

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
  if (!isRecord(message)) throw new FrameError("not-object", "a message is no object");
  return message;
}

/** Cuts a stream into messages: each is given as soon as its last byte is there. After an error it is of no more use. */
export class FrameReader implements MessageReader {
  private chunks: Uint8Array[] = [];
  private held = 0;
  /** How many bytes must be held before the next step; a head first, then its body. */
  private wanted = HEAD;
  private inBody = false;

  constructor(private readonly maxMessageBytes = MAX_MESSAGE_BYTES) {}

  push(chunk: Uint8Array): Message[] {
    this.chunks.push(chunk);
    this.held += chunk.length;
    const messages: Message[] = [];
    while (this.held >= this.wanted) {
      const part = this.take(this.wanted);
      if (this.inBody) messages.push(unpackMessage(part));
      this.wanted = this.inBody ? HEAD : this.bodyLength(part);
      this.inBody = !this.inBody;
    }
    return messages;
  }

  end(): Message[] {
    if (this.inBody || this.held > 0) throw new FrameError("truncated", "the stream ends inside a frame");
    return [];
  }

  private bodyLength(head: Uint8Array): number {
    const length = new DataView(head.buffer, head.byteOffset).getUint32(0);
    if (length === 0) throw new FrameError("empty-frame", "a frame is empty");
    if (length > this.maxMessageBytes)
      throw new FrameError("too-large", `a frame has ${length} bytes, the limit is ${this.maxMessageBytes}`);
    return length;
  }

  /** The chunks are joined once per part, however many there are. */
  private take(size: number): Uint8Array {
    const joined = this.chunks.length === 1 ? this.chunks[0]! : Buffer.concat(this.chunks, this.held);
    const left = joined.subarray(size);
    this.chunks = left.length > 0 ? [left] : [];
    this.held = left.length;
    return joined.subarray(0, size);
  }
}

function unpack(body: Uint8Array): unknown {
  try {
    return unpackJson(body);
  } catch (error) {
    if (error instanceof MsgpackError) throw new FrameError(error.reason, `no message: ${error.message}`);
    throw error;
  }
}
