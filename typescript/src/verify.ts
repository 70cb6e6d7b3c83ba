/**
 * In: a tool result and the reader's own tokenizer. Out: a verdict on each text block's payload (spec 5.7).
 * Touches nothing.
 */
import type { Level, MetaTokenizer, Reason } from "./leaf.js";
import { readCodecMeta } from "./read-leaf.js";

export interface LeafVerdict {
  textIndex: number;
  /** `absent` where the block carries no payload. */
  verdict: "accept" | "reject" | "absent";
  reason: Reason | null;
}

export interface VerifyOptions {
  /** `decode` is cheap and blind to odd splits; `canonical`, the default, tokenizes and compares. */
  level?: Level | undefined;
}

/** One verdict per text block, in order. */
export function verifyCodecMeta(
  result: unknown,
  meta: MetaTokenizer,
  { level = "canonical" }: VerifyOptions = {},
): LeafVerdict[] {
  return readCodecMeta(result).map(({ textIndex, text, ids, mapId }) =>
    ids === null
      ? { textIndex, verdict: "absent", reason: null }
      : { textIndex, ...meta.check(text, ids, { level, mapId }) },
  );
}
