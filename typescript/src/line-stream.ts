/**
 * In: chunks of bytes. Out: whole lines, each with its line feed; at the end, what is left without one.
 * Touches nothing but its own remainder. Bytes are never decoded here: a character may lie across two chunks.
 */
import { Transform, type TransformCallback } from "node:stream";

const LINE_FEED = 0x0a;

/** A stream that hands each line to a function, and passes on what the function gives back. */
export function lineStream(each: (line: Buffer) => Uint8Array): Transform {
  // A long line comes in many chunks: they are joined once, when it is complete.
  let pending: Buffer[] = [];
  return new Transform({
    transform(chunk: Buffer, _encoding, done: TransformCallback) {
      let start = 0;
      for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
        this.push(each(Buffer.concat([...pending, chunk.subarray(start, end + 1)])));
        pending = [];
        start = end + 1;
      }
      if (start < chunk.length) pending.push(chunk.subarray(start));
      done();
    },
    flush(done: TransformCallback) {
      if (pending.length > 0) this.push(each(Buffer.concat(pending)));
      done();
    },
  });
}
