/**
 * In: the bytes of a text/event-stream in chunks of any size. Out: the JSON-RPC messages in its events. Touches nothing.
 * Comments, events without data (they only carry an id) and events of other types are passed over.
 */
import { ProtocolError } from "./client-errors.js";
import { parseMessage, utf8Text } from "./json-message.js";
import type { Message, MessageReader } from "./message-reader.js";

export const EVENTS_TYPE = "text/event-stream";

const LINE_END = /\r\n|\n|\r/g;

export class EventReader implements MessageReader {
  private readonly decoder = new TextDecoder("utf-8", { fatal: true });
  /** A long line comes in many chunks: they are joined once, when it is complete. */
  private line: string[] = [];
  private data: string[] = [];
  private event = "";
  private held = 0;
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

  /** An event that the end cuts off is dropped, as the format wants it; whoever waits for its message will say so. */
  end(): Message[] {
    return [];
  }

  /** A line feed that opens a chunk may belong to the carriage return that ended the last one. */
  private withoutHalfLineEnd(text: string): string {
    if (text === "") return text;
    const rest = this.afterReturn && text.startsWith("\n") ? text.slice(1) : text;
    this.afterReturn = text.endsWith("\r");
    return rest;
  }

  private hold(part: string): void {
    this.held += part.length;
    if (this.held > this.maxMessageBytes)
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
    const ours = text !== "" && (this.event === "" || this.event === "message");
    this.data = [];
    this.event = "";
    this.held = 0;
    return ours ? parseMessage(text) : null;
  }
}
