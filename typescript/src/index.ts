/**
 * The public names of this package, for Node.
 */
export { type MapCache, type MetaTokenizerOptions, makeMetaTokenizer } from "./map.js";
export * from "./portable.js";
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
