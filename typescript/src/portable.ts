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
  NotATokenizerError,
  TextError,
} from "./errors.js";
export {
  ACCEPT_META_KEY,
  buildMetaBlock,
  type CheckOptions,
  CODEC_META_KEY,
  findCodecMeta,
  hasCodecMeta,
  type IdsWish,
  LEAF_EXTENSION,
  type LeafEntry,
  type LeafPayload,
  type LeafVerdict,
  type Level,
  MAX_TEXT_LENGTH,
  type MetaTokenizer,
  type ReadOptions,
  type Reason,
  readCodecMeta,
  readCodecMetaFromBlock,
  readWish,
  stripCodecMeta,
  takeIds,
  type Verdict,
  type VerifyOptions,
  verifyCodecMeta,
  type WrapOptions,
  wrapToolCall,
} from "./leaf.js";
export { packIds, unpackIds } from "./packed-ids.js";
export {
  type FromBytesOptions,
  type LoadedTokenizer,
  type MapFacts,
  makeMetaTokenizerFromBytes,
} from "./tokenizer.js";
export { wrapServer } from "./wrap-server.js";
