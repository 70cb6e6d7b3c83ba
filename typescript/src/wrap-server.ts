/**
 * In: an McpServer, or the plain Server under it. Out: the same server, whose tool results carry their ids.
 * Touches the server's handler for tools/call: the one that is set, and any that will be set.
 */
import { isRecord, type MetaTokenizer } from "./leaf.js";
import { type WrapOptions, wrapToolCall } from "./write-leaf.js";

type Handler = (request: unknown, extra: unknown) => unknown;

/** What we use of the SDK's Server. `_requestHandlers` is private there; wrapServer fails loudly where it is gone. */
interface PlainServer {
  setRequestHandler(...args: unknown[]): unknown;
  _requestHandlers: Map<string, Handler>;
}

const METHOD = "tools/call";
const wrapped = new WeakSet<Handler>();

/** Makes every tool of this server leaf-tokenized, those registered later too. Gives the server back. */
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
  if (handler === undefined || wrapped.has(handler)) return;
  const leafHandler: Handler = async (request, extra) => {
    const result = await handler(request, extra);
    return isRecord(result) && Array.isArray(result.content) ? wrapToolCall(result, meta, options) : result;
  };
  wrapped.add(leafHandler);
  plain._requestHandlers.set(METHOD, leafHandler);
}

function plainServerOf(server: object): PlainServer {
  const inner: unknown = "server" in server ? server.server : server;
  const plain = inner as Partial<PlainServer> | null;
  if (typeof plain?.setRequestHandler === "function" && plain._requestHandlers instanceof Map)
    return plain as PlainServer;
  throw new TypeError("wrapServer needs an McpServer or Server of @modelcontextprotocol/sdk 1.x");
}
