/**
 * In: the text of one JSON-RPC message, whole or as the chunks of a body. Out: the message. Touches nothing.
 */
import type { TextDecoder as Utf8Decoder } from "node:util";
import { ProtocolError } from "./client-errors.js";
import { isRecord } from "./leaf.js";
import type { Message, MessageReader } from "./message-reader.js";

export const JSON_TYPE = "application/json";

/** Throws ProtocolError for what is no JSON object. */
export function parseMessage(text: string): Message {
  const value = parse(text);
  if (!isRecord(value)) throw new ProtocolError("the server sent JSON that is no message");
  return value;
}

/** The text of these bytes; `more` if some of the last character's may still come. Throws ProtocolError. */
export function utf8Text(decoder: Utf8Decoder, bytes: Uint8Array, more = false): string {
  try {
    return decoder.decode(bytes, { stream: more });
  } catch {
    throw new ProtocolError("the server sent what is no UTF-8");
  }
}

/** A body that is one message, or empty: a notification is acknowledged so. */
export class JsonReader implements MessageReader {
  private readonly chunks: Uint8Array[] = [];
  private held = 0;

  constructor(private readonly maxMessageBytes: number) {}

  push(chunk: Uint8Array): Message[] {
    this.held += chunk.length;
    if (this.held > this.maxMessageBytes)
      throw new ProtocolError(`a message is larger than the limit of ${this.maxMessageBytes} bytes`);
    this.chunks.push(chunk);
    return [];
  }

  end(): Message[] {
    if (this.held === 0) return [];
    return [parseMessage(utf8Text(new TextDecoder("utf-8", { fatal: true }), Buffer.concat(this.chunks, this.held)))];
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ProtocolError("the server sent what is no JSON");
  }
}
