import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { RequestTimeoutError } from "../src/client-errors.js";
import { Deadline } from "../src/deadline.js";

const LONG = 60_000;

function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(signal.reason)));
}

describe("Deadline", () => {
  it.each([
    { timeoutMs: 5, totalTimeoutMs: LONG },
    { timeoutMs: LONG, totalTimeoutMs: 5 },
  ])("ends after %o", async (patience) => {
    const deadline = new Deadline(patience);
    expect(await aborted(deadline.signal)).toBeInstanceOf(RequestTimeoutError);
    deadline.stop();
  });

  it("ends with its caller, for the caller's reason", () => {
    const controller = new AbortController();
    const deadline = new Deadline({ timeoutMs: LONG, totalTimeoutMs: LONG }, controller.signal);
    controller.abort("mine");
    expect(deadline.signal.reason).toBe("mine");
    deadline.stop();
  });

  it("is over at once where the caller has left already", () => {
    const deadline = new Deadline({ timeoutMs: LONG, totalTimeoutMs: LONG }, AbortSignal.abort("mine"));
    expect(deadline.signal.reason).toBe("mine");
    deadline.stop();
  });

  it("keeps the first reason", () => {
    const deadline = new Deadline({ timeoutMs: LONG, totalTimeoutMs: LONG });
    deadline.end("first");
    deadline.end("second");
    expect(deadline.signal.reason).toBe("first");
    deadline.stop();
  });

  it("leaves nothing with its caller when it stops, and no longer minds it when in a hurry", async () => {
    const controller = new AbortController();
    const patience = { timeoutMs: LONG, totalTimeoutMs: LONG };
    const [stopped, hurried] = [new Deadline(patience, controller.signal), new Deadline(patience, controller.signal)];
    expect(getEventListeners(controller.signal, "abort").length).toBe(2);
    stopped.stop();
    hurried.hurry(5);
    expect(getEventListeners(controller.signal, "abort").length).toBe(0);
    expect(await aborted(hurried.signal)).toBeInstanceOf(RequestTimeoutError);
    expect(stopped.signal.aborted).toBe(false);
  });
});
