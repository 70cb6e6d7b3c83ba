/**
 * In: nothing. Out: the public names of this package. Touches nothing.
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
  type CheckOptions,
  CODEC_META_KEY,
  type LeafPayload,
  type Level,
  type MetaTokenizer,
  type Reason,
  type Verdict,
} from "./leaf.js";
export { type LoadedTokenizer, type MetaTokenizerOptions, makeMetaTokenizer } from "./map.js";
export type { MapCache } from "./map-cache.js";
export {
  findCodecMeta,
  hasCodecMeta,
  type LeafEntry,
  type ReadOptions,
  readCodecMeta,
  readCodecMetaFromBlock,
  stripCodecMeta,
  takeIds,
} from "./read-leaf.js";
export type { MapFacts } from "./tokenizer.js";
export {
  CatalogError,
  canonicalHash8,
  canonicalShape,
  clashingNamespaces,
  formatPrimitiveId,
  formatToolId,
  inferNamespace,
  normalizeNamespace,
  type PrimitiveKind,
  parsePrimitiveId,
  parseToolId,
  promptIdFor,
  resolveCollisions,
  resourceIdFor,
  type ToolIdOptions,
  type ToolIdParts,
  toolIdFor,
} from "./tool-id.js";
export { type LeafVerdict, type VerifyOptions, verifyCodecMeta } from "./verify.js";
export { wrapServer } from "./wrap-server.js";
export { buildMetaBlock, type WrapOptions, wrapToolCall } from "./write-leaf.js";
