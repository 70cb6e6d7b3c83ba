/**
 * The names of this package that need no module of Node: reading, verifying and writing leaves, with a tokenizer made
 * from the bytes of a map. Browsers, workers and bundlers get this entry point.
 */
export {
  CodecMetaMapMismatchError,
  IdsError,
  MapDigestError,
  MapError,
  MapHashMismatchError,
  MapInvalidError,
  MapUnreachableError,
  TextError,
} from "./errors.js";
export {
  buildMetaBlock,
  type CheckOptions,
  CODEC_META_KEY,
  findCodecMeta,
  hasCodecMeta,
  type LeafEntry,
  type LeafPayload,
  type LeafVerdict,
  type Level,
  type MetaTokenizer,
  type ReadOptions,
  type Reason,
  readCodecMeta,
  readCodecMetaFromBlock,
  stripCodecMeta,
  takeIds,
  type Verdict,
  type VerifyOptions,
  verifyCodecMeta,
  type WrapOptions,
  wrapToolCall,
} from "./leaf.js";
export {
  type FromBytesOptions,
  type LoadedTokenizer,
  type MapFacts,
  makeMetaTokenizerFromBytes,
} from "./tokenizer.js";
export { wrapServer } from "./wrap-server.js";
