/**
 * The UTF-8 bytes of a text, in one shared buffer: most texts are short, and their bytes are used at once and not stored.
 */
import { TextError } from "./errors.js";

const encoder = new TextEncoder();
const KEEP = 1 << 20;
let buffer = new Uint8Array(1 << 16);

/** The bytes of this text; valid until the next call. Throws TextError for lone surrogates. */
export function utf8(text: string): Uint8Array {
  if (!text.isWellFormed()) throw new TextError("the text holds lone surrogates and cannot be written as UTF-8");
  const most = text.length * 3;
  if (most > KEEP) return encoder.encode(text);
  if (most > buffer.length) buffer = new Uint8Array(Math.min(KEEP, most * 2));
  return buffer.subarray(0, encoder.encodeInto(text, buffer).written);
}
