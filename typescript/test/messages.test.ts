import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { FrameError, ProtocolError } from "../src/client-errors.js";
import { EventReader, FrameReader, type Message, packFrame, unpackMessage } from "../src/messages.js";

function readEvents(chunks: Array<string | Uint8Array>, limit = 1000): Message[] {
  const reader = new EventReader(limit);
  return [...chunks.flatMap((chunk) => reader.push(Buffer.from(chunk as string))), ...reader.end()];
}

const one = 'data: {"n":1}';

describe("EventReader", () => {
  it.each([
    ["line feeds", `${one}\n\n`],
    ["carriage returns", `${one}\r\r`],
    ["both", `${one}\r\n\r\n`],
    ["a mix of them", `id: 7\r${one}\n\r\n`],
    ["no blank behind the colon", 'data:{"n":1}\n\n'],
    ["a named event", `event: message\n${one}\n\n`],
    ["comments and other fields", `: ping\n\nretry: 5\nid\n${one}\nx: y\n\n`],
    ["two lines of data", 'data: {"n":\ndata: 1}\n\n'],
    ["a byte order mark", `\ufeff${one}\n\n`],
    ["an opening event without data", `id: 1\ndata: \n\n${one}\n\n`],
    ["an event of another type", `event: other\ndata: {\n\n${one}\n\n`],
    ["an event that the end cuts off", `${one}\n\ndata: {"n":2}\n`],
  ])("reads %s, wherever the chunks end", (_, stream) => {
    const bytes = Buffer.from(stream);
    for (let at = 0; at <= bytes.length; at++)
      expect(readEvents([bytes.subarray(0, at), bytes.subarray(at)])).toEqual([{ n: 1 }]);
    expect(readEvents([...bytes].map((byte) => Uint8Array.of(byte)))).toEqual([{ n: 1 }]);
  });

  it("reads characters that lie across two chunks", () => {
    const bytes = Buffer.from('data: {"t":"é的😀"}\n\n');
    for (let at = 0; at <= bytes.length; at++)
      expect(readEvents([bytes.subarray(0, at), bytes.subarray(at)])).toEqual([{ t: "é的😀" }]);
  });

  it("gives each message with its blank line", () => {
    const reader = new EventReader(1000);
    expect(reader.push(Buffer.from(`${one}\n`))).toEqual([]);
    expect(reader.push(Buffer.from(`\n${one}\n\n${one}`))).toEqual([{ n: 1 }, { n: 1 }]);
  });

  it.each(["data: {\n\n", "data: []\n\n", "data: null\n\n", 'data: "x"\n\n', "data: {}{}\n\n"])(
    "refuses %j",
    (stream) => {
      expect(() => readEvents([stream])).toThrow(ProtocolError);
    },
  );

  it("refuses what is no UTF-8", () => {
    expect(() => readEvents([Buffer.from('data: {"t":"\xff"}\n\n', "latin1")])).toThrow(ProtocolError);
  });

  it.each([
    ["a line without end", ["x".repeat(600), "x".repeat(600)]],
    ["data without end", new Array(10).fill(`data: ${"x".repeat(200)}\n`)],
    ["fields without end", new Array(10).fill(`x: ${"x".repeat(200)}\n`)],
  ])("refuses %s before it ends", (_, chunks) => {
    expect(() => readEvents(chunks)).toThrow("1000");
  });

  it("counts each event by itself", () => {
    expect(readEvents(new Array(500).fill(`${one}\n\n`), 20)).toHaveLength(500);
  });

  it("reads one long line in many chunks, each character once", () => {
    const line = `data: {"t":"${"x".repeat(8 << 20)}"}\n\n`;
    const chunks = Array.from({ length: Math.ceil(line.length / 1000) }, (_, i) =>
      line.slice(i * 1000, (i + 1) * 1000),
    );
    expect((readEvents(chunks, 16 << 20)[0]!.t as string).length).toBe(8 << 20);
  });
});

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

function readFrames(chunks: Uint8Array[], maxBytes?: number): Message[] {
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
    expect(readFrames([bytes(frame!)])).toEqual([input.message]);
  });

  it.each(only("unframe"))("$name", ({ input, expect: expected }) => {
    const stream = bytes(input.frames!);
    const read = (chunks: Uint8Array[]) =>
      outcome(() => ({ messages: readFrames(chunks, input.max_bytes) })) as Case["expect"];
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
    const [message] = readFrames(chunks);
    expect((message!.text as string).length).toBe(8 << 20);
  });

  it("does not keep a chunk that its giver writes over afterwards", () => {
    const frame = packFrame({ text: "mine" });
    const [message] = readFrames([frame]);
    frame.fill(0);
    expect(message).toEqual({ text: "mine" });
  });
});
