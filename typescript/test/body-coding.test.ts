import zlib, { brotliCompressSync, constants, createGzip, gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { acceptedCodings, LENGTH_CAP, plainBytes } from "../src/body-coding.js";
import { ProtocolError } from "../src/client.js";
import { MAX_MESSAGE_BYTES, type Message, packFrame } from "../src/messages.js";
import { open } from "./clients.js";
import { type Behaviour, promised, startServer, stateless } from "./mcp-over-http.js";

const { createZstdDecompress, zstdCompressSync } = zlib as typeof zlib & {
  createZstdDecompress?: unknown;
  zstdCompressSync?: (bytes: Uint8Array) => Buffer;
};
const hasZstd = createZstdDecompress !== undefined;
const text = (n: number): Message => ({ content: [{ type: "text", text: "x".repeat(n) }] });

async function plain(body: Uint8Array | null, coding?: string): Promise<string> {
  const response = new Response(body, coding === undefined ? {} : { headers: { "content-encoding": coding } });
  const chunks: Uint8Array[] = [];
  for await (const chunk of plainBytes(response)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** Answers tools/call with a body that the test makes of the frame. */
function coded(coding: string, encode: (frame: Uint8Array) => Uint8Array, result: Message = text(5_000)): Behaviour {
  return stateless(({ message: { id } }, { response }) => {
    response.writeHead(200, { "content-type": "application/x-codec-msgpack", "content-encoding": coding });
    response.end(encode(packFrame({ jsonrpc: "2.0", id, result })));
  });
}

describe("plainBytes", () => {
  const hello = Buffer.from("hello");

  it("gives what is not coded as it is", async () => {
    expect(await plain(hello)).toBe("hello");
    expect(await plain(hello, "identity")).toBe("hello");
    expect(await plain(null)).toBe("");
  });

  it("decodes gzip where fetch did not, and leaves it where fetch did", async () => {
    expect(await plain(gzipSync(hello), "gzip")).toBe("hello");
    expect(await plain(hello, " GZIP ")).toBe("hello");
    expect(await plain(Buffer.of(0x1f), "gzip")).toBe("\x1f");
    expect(await plain(Buffer.alloc(0), "gzip")).toBe("");
  });

  it.runIf(hasZstd)("decodes zstd where fetch did not, and leaves it where fetch did", async () => {
    expect(await plain(zstdCompressSync!(hello), "zstd")).toBe("hello");
    expect(await plain(hello, "zstd")).toBe("hello");
  });

  it.each([
    ["br", brotliCompressSync(hello)],
    ["deflate", hello],
    ["gzip, gzip", hello],
    ["nonsense", hello],
    ["gzip", gzipSync(hello).subarray(0, 15)],
    ["gzip", Buffer.concat([gzipSync(hello).subarray(0, 12), hello])],
  ])("refuses %s that was not offered, or is broken", async (coding, body) => {
    await expect(plain(body, coding)).rejects.toBeInstanceOf(ProtocolError);
  });

  it.runIf(hasZstd)("refuses zstd that is broken", async () => {
    const whole = zstdCompressSync!(Buffer.from("hello ".repeat(1_000)));
    await expect(plain(Buffer.concat([whole.subarray(0, 6), hello, hello]), "zstd")).rejects.toBeInstanceOf(
      ProtocolError,
    );
  });

  it("can be left while the body is still open", async () => {
    const part = gzipSync(hello, { finishFlush: constants.Z_SYNC_FLUSH });
    const body = new ReadableStream({ start: (controller) => controller.enqueue(part) });
    const seen: string[] = [];
    for await (const chunk of plainBytes(new Response(body, { headers: { "content-encoding": "gzip" } }))) {
      seen.push(Buffer.from(chunk).toString());
      break;
    }
    expect(seen).toEqual(["hello"]);
  });

  it.runIf(!hasZstd)("refuses zstd where it cannot be decoded", async () => {
    await expect(plain(hello, "zstd")).rejects.toBeInstanceOf(ProtocolError);
  });

  it("cannot take a frame for a coding: the magics are lengths beyond the cap", () => {
    for (const magic of [gzipSync(hello), Buffer.of(0x28, 0xb5, 0x2f, 0xfd)])
      expect(magic.readUInt32BE(0)).toBeGreaterThan(LENGTH_CAP);
    expect(MAX_MESSAGE_BYTES).toBeLessThanOrEqual(LENGTH_CAP);
  });
});

describe("compressed responses", () => {
  it("are offered in the codings that this Node can undo", async () => {
    const server = await startServer(coded("gzip", gzipSync));
    await open(server.url);
    expect(server.heard[0]!.headers["accept-encoding"]).toBe(hasZstd ? "zstd, gzip" : "gzip");
    expect(acceptedCodings()).toBe(hasZstd ? "zstd, gzip" : "gzip");
  });

  it("come in gzip", async () => {
    const server = await startServer(coded("gzip", gzipSync));
    const client = await open(server.url);
    expect((await client.callTool("echo")).texts[0]).toHaveLength(5_000);
  });

  it.runIf(hasZstd)("come in zstd", async () => {
    const server = await startServer(coded("zstd", zstdCompressSync!));
    const client = await open(server.url);
    expect((await client.callTool("echo")).texts[0]).toHaveLength(5_000);
  });

  it("bring each message as it is flushed", async () => {
    const { promise: released, keep: release } = promised();
    const server = await startServer(
      stateless(async ({ message: { id } }, { response }) => {
        response.writeHead(200, { "content-type": "application/x-codec-msgpack", "content-encoding": "gzip" });
        const gzip = createGzip({ flush: constants.Z_SYNC_FLUSH });
        gzip.pipe(response);
        const params = { progressToken: id, progress: 1 };
        gzip.write(packFrame({ jsonrpc: "2.0", method: "notifications/progress", params }));
        await released;
        gzip.end(packFrame({ jsonrpc: "2.0", id, result: text(1) }));
      }),
    );
    const client = await open(server.url);
    expect((await client.callTool("slow", {}, { onProgress: () => release() })).texts).toEqual(["x"]);
  });

  it("that unpack to more than the budget are not unpacked further", async () => {
    const bomb = gzipSync(Buffer.alloc(64 << 20));
    const server = await startServer(coded("gzip", () => bomb));
    const client = await open(server.url, { maxMessageBytes: 1 << 20, maxResponseBytes: 1 << 20 });
    await expect(client.callTool("echo")).rejects.toBeInstanceOf(ProtocolError);
  });

  it("within the frame's limit are counted as a whole too", async () => {
    const many = (frame: Uint8Array) => {
      const note = packFrame({ jsonrpc: "2.0", method: "notifications/message", params: { data: "x".repeat(900) } });
      return gzipSync(Buffer.concat([...new Array(100).fill(note), frame]));
    };
    const server = await startServer(coded("gzip", many, text(1)));
    const generous = await open(server.url, { maxMessageBytes: 1_000, maxResponseBytes: 200_000 });
    expect((await generous.callTool("echo")).texts).toEqual(["x"]);
    const strict = await open(server.url, { maxMessageBytes: 1_000, maxResponseBytes: 50_000 });
    await expect(strict.callTool("echo")).rejects.toThrow("50000");
  });

  it.each([
    ["no gzip at all", (frame: Uint8Array) => Buffer.concat([Buffer.of(0x1f, 0x8b, 9), frame])],
    ["gzip that is cut off", (frame: Uint8Array) => gzipSync(frame).subarray(0, -12)],
    ["frames behind a false name", () => Buffer.from("hello you")],
  ])("of %s are the server's fault", async (_, encode) => {
    const server = await startServer(coded("gzip", encode));
    const client = await open(server.url);
    await expect(client.callTool("echo")).rejects.toMatchObject({ fault: "server" });
  });
});
