/**
 * Adds ids to the tool results of an McpServer, or of the plain Server inside it, by wrapping its handler for tools/call:
 * the current one, and any that is set later.
 */
import { isRecord, type MetaTokenizer, type WrapOptions, wrapToolCall } from "./leaf.js";

type Handler = (request: unknown, extra: unknown) => unknown;

/** The parts of the SDK's Server that are used. `_requestHandlers` is private; without it wrapServer throws. */
interface PlainServer {
  setRequestHandler(...args: unknown[]): unknown;
  _requestHandlers: Map<string, Handler>;
}

const METHOD = "tools/call";
const leafHandlers = new WeakSet<Handler>();

/** Adds ids to the results of all tools of this server, also of those registered later. Returns the server. */
export function wrapServer<T extends object>(server: T, meta: MetaTokenizer, options: WrapOptions = {}): T {
  const plain = plainServerOf(server);
  const setRequestHandler = plain.setRequestHandler.bind(plain);
  plain.setRequestHandler = (...args) => {
    const answer = setRequestHandler(...args);
    wrapCurrent(plain, meta, options);
    return answer;
  };
  wrapCurrent(plain, meta, options);
  return server;
}

/** McpServer sets its handler when the first tool is registered, and looks tools up by name with each call. */
function wrapCurrent(plain: PlainServer, meta: MetaTokenizer, options: WrapOptions): void {
  const handler = plain._requestHandlers.get(METHOD);
  if (handler === undefined || leafHandlers.has(handler)) return;
  const leafHandler: Handler = async (request, extra) => {
    const result = await handler(request, extra);
    return isRecord(result) && Array.isArray(result.content) ? wrapToolCall(result, meta, options) : result;
  };
  leafHandlers.add(leafHandler);
  plain._requestHandlers.set(METHOD, leafHandler);
}

function plainServerOf(server: object): PlainServer {
  const inner: unknown = "server" in server ? server.server : server;
  const plain = inner as Partial<PlainServer> | null;
  if (typeof plain?.setRequestHandler === "function" && plain._requestHandlers instanceof Map)
    return plain as PlainServer;
  throw new TypeError("wrapServer needs an McpServer or Server of @modelcontextprotocol/sdk 1.x");
}
