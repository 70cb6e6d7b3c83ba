/**
 * The public names of this package.
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
export type { MapCache } from "./map.js";
export { type LoadedTokenizer, type MetaTokenizerOptions, makeMetaTokenizer } from "./map.js";
export { packIds, unpackIds } from "./packed-ids.js";
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
export { wrapServer } from "./wrap-server.js";
