import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { FrameError } from "../src/client-errors.js";
import { FrameReader, packFrame, unpackMessage } from "../src/frames.js";
import type { Message } from "../src/message-reader.js";

interface Case {
  name: string;
  command: "frame" | "unframe" | "unpack";
  input: { message?: Message; frames?: string; body?: string; max_bytes?: number };
  expect: { frame?: string; messages?: Message[]; message?: Message; error?: string };
}

/** The compact forms of long values in fixtures: `{"repeat", "times"}` and `{"concat"}`. */
function written(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(written);
  if (typeof value !== "object" || value === null) return value;
  const { repeat, times, concat } = value as { repeat?: string | unknown[]; times?: number; concat?: unknown[] };
  if (typeof repeat === "string") return repeat.repeat(times!);
  if (Array.isArray(repeat)) return Array.from({ length: times! }, () => repeat).flat();
  if (concat !== undefined) return concat.map(written).join("");
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, written(member)]));
}

function casesOf(file: string): Case[] {
  const path = new URL(`../../shared-fixtures/frames/${file}.json`, import.meta.url);
  return (JSON.parse(readFileSync(path, "utf8")) as { cases: unknown[] }).cases.map((one) => written(one) as Case);
}

const cases = ["accept/write", "accept/read", "reject/read"].flatMap(casesOf);
const only = (command: Case["command"]) => cases.filter((one) => one.command === command);
const bytes = (hex: string) => Buffer.from(hex, "hex");

function readAll(chunks: Uint8Array[], maxBytes?: number): Message[] {
  const reader = new FrameReader(maxBytes);
  return [...chunks.flatMap((chunk) => reader.push(chunk)), ...reader.end()];
}

/** What a case expects: the outcome, or the reason of the refusal. */
function outcome<T>(read: () => T): T | { error: string } {
  try {
    return read();
  } catch (error) {
    if (error instanceof FrameError) return { error: error.reason };
    throw error;
  }
}

describe("the shared cases", () => {
  it("are there, and refusals are more than twice as many", () => {
    const refused = cases.filter((one) => one.expect.error !== undefined).length;
    expect(only("frame").length).toBeGreaterThan(10);
    expect(refused).toBeGreaterThan(2 * (cases.length - refused));
  });

  it.each(only("frame"))("$name", ({ input, expect: { frame } }) => {
    expect(Buffer.from(packFrame(input.message!)).toString("hex") === frame).toBe(true);
    expect(readAll([bytes(frame!)])).toEqual([input.message]);
  });

  it.each(only("unframe"))("$name", ({ input, expect: expected }) => {
    const stream = bytes(input.frames!);
    const read = (chunks: Uint8Array[]) =>
      outcome(() => ({ messages: readAll(chunks, input.max_bytes) })) as Case["expect"];
    // As text, so that a member named __proto__ is compared too.
    expect(JSON.stringify(read([stream]))).toBe(JSON.stringify(expected));
    const places = stream.length < 2000 ? [...stream.keys()] : [1, 3, 4, 5, stream.length - 1];
    for (const at of places)
      expect(JSON.stringify(read([stream.subarray(0, at), stream.subarray(at)]))).toBe(JSON.stringify(expected));
    if (stream.length < 2000)
      expect(JSON.stringify(read([...stream].map((byte) => Uint8Array.of(byte))))).toBe(JSON.stringify(expected));
  });

  it.each(only("unpack"))("$name", ({ input, expect: expected }) => {
    expect(outcome(() => ({ message: unpackMessage(bytes(input.body!)) }))).toEqual(expected);
  });
});

describe("FrameReader", () => {
  it("gives each message with its last byte, before the next begins", () => {
    const reader = new FrameReader();
    const [one, two] = [packFrame({ n: 1 }), packFrame({ n: 2 })];
    expect(reader.push(one.subarray(0, -1))).toEqual([]);
    expect(reader.push(one.subarray(-1))).toEqual([{ n: 1 }]);
    expect(reader.push(Buffer.concat([two, one, two.subarray(0, 5)]))).toEqual([{ n: 2 }, { n: 1 }]);
    expect(reader.push(two.subarray(5))).toEqual([{ n: 2 }]);
    expect(reader.end()).toEqual([]);
  });

  it("reads a large message that comes in many small chunks, each byte once", () => {
    const frame = packFrame({ text: "x".repeat(8 << 20) });
    const chunks = Array.from({ length: Math.ceil(frame.length / 1000) }, (_, i) =>
      frame.subarray(i * 1000, (i + 1) * 1000),
    );
    const [message] = readAll(chunks);
    expect((message!.text as string).length).toBe(8 << 20);
  });

  it("does not keep a chunk that its giver writes over afterwards", () => {
    const frame = packFrame({ text: "mine" });
    const [message] = readAll([frame]);
    frame.fill(0);
    expect(message).toEqual({ text: "mine" });
  });
});
