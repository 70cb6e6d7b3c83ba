import { describe, expect, it } from "vitest";
import { ProtocolError } from "../src/client-errors.js";
import { EventReader } from "../src/event-stream.js";
import type { Message } from "../src/message-reader.js";

function readAll(chunks: Array<string | Uint8Array>, limit = 1000): Message[] {
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
      expect(readAll([bytes.subarray(0, at), bytes.subarray(at)])).toEqual([{ n: 1 }]);
    expect(readAll([...bytes].map((byte) => Uint8Array.of(byte)))).toEqual([{ n: 1 }]);
  });

  it("reads characters that lie across two chunks", () => {
    const bytes = Buffer.from('data: {"t":"é的😀"}\n\n');
    for (let at = 0; at <= bytes.length; at++)
      expect(readAll([bytes.subarray(0, at), bytes.subarray(at)])).toEqual([{ t: "é的😀" }]);
  });

  it("gives each message with its blank line", () => {
    const reader = new EventReader(1000);
    expect(reader.push(Buffer.from(`${one}\n`))).toEqual([]);
    expect(reader.push(Buffer.from(`\n${one}\n\n${one}`))).toEqual([{ n: 1 }, { n: 1 }]);
  });

  it.each(["data: {\n\n", "data: []\n\n", "data: null\n\n", 'data: "x"\n\n', "data: {}{}\n\n"])(
    "refuses %j",
    (stream) => {
      expect(() => readAll([stream])).toThrow(ProtocolError);
    },
  );

  it("refuses what is no UTF-8", () => {
    expect(() => readAll([Buffer.from('data: {"t":"\xff"}\n\n', "latin1")])).toThrow(ProtocolError);
  });

  it.each([
    ["a line without end", ["x".repeat(600), "x".repeat(600)]],
    ["data without end", new Array(10).fill(`data: ${"x".repeat(200)}\n`)],
    ["fields without end", new Array(10).fill(`x: ${"x".repeat(200)}\n`)],
  ])("refuses %s before it ends", (_, chunks) => {
    expect(() => readAll(chunks)).toThrow("1000");
  });

  it("counts each event by itself", () => {
    expect(readAll(new Array(500).fill(`${one}\n\n`), 20)).toHaveLength(500);
  });

  it("reads one long line in many chunks, each character once", () => {
    const line = `data: {"t":"${"x".repeat(8 << 20)}"}\n\n`;
    const chunks = Array.from({ length: Math.ceil(line.length / 1000) }, (_, i) =>
      line.slice(i * 1000, (i + 1) * 1000),
    );
    expect((readAll(chunks, 16 << 20)[0]!.t as string).length).toBe(8 << 20);
  });
});
