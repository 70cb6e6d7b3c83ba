/**
 * Content codings of response bodies: which ones to offer in Accept-Encoding, and how to undo them chunk by chunk.
 * Some implementations of fetch decode gzip or zstd themselves and some do not, with the same header: so the first bytes
 * decide. No JSON and no event begins with either magic number, and read as the length of a frame it is above the limit.
 */
import { Readable, type Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import zlib from "node:zlib";
import { ProtocolError } from "./client-errors.js";

/** The longest frame that cannot look like a coding: the smaller of the two magic numbers, read as a length, is larger. */
export const LENGTH_CAP = 0x1f8b0000 - 1;

const MAGIC_BYTES = 4;
/** A window of 8 MiB (spec 6.4.4). A larger one would need more memory. */
const MAX_WINDOW_LOG = 23;
const CODINGS = codings(zlib);

/** Zstandard is unknown to the types of Node 20. */
type WithZstd = typeof zlib & {
  createZstdDecompress?: (options: { params: Record<number, number> }) => Transform;
  constants: { ZSTD_d_windowLogMax?: number };
};

interface Coding {
  name: string;
  magic: readonly number[];
  open: () => Transform;
}

/** The codings that this Node can undo. Zstandard exists since Node 22.15. */
function codings(library: WithZstd): readonly Coding[] {
  const gzip = { name: "gzip", magic: [0x1f, 0x8b], open: () => library.createGunzip() };
  const { createZstdDecompress, constants } = library;
  if (createZstdDecompress === undefined) return [gzip];
  const params = { [constants.ZSTD_d_windowLogMax!]: MAX_WINDOW_LOG };
  return [{ name: "zstd", magic: [0x28, 0xb5, 0x2f, 0xfd], open: () => createZstdDecompress({ params }) }, gzip];
}

export function acceptedCodings(): string {
  return CODINGS.map((coding) => coding.name).join(", ");
}

/** The plain bytes of a response. Throws ProtocolError for a coding that was not offered, or that is broken. */
export async function* plainBytes(response: Response): AsyncGenerator<Uint8Array> {
  if (response.body === null) return;
  const name = response.headers.get("content-encoding")?.trim().toLowerCase() || "identity";
  const coding = CODINGS.find((each) => each.name === name);
  const raw = response.body as unknown as AsyncIterable<Uint8Array>;
  if (coding !== undefined) yield* decoded(raw, coding);
  else if (name === "identity") yield* raw;
  else {
    await response.body.cancel();
    throw new ProtocolError(`the server used the coding ${JSON.stringify(name.slice(0, 40))}, which was not offered`);
  }
}

async function* decoded(raw: AsyncIterable<Uint8Array>, coding: Coding): AsyncGenerator<Uint8Array> {
  const source = raw[Symbol.asyncIterator]();
  const start = await opening(source);
  const all = joined(start, source);
  if (coding.magic.every((byte, index) => start[index] === byte)) yield* undone(all, coding);
  else yield* all;
}

async function opening(source: AsyncIterator<Uint8Array>): Promise<Uint8Array> {
  let start: Uint8Array = new Uint8Array(0);
  while (start.length < MAGIC_BYTES) {
    const next = await source.next();
    if (next.done) break;
    start = Buffer.concat([start, next.value]);
  }
  return start;
}

async function* joined(start: Uint8Array, source: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield start;
    for (let next = await source.next(); !next.done; next = await source.next()) yield next.value;
  } finally {
    await source.return?.();
  }
}

async function* undone(chunks: AsyncIterable<Uint8Array>, coding: Coding): AsyncGenerator<Uint8Array> {
  const decoder = coding.open();
  // A failure also reaches the decoder and is handled below. Its end is not awaited: it may never come.
  pipeline(Readable.from(chunks), decoder).catch(() => {});
  try {
    yield* decoder as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw isBroken(error) ? new ProtocolError(`the body is not ${coding.name}`, { cause: error }) : error;
  } finally {
    decoder.destroy();
  }
}

/** Whether the bytes are at fault, not the connection: the codes of zlib, also inside an error of fetch. */
export function isBroken(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  return (typeof code === "string" && /^(Z_|ZSTD_)/.test(code)) || isBroken(error.cause);
}
