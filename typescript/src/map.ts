/**
 * Loads a map from the package, a file or a URL, verifies its digest, and returns its tokenizer (spec 5.3). Fetched maps
 * are cached in memory and on disk; there is one load per digest, however many callers wait for it.
 */

import { randomUUID } from "node:crypto";
import { createReadStream, existsSync, readFileSync } from "node:fs";
import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { pipeline } from "node:stream";
import { fileURLToPath } from "node:url";
import { createGunzip, gunzipSync } from "node:zlib";
import { MapDigestError, MapUnreachableError } from "./errors.js";
import { parseDigest } from "./leaf.js";
import { readMapDocument } from "./map-document.js";
import { MODEL_PREFIX, Models, type ModelsDocument } from "./models.js";
import {
  digestOf,
  type LoadedTokenizer,
  MAX_MAP_BYTES,
  makeMetaTokenizerFromBytes,
  makeTokenizer,
} from "./tokenizer.js";

export interface BundledMap {
  id: string;
  path: string;
  sha256: string;
  bytes: number;
}

let bundled: readonly BundledMap[] | undefined;
let models: Models | undefined;

export function bundledMaps(): readonly BundledMap[] {
  bundled ??= readIndex();
  return bundled;
}

/** The table of models (spec 5.12). */
export function knownModels(): Models {
  models ??= new Models(readBeside<ModelsDocument>("models.json")?.document ?? { maps: {}, families: [] });
  return models;
}

/** A bundled map by its id, by the part after the slash if only one map has it, or by `model:` and a model's name. */
export function findBundledMap(id: string): BundledMap | undefined {
  if (id.startsWith(MODEL_PREFIX)) return findMapOfModel(id);
  const exact = bundledMaps().find((map) => map.id === id);
  if (exact !== undefined) return exact;
  const ending = bundledMaps().filter((map) => map.id.endsWith(`/${id}`));
  return ending.length === 1 && !id.includes("/") ? ending[0] : undefined;
}

/** Throws MapUnreachableError if the model has no map, or if its map is not bundled. */
function findMapOfModel(model: string): BundledMap {
  const id = knownModels().mapOf(model);
  const map = findBundledMap(id);
  if (map !== undefined) return map;
  const steps = knownModels().buildSteps(id, "npx mcp-leaf").join("; ");
  throw new MapUnreachableError(`${model}: its map ${id} is not in this package; to build it: ${steps}`);
}

function readIndex(): BundledMap[] {
  const index = readBeside<{ maps: Array<BundledMap & { file: string }> }>("index.json");
  if (index === undefined) return [];
  const pathOf = (file: string) => fileURLToPath(new URL(file, index.url));
  return index.document.maps.map(({ id, file, sha256, bytes }) => ({ id, path: pathOf(file), sha256, bytes }));
}

/** A JSON file of the folder of maps: that of the package, or that of the repository. */
export function readBeside<T>(file: string): { url: URL; document: T } | undefined {
  const url = ["../maps/", "../../maps/", "../../../maps/"]
    .map((folder) => new URL(`${folder}${file}`, import.meta.url))
    .find((place) => existsSync(place));
  if (url === undefined) return undefined;
  const raw = readFileSync(url);
  const json = file.endsWith(".gz") ? gunzipSync(raw) : raw;
  return { url, document: JSON.parse(json.toString()) as T };
}

/** A store of verified maps between processes. */
export interface MapCache {
  get(digest: string): Promise<Uint8Array | undefined>;
  set(digest: string, bytes: Uint8Array): Promise<void>;
}

/** A folder with one file per map, named by its digest. Entries larger than `maxBytes` are not read. */
export function diskCache(folder: string, maxBytes: number): MapCache {
  const fileOf = (digest: string) => join(folder, `${digest.slice("sha256:".length)}.json`);
  return {
    async get(digest) {
      try {
        const file = fileOf(digest);
        return (await stat(file)).size > maxBytes ? undefined : await readFile(file);
      } catch {
        return undefined;
      }
    },
    async set(digest, bytes) {
      const temporary = join(folder, `.${randomUUID()}.tmp`);
      try {
        await mkdir(folder, { recursive: true });
        await writeFile(temporary, bytes);
        // Readers see the old file or the whole new one, never a part of it.
        await rename(temporary, fileOf(digest));
      } catch {
        await rm(temporary, { force: true }).catch(() => {});
      }
    },
  };
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The folder that platformdirs gives the Python package: `user_cache_path("leafgate", appauthor=False) / "maps"`. */
export function defaultCacheFolder(env: Environment = process.env, platform: string = process.platform): string {
  if (platform === "win32")
    return join(env.LOCALAPPDATA || join(homedir(), "AppData", "Local"), "leafgate", "Cache", "maps");
  // The XDG specification says to ignore a relative path.
  const xdg = isAbsolute(env.XDG_CACHE_HOME ?? "") ? env.XDG_CACHE_HOME : undefined;
  return join(xdg ?? join(homedir(), platform === "darwin" ? "Library/Caches" : ".cache"), "leafgate", "maps");
}

export interface SourceLimits {
  maxBytes: number;
  timeoutMs: number;
  fetchImpl: typeof fetch;
  signal: AbortSignal;
}

const MAX_REDIRECTS = 5;

/** Reads the bytes of a map, and unpacks a file `.gz`. Everything without `scheme://` that is not a `file:` URL is a path. */
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
  const path = /^file:/i.test(source) ? fileURLToPath(source) : source;
  const file = createReadStream(path, { signal });
  return path.endsWith(".gz") ? pipeline(file, createGunzip(), () => {}) : file;
}

