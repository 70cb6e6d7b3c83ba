/**
 * In: a reply, or what was thrown for it. Out: what its refusal means. Touches the reply's body.
 */
import { rpcErrorIn } from "./call.js";
import { HttpError, ProtocolError, RpcError } from "./client-errors.js";
import { HANDSHAKE_VERSIONS } from "./eras.js";
import type { Reply } from "./exchange.js";
import { isRecord } from "./leaf.js";
import type { Message } from "./message-reader.js";

const UNSUPPORTED_VERSION = -32022;
/** Statuses that say nothing about the era: a handshake would meet the same. */
const NOT_ABOUT_THE_ERA: readonly number[] = [401, 403, 407, 429];

/** Throws for every status that is no success, with the server's own words where it has sent any. */
export async function refuseStatus(reply: Reply): Promise<void> {
  const { status } = reply;
  if (status >= 200 && status < 300) return;
  const said = await firstOf(reply.messages);
  const error = status >= 400 && said !== null ? rpcErrorIn(said) : null;
  // A lost session is told by its status; the words beside it differ from server to server.
  if (error !== null && !(status === 404 && said?.id === null)) throw error;
  throw new HttpError(`the server answered with status ${status}${adviceOn(status)}`, status);
}

/** The first message, if there is one that can be read; the rest is not waited for. */
export async function firstOf(messages: AsyncGenerator<Message>): Promise<Message | null> {
  try {
    for await (const message of messages) return message;
  } catch (error) {
    // Whoever asks here goes by the status: it says more than a body that cannot be read.
    if (!(error instanceof ProtocolError)) throw error;
  }
  return null;
}

/** Whether this refusal of a stateless request may come from a server of the era before. */
export function meansOlder(error: unknown): boolean {
  if (error instanceof HttpError) return error.fault === "caller" && !NOT_ABOUT_THE_ERA.includes(error.status);
  if (!(error instanceof RpcError)) return false;
  const supported = isRecord(error.data) ? error.data.supported : undefined;
  if (error.code !== UNSUPPORTED_VERSION || !Array.isArray(supported)) return true;
  return supported.some((version) => HANDSHAKE_VERSIONS.includes(version));
}

function adviceOn(status: number): string {
  if (status >= 300 && status < 400) return ": a redirect, which is not followed; give the final url";
  if (status === 401) return ": it wants a token, or a fresh one";
  if (status === 403) return ": this token does not allow it";
  if (status === 404) return ": there is no MCP endpoint, or the session is over";
  return status === 429 ? ": too many requests, try later" : "";
}
