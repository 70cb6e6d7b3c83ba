/**
 * The options of `connect`, and the complete and checked settings made from them.
 */

import { LENGTH_CAP } from "./body-coding.js";
import { RequestError } from "./client-errors.js";
import type { Patience } from "./connection.js";
import type { Endpoint } from "./exchange.js";
import { isDigest, type Level, type MetaTokenizer, parseDigest } from "./leaf.js";
import { MAX_MESSAGE_BYTES } from "./messages.js";
import type { ClientInfo } from "./protocol.js";
import type { Reading } from "./tool-answer.js";

export const CLIENT_VERSION = "0.6.0";

const FORMS = ["both", "ids", "text"] as const;
const LEVELS: readonly Level[] = ["decode", "canonical"];
const ERAS = ["auto", "stateless", "handshake"] as const;
const LOOPBACK: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];
const MAX_TIMER_MS = 2 ** 31 - 1;

export type Form = (typeof FORMS)[number];
export type Token = string | (() => string | Promise<string>);

export interface ConnectOptions {
  /** The MCP endpoint, such as `http://127.0.0.1:8765/mcp`. */
  url: string | URL;
  /** The digest of the map for ids. Without it the default of the server applies, if it has one. */
  mapId?: string | undefined;
  /** `both` text and ids (the server's default), `ids` alone, or `text` alone. */
  form?: Form | undefined;
  /** True to get ids packed, which is faster to write and to read; the answer has numbers all the same. */
  packed?: boolean | undefined;
  /** A tokenizer: with it ids are verified, and decoded where the text is left out. */
  tokenizer?: MetaTokenizer | undefined;
  /** How ids are verified; `canonical` by default. */
  level?: Level | undefined;
  /** A bearer token, or a function that returns it before each request. */
  token?: Token | undefined;
  fetch?: typeof fetch | undefined;
  /** False to use JSON even if the server offers frames. */
  frames?: boolean | undefined;
  /** `stateless` is 2026-07-28, `handshake` all versions before it; `auto`, the default, tries them in this order. */
  era?: (typeof ERAS)[number] | undefined;
  clientInfo?: ClientInfo | undefined;
  signal?: AbortSignal | undefined;
  /** The longest silence within a request (5 min, as long as fetch waits), and the longest request (30 min). */
  timeoutMs?: number | undefined;
  totalTimeoutMs?: number | undefined;
  /** The largest message (64 MiB) and the largest response (256 MiB), in bytes after decompression. */
  maxMessageBytes?: number | undefined;
  maxResponseBytes?: number | undefined;
}

export interface Settings {
  endpoint: Endpoint;
  patience: Patience;
  reading: Reading;
  clientInfo: ClientInfo;
  era: (typeof ERAS)[number];
  token: Token | null;
  headers: Record<string, string>;
  /** Added to the `_meta` of each request. */
  acceptMeta: Record<string, unknown>;
}

export function settingsOf(options: ConnectOptions): Settings {
  const { form, tokenizer = null, level = "canonical", token = null, era = "auto", frames = true } = options;
  const url = endpointUrl(options.url, token !== null);
  const mapId = mapOf(options.mapId, tokenizer);
  if (form !== undefined && !FORMS.includes(form)) throw new RequestError(`form is one of ${FORMS.join(", ")}`);
  if (!LEVELS.includes(level)) throw new RequestError(`level is one of ${LEVELS.join(", ")}`);
  if (!ERAS.includes(era)) throw new RequestError(`era is one of ${ERAS.join(", ")}`);
  const accept = {
    ...(mapId === null ? {} : { map_id: mapId }),
    ...(form === undefined ? {} : { form }),
    ...(options.packed === true ? { packed: true } : {}),
  };
  return {
    endpoint: {
      url,
      fetch: options.fetch ?? fetch,
      acceptsFrames: frames,
      maxMessageBytes: atMost(LENGTH_CAP, options.maxMessageBytes ?? MAX_MESSAGE_BYTES, "maxMessageBytes"),
      maxResponseBytes: atMost(Number.MAX_SAFE_INTEGER, options.maxResponseBytes ?? 256 << 20, "maxResponseBytes"),
    },
    patience: {
      timeoutMs: atMost(MAX_TIMER_MS, options.timeoutMs ?? 300_000, "timeoutMs"),
      totalTimeoutMs: atMost(MAX_TIMER_MS, options.totalTimeoutMs ?? 1_800_000, "totalTimeoutMs"),
    },
    reading: { mapId, tokenizer, level },
    clientInfo: options.clientInfo ?? { name: "@codecai/mcp-leaf", version: CLIENT_VERSION },
    era,
    token,
    headers: {
      "codec-client-version": CLIENT_VERSION.split(".").slice(0, 2).join("."),
      ...(mapId === null || form === "text" ? {} : { "x-codec-map": mapId }),
    },
    acceptMeta: {
      "leafgate/accept": { envelope: "full" },
      ...(Object.keys(accept).length === 0 ? {} : { "ai.codec/accept": accept }),
    },
  };
}

/** A token is not sent over plain http, except to this machine. */
function endpointUrl(address: string | URL, withToken: boolean): URL {
  if (!URL.canParse(String(address))) throw new RequestError("url is not a URL");
  const url = new URL(address);
  if (url.protocol !== "https:" && url.protocol !== "http:") throw new RequestError("url must be http or https");
  if (url.username !== "" || url.password !== "")
    throw new RequestError("the url must not contain a password: use token");
  if (withToken && url.protocol === "http:" && !LOOPBACK.includes(url.hostname))
    throw new RequestError("a token is sent over https only, except to this machine");
  return url;
}

function mapOf(mapId: string | undefined, tokenizer: MetaTokenizer | null): string | null {
  if (mapId === undefined) return tokenizer?.mapId ?? null;
  if (!isDigest(mapId)) throw new RequestError("mapId must be a digest, sha256: and 64 hex digits");
  const digest = parseDigest(mapId);
  if (tokenizer !== null && tokenizer.mapId !== digest) throw new RequestError("tokenizer has another map than mapId");
  return digest;
}

function atMost(limit: number, value: number, name: string): number {
  if (Number.isInteger(value) && value > 0 && value <= limit) return value;
  throw new RequestError(`${name} is a whole number from 1 to ${limit}`);
}
