/**
 * In: the messages that come in answer to one request. Out: its result, and its progress on the way. Touches nothing
 * but the caller's own callback.
 */
import { ProtocolError, RpcError } from "./client-errors.js";
import type { Params } from "./eras.js";
import { isRecord } from "./leaf.js";
import type { Message } from "./message-reader.js";

export interface Progress {
  progress: number;
  total?: number | undefined;
  message?: string | undefined;
}

export type OnProgress = (progress: Progress) => void;

/** A request that waits for its answer. */
export class Call {
  private reached = Number.NEGATIVE_INFINITY;

  constructor(
    readonly id: number,
    private readonly onProgress?: OnProgress | undefined,
  ) {}

  /** The result, if this message is the answer; else null. Throws RpcError or ProtocolError. */
  take(message: Message): Params | null {
    if (typeof message.method !== "string") return this.resultIn(message);
    if (message.method === "notifications/progress" && isRecord(message.params)) this.tell(message.params);
    return null;
  }

  private resultIn(message: Message): Params {
    const error = rpcErrorIn(message);
    // A request that was not understood has no id to answer to.
    if (error !== null && (message.id === this.id || message.id === null || message.id === undefined)) throw error;
    if (message.id !== this.id) throw new ProtocolError("the server answered another request");
    if (!isRecord(message.result)) throw new ProtocolError("the answer has no result");
    return message.result;
  }

  /** Progress only grows; a stream that is taken up again tells what it told before. */
  private tell({ progressToken, progress, total, message }: Params): void {
    if (progressToken !== this.id || typeof progress !== "number" || progress <= this.reached) return;
    this.reached = progress;
    this.onProgress?.({
      progress,
      ...(typeof total === "number" ? { total } : {}),
      ...(typeof message === "string" ? { message } : {}),
    });
  }
}

/** The error in an answer, or null where it is none of JSON-RPC. */
export function rpcErrorIn({ error }: Message): RpcError | null {
  if (!isRecord(error) || typeof error.code !== "number" || typeof error.message !== "string") return null;
  return new RpcError(error.message, error.code, error.data);
}
