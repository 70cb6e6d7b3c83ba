/**
 * In: nothing. Out: what a reader of response bodies can do, whichever their form. Touches nothing.
 * Frames, event streams and single JSON messages fill this contract; the client knows no more than it.
 */
export type Message = Record<string, unknown>;

export interface MessageReader {
  /** The messages that these bytes complete. Throws ProtocolError. */
  push(chunk: Uint8Array): Message[];
  /** The messages that the end completes. Throws ProtocolError where a message is cut off. */
  end(): Message[];
}