/** Follows redirects here, because the same rule applies to each address. */
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
  throw new MapUnreachableError(`${source}: only https is allowed, or http to this machine`);
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

const TIMEOUT_MS = 10_000;

export interface MetaTokenizerOptions {
  /** The id of a bundled map such as `qwen/qwen2`, `model:` and a model's name, an https URL, a file URL, or a path. */
  mapUrl: string;
  /** The digest of the bytes of the map. Optional for a bundled map only. */
  mapHash?: string | undefined;
  /** The store of fetched maps, or false for none, not even in memory. */
  cache?: MapCache | false | undefined;
  /** The folder of the disk cache, if there is no `cache`. */
  cacheDir?: string | undefined;
  fetchImpl?: typeof fetch | undefined;
  signal?: AbortSignal | undefined;
  maxBytes?: number | undefined;
  timeoutMs?: number | undefined;
}

interface Load {
  waiting: number;
  readonly stop: AbortController;
  readonly tokenizer: Promise<LoadedTokenizer>;
}

const loads = new Map<string, Load>();

/** Loads and verifies a map, and returns its tokenizer. */
export async function makeMetaTokenizer(options: MetaTokenizerOptions): Promise<LoadedTokenizer> {
  const bundled = isRemote(options.mapUrl) ? undefined : findBundledMap(options.mapUrl);
  const digest = await expectedDigest(options, bundled);
  const { signal } = options;
  signal?.throwIfAborted();
  const load = startOrJoin(digest, bundled, options);
  load.waiting++;
  try {
    return await unlessAborted(load.tokenizer, signal);
  } finally {
    load.waiting--;
    // The load is shared: it is cancelled when its last caller has gone.
    if (load.waiting === 0 && signal?.aborted) cancelLoad(digest, load, signal.reason);
  }
}

async function expectedDigest(
  { mapUrl, mapHash, maxBytes = MAX_MAP_BYTES, timeoutMs = TIMEOUT_MS }: MetaTokenizerOptions,
  bundled: BundledMap | undefined,
) {
  if (mapHash !== undefined) return parseDigest(mapHash);
  if (bundled !== undefined) return bundled.sha256;
  if (isRemote(mapUrl))
    throw new MapDigestError(`mapHash is missing: the sha256 of ${mapUrl}; only bundled maps need none`);
  const path = /^file:/i.test(mapUrl) ? fileURLToPath(mapUrl) : mapUrl;
  if (!existsSync(path)) throw noSuchMap(mapUrl);
  const bytes = await readSource(path, { maxBytes, timeoutMs, fetchImpl: fetch, signal: new AbortController().signal });
  readMapDocument(bytes, mapUrl); // what is not a map is refused as such
  throw new MapDigestError(`mapHash is missing; that of ${mapUrl} is ${await digestOf(bytes)}`);
}

/** The error for a name that is neither a bundled map nor a file, with what was probably meant. */
export function noSuchMap(name: string): MapUnreachableError {
  const ids = bundledMaps().map(({ id }) => id);
  const hint = knownModels().hint(name, ids);
  return new MapUnreachableError(
    `no map '${name}'${hint} Known maps: ${ids.join(", ")}; a path to a map file works too`,
  );
}

function startOrJoin(digest: string, bundled: BundledMap | undefined, options: MetaTokenizerOptions): Load {
  const current = options.cache === false ? undefined : loads.get(digest);
  if (current !== undefined) return current;
  const stop = new AbortController();
  const tokenizer = loadMap(digest, bundled, options, stop.signal);
  const load: Load = { waiting: 0, stop, tokenizer };
  if (options.cache !== false) {
    loads.set(digest, load);
    // A failure is not remembered: the next call tries again.
    tokenizer.catch(() => forget(digest, load));
  }
  return load;
}

function cancelLoad(digest: string, load: Load, reason: unknown): void {
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
  const cached = await cache?.get(digest);
  if (cached !== undefined && cached.length <= maxBytes && (await digestOf(cached)) === digest) {
    return makeTokenizer(cached, digest, mapUrl);
  }
  const bytes = await readSource(bundled?.path ?? mapUrl, { maxBytes, timeoutMs, fetchImpl, signal });
  const tokenizer = await makeMetaTokenizerFromBytes(bytes, { hash: digest, name: mapUrl });
  await cache?.set(digest, bytes);
  return tokenizer;
}

/** The cache for fetched maps. Local files are not cached. */
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
