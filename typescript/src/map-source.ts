/**
 * In: where a map is: an https or file URL, or a path. Out: its raw bytes, or MapUnreachableError.
 * Touches: the network and files. Size is limited while the bytes come in, not afterwards.
 */
import { createReadStream } from "node:fs";
import { fileURLToPath } from "node:url";
import { MapUnreachableError } from "./errors.js";

export interface SourceLimits {
  maxBytes: number;
  timeoutMs: number;
  fetchImpl: typeof fetch;
  signal: AbortSignal;
}

const MAX_REDIRECTS = 5;

/** Reads a map's bytes. A plain path is anything that has no `scheme://` and is no `file:` URL. */
export async function readSource(source: string, limits: SourceLimits): Promise<Uint8Array> {
  const clock = AbortSignal.timeout(limits.timeoutMs);
  const signal = AbortSignal.any([limits.signal, clock]);
  try {
    return await collect(await open(source, limits, signal), limits.maxBytes, source);
  } catch (error) {
    if (error instanceof MapUnreachableError) throw error;
    if (limits.signal.aborted) throw limits.signal.reason;
    if (clock.aborted) throw new MapUnreachableError(`${source}: took longer than ${limits.timeoutMs} ms`);
    throw new MapUnreachableError(`${source}: ${reasonOf(error)}`, { cause: error });
  }
}

export function isRemote(source: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(source) && !/^file:/i.test(source);
}

async function open(source: string, limits: SourceLimits, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
  if (isRemote(source)) return openRemote(source, limits, signal);
  return createReadStream(/^file:/i.test(source) ? fileURLToPath(source) : source, { signal });
}

/** Follows redirects by hand, for each hop must keep the rule that the first address kept. */
async function openRemote(source: string, limits: SourceLimits, signal: AbortSignal) {
  let url = new URL(source);
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    refuseUnsafe(url, source);
    const response = await limits.fetchImpl(url, { signal, redirect: "manual" });
    const location = response.status >= 300 && response.status < 400 ? response.headers.get("location") : null;
    if (location === null) return bodyOf(response, source, limits.maxBytes);
    await response.body?.cancel();
    const target = new URL(location, url);
    if (url.protocol === "https:" && target.protocol !== "https:")
      throw new MapUnreachableError(`${source}: redirected from https to ${target.protocol}//`);
    url = target;
  }
  throw new MapUnreachableError(`${source}: more than ${MAX_REDIRECTS} redirects`);
}

function refuseUnsafe(url: URL, source: string): void {
  const loopback = ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname);
  if (url.protocol === "https:" || (url.protocol === "http:" && loopback)) return;
  throw new MapUnreachableError(`${source}: only https is allowed, and http to this machine itself`);
}

async function bodyOf(response: Response, source: string, maxBytes: number): Promise<AsyncIterable<Uint8Array>> {
  const announced = Number(response.headers.get("content-length") ?? 0);
  const problem =
    response.status !== 200 ? `status ${response.status}` : announced > maxBytes ? tooLarge(maxBytes) : null;
  if (problem === null && response.body !== null) return response.body as unknown as AsyncIterable<Uint8Array>;
  await response.body?.cancel();
  throw new MapUnreachableError(`${source}: ${problem ?? "no body"}`);
}

async function collect(chunks: AsyncIterable<Uint8Array>, maxBytes: number, source: string): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.length;
    // Leaving the loop ends the stream behind it.
    if (length > maxBytes) throw new MapUnreachableError(`${source}: ${tooLarge(maxBytes)}`);
    parts.push(chunk);
  }
  return Buffer.concat(parts, length);
}

function tooLarge(maxBytes: number): string {
  return `larger than the limit of ${maxBytes} bytes`;
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message;
}
