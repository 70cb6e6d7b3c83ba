/**
 * In: where a map is and which digest it must have. Out: its tokenizer, verified (spec 5.3).
 * Touches: memory, the disk cache and the map's source, in this order. One load per digest, however many ask.
 */
import { type BundledMap, findBundledMap } from "./bundled-maps.js";
import { MapDigestError, MapHashMismatchError } from "./errors.js";
import { digestOf, type MetaTokenizer, parseDigest } from "./leaf.js";
import { defaultCacheFolder, diskCache, type MapCache } from "./map-cache.js";
import { isRemote, readSource } from "./map-source.js";
import { type MapFacts, makeTokenizer } from "./tokenizer.js";

export const MAX_MAP_BYTES = 64 * 1024 * 1024;
const TIMEOUT_MS = 10_000;

export interface MetaTokenizerOptions {
  /** An https URL, a file URL, a path, or the id of a bundled map such as `qwen/qwen2`. */
  mapUrl: string;
  /** The digest of the map's bytes. Only a bundled map may do without: its digest is known. */
  mapHash?: string | undefined;
  /** Where fetched maps are kept: a store of your own, or false for none, not even in memory. */
  cache?: MapCache | false | undefined;
  /** The folder of the disk cache, where `cache` names no store. */
  cacheDir?: string | undefined;
  fetchImpl?: typeof fetch | undefined;
  signal?: AbortSignal | undefined;
  maxBytes?: number | undefined;
  timeoutMs?: number | undefined;
}

export type LoadedTokenizer = MetaTokenizer & { readonly map: MapFacts };

interface Load {
  waiting: number;
  readonly stop: AbortController;
  readonly tokenizer: Promise<LoadedTokenizer>;
}

const loads = new Map<string, Load>();

/** Loads and verifies a map, and gives the tokenizer that is bound to it. */
export async function makeMetaTokenizer(options: MetaTokenizerOptions): Promise<LoadedTokenizer> {
  const bundled = isRemote(options.mapUrl) ? undefined : findBundledMap(options.mapUrl);
  const digest = expectedDigest(options.mapHash, bundled);
  const { signal } = options;
  signal?.throwIfAborted();
  const load = startOrJoin(digest, bundled, options);
  load.waiting++;
  try {
    return await unlessAborted(load.tokenizer, signal);
  } finally {
    load.waiting--;
    // The load belongs to all who wait for it: it is given up when the last of them has gone.
    if (load.waiting === 0 && signal?.aborted) giveUp(digest, load, signal.reason);
  }
}

function expectedDigest(mapHash: string | undefined, bundled: BundledMap | undefined): string {
  if (mapHash !== undefined) return parseDigest(mapHash);
  if (bundled === undefined) throw new MapDigestError("mapHash is missing; only a bundled map may do without");
  return bundled.sha256;
}

function startOrJoin(digest: string, bundled: BundledMap | undefined, options: MetaTokenizerOptions): Load {
  const known = options.cache === false ? undefined : loads.get(digest);
  if (known !== undefined) return known;
  const stop = new AbortController();
  const tokenizer = loadMap(digest, bundled, options, stop.signal);
  const load: Load = { waiting: 0, stop, tokenizer };
  if (options.cache !== false) {
    loads.set(digest, load);
    // A failure is told to those who waited, and not remembered: the next one may have better luck.
    tokenizer.catch(() => forget(digest, load));
  }
  return load;
}

function giveUp(digest: string, load: Load, reason: unknown): void {
  forget(digest, load);
  load.stop.abort(reason);
}

function forget(digest: string, load: Load): void {
  if (loads.get(digest) === load) loads.delete(digest);
}

async function loadMap(
  digest: string,
  bundled: BundledMap | undefined,
  options: MetaTokenizerOptions,
  signal: AbortSignal,
): Promise<LoadedTokenizer> {
  const { mapUrl, maxBytes = MAX_MAP_BYTES, timeoutMs = TIMEOUT_MS, fetchImpl = fetch } = options;
  const cache = isRemote(mapUrl) ? chosenCache(options, maxBytes) : undefined;
  const kept = await cache?.get(digest);
  if (kept !== undefined && kept.length <= maxBytes && digestOf(kept) === digest) {
    return makeTokenizer(kept, digest, mapUrl);
  }
  const bytes = await readSource(bundled?.path ?? mapUrl, { maxBytes, timeoutMs, fetchImpl, signal });
  const found = digestOf(bytes);
  if (found !== digest) throw new MapHashMismatchError(mapUrl, digest, found);
  const tokenizer = makeTokenizer(bytes, digest, mapUrl);
  await cache?.set(digest, bytes);
  return tokenizer;
}

/** Only fetched maps are worth keeping: a local file is as near as its copy would be. */
function chosenCache({ cache, cacheDir }: MetaTokenizerOptions, maxBytes: number): MapCache | undefined {
  if (cache === false) return undefined;
  return cache ?? diskCache(cacheDir ?? defaultCacheFolder(), maxBytes);
}

function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
