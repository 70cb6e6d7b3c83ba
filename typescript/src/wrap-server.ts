/**
 * Adds ids to the tool results of an McpServer, or of the plain Server inside it, by wrapping its handler for tools/call:
 * the current one, and any that is set later.
 */
import {
  isRecord,
  LEAF_EXTENSION,
  type MetaTokenizer,
  parseDigest,
  tokenizersOf,
  type WrapOptions,
  wrapToolCall,
} from "./leaf.js";

type Handler = (request: unknown, extra: unknown) => unknown;

/** The parts of the SDK's Server that are used. `_requestHandlers` is private; without it wrapServer throws. */
interface PlainServer {
  setRequestHandler(...args: unknown[]): unknown;
  registerCapabilities(capabilities: object): void;
  transport?: unknown;
  _requestHandlers: Map<string, Handler>;
}

const METHOD = "tools/call";
const leafHandlers = new WeakSet<Handler>();

/** What a server declares that follows wishes for ids of these maps. */
export function leafCapability(metas: readonly MetaTokenizer[]): Record<string, object> {
  return { [LEAF_EXTENSION]: { maps: metas.map(({ mapId }) => parseDigest(mapId)), forms: ["ids", "packed"] } };
}

/**
 * Adds ids to the results of all tools of this server, also of those registered later, and declares that it does.
 * Returns the server. Of several tokenizers each call chooses one. Throws NotATokenizerError for a promise.
 */
export function wrapServer<T extends object>(
  server: T,
  meta: MetaTokenizer | readonly MetaTokenizer[],
  options: WrapOptions = {},
): T {
  const metas = tokenizersOf(meta);
  const plain = plainServerOf(server);
  // A server that is connected has declared what it declares.
  if (plain.transport === undefined) plain.registerCapabilities({ extensions: leafCapability(metas) });
  const setRequestHandler = plain.setRequestHandler.bind(plain);
  plain.setRequestHandler = (...args) => {
    const answer = setRequestHandler(...args);
    wrapCurrent(plain, metas, options);
    return answer;
  };
  wrapCurrent(plain, metas, options);
  return server;
}

/** McpServer sets its handler when the first tool is registered, and looks tools up by name with each call. */
function wrapCurrent(plain: PlainServer, metas: readonly MetaTokenizer[], options: WrapOptions): void {
  const handler = plain._requestHandlers.get(METHOD);
  if (handler === undefined || leafHandlers.has(handler)) return;
  const leafHandler: Handler = async (request, extra) => {
    const result = await handler(request, extra);
    if (!isRecord(result) || !Array.isArray(result.content)) return result;
    return wrapToolCall(result, metas, { ...options, requestMeta: metaOf(request) });
  };
  leafHandlers.add(leafHandler);
  plain._requestHandlers.set(METHOD, leafHandler);
}

function metaOf(request: unknown): unknown {
  const params = isRecord(request) ? request.params : undefined;
  return isRecord(params) ? params._meta : undefined;
}

function plainServerOf(server: object): PlainServer {
  const inner: unknown = "server" in server ? server.server : server;
  const plain = inner as Partial<PlainServer> | null;
  const isServer = typeof plain?.setRequestHandler === "function" && typeof plain.registerCapabilities === "function";
  if (isServer && plain._requestHandlers instanceof Map) return plain as PlainServer;
  throw new TypeError("wrapServer needs an McpServer or Server of @modelcontextprotocol/sdk 1.x");
}
