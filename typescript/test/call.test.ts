import { describe, expect, it } from "vitest";
import { Call, type Progress, rpcErrorIn } from "../src/call.js";
import { ProtocolError, RpcError } from "../src/client-errors.js";
import type { Message } from "../src/message-reader.js";

const told = (params: unknown): Message => ({ jsonrpc: "2.0", method: "notifications/progress", params });

describe("Call", () => {
  it("takes the answer to its own id", () => {
    expect(new Call(3).take({ jsonrpc: "2.0", id: 3, result: { a: 1 } })).toEqual({ a: 1 });
  });

  it.each([
    { id: 3, method: "ping" },
    { method: "notifications/message", params: { level: "info" } },
    told({ progressToken: 3, progress: 1 }),
    told(null),
  ])("passes over %j", (message) => {
    expect(new Call(3).take(message)).toBeNull();
  });

  it.each([3, null, undefined])("throws the server's error under the id %o", (id) => {
    const message = { jsonrpc: "2.0", id, error: { code: -32000, message: "no" } };
    expect(() => new Call(3).take(message)).toThrow(RpcError);
  });

  it.each([
    { id: 4, result: {} },
    { id: "3", result: {} },
    { id: 4, error: { code: 1, message: "another's" } },
    { id: 3, result: [] },
    { id: 3, result: null },
    { id: 3 },
    { id: 3, error: "no" },
    {},
  ])("refuses %j", (message) => {
    expect(() => new Call(3).take(message)).toThrow(ProtocolError);
  });

  it("tells progress that grows, and nothing that is none of its own", () => {
    const seen: Progress[] = [];
    const call = new Call(3, (progress) => seen.push(progress));
    for (const params of [
      { progressToken: 3, progress: 1, total: 4, message: "a" },
      { progressToken: 3, progress: 1, total: 4, message: "again" },
      { progressToken: 3, progress: 0 },
      { progressToken: 4, progress: 2 },
      { progressToken: "3", progress: 2 },
      { progressToken: 3, progress: "2" },
      { progressToken: 3, progress: 2.5, total: "x", message: 5 },
      [],
    ])
      call.take(told(params));
    expect(seen).toEqual([{ progress: 1, total: 4, message: "a" }, { progress: 2.5 }]);
  });
});

describe("rpcErrorIn", () => {
  it("says whose fault it is", () => {
    const fault = (code: number) => rpcErrorIn({ error: { code, message: "" } })!.fault;
    expect([-32700, -32600, -32601, -32602].map(fault)).toEqual(new Array(4).fill("caller"));
    expect([-32603, -32000, 0, 1].map(fault)).toEqual(new Array(4).fill("server"));
  });

  it.each([{}, { error: null }, { error: [] }, { error: { code: "1", message: "" } }, { error: { code: 1 } }])(
    "finds none in %j",
    (message) => {
      expect(rpcErrorIn(message)).toBeNull();
    },
  );
});
