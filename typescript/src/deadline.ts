/**
 * In: how long a request may stay silent and how long it may take, and its caller's signal. Out: one signal for all.
 * Touches: timers. Whatever ends a request early is the reason of that signal, so there is one place to look for it.
 */
import { RequestTimeoutError } from "./client-errors.js";

export interface Patience {
  /** The longest silence, in milliseconds: every message, progress too, begins it anew. */
  timeoutMs: number;
  /** The longest time for all of a request. */
  totalTimeoutMs: number;
}

export class Deadline {
  private readonly controller = new AbortController();
  private total: NodeJS.Timeout;
  private silence: NodeJS.Timeout;
  private readonly give = () => this.end(this.caller?.reason);

  constructor(
    private readonly patience: Patience,
    private readonly caller?: AbortSignal,
  ) {
    this.total = this.after(patience.totalTimeoutMs, "the answer was not complete");
    this.silence = this.startSilence();
    if (caller?.aborted) this.give();
    else caller?.addEventListener("abort", this.give, { once: true });
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  heard(): void {
    clearTimeout(this.silence);
    this.silence = this.startSilence();
  }

  /** From now on only this long, whatever comes, and without regard to the caller, who has what he wants. */
  hurry(ms: number): void {
    this.stop();
    this.total = this.after(ms, "the stream did not end");
  }

  end(reason: unknown): void {
    this.controller.abort(reason);
  }

  /** To be called when the request is over: nothing of it stays behind. */
  stop(): void {
    clearTimeout(this.silence);
    clearTimeout(this.total);
    this.caller?.removeEventListener("abort", this.give);
  }

  private startSilence(): NodeJS.Timeout {
    return this.after(this.patience.timeoutMs, "nothing came");
  }

  private after(ms: number, what: string): NodeJS.Timeout {
    return setTimeout(() => this.end(new RequestTimeoutError(`${what} for ${ms} ms; the call may have run`)), ms);
  }
}
