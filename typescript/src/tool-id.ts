/**
 * Ids of tools, resources and prompts, made from foreign names, schemas and URIs (spec 1). Throws CatalogError. No id
 * made here weighs more than 47, apart from the tag of its kind, so that every card fits its budget.
 */
import { createHash } from "node:crypto";
import { isRecord } from "./leaf.js";

// Two neighbours of the first class always merge into one token of cl100k_base; of the others that is not certain.
const RUNS = /([abcdehiklmnoprstuwy]+)|([0-9]+)|./gsu;

export function idWeight(text: string): number {
  let weight = 0;
  for (const run of text.matchAll(RUNS)) weight += runWeight(run);
  return weight;
}

/** The longest beginning that weighs at most `room`. */
export function cutToWeight(text: string, room: number): string {
  let left = room;
  for (const run of text.matchAll(RUNS)) {
    const weight = runWeight(run);
    if (weight > left) return text.slice(0, run.index + fitting(run, left));
    left -= weight;
  }
  return text;
}

function runWeight([run, letters, digits]: RegExpMatchArray): number {
  if (letters !== undefined) return Math.floor((2 * run.length + 1) / 3);
  return digits === undefined ? 1 : Math.ceil(run.length / 3);
}

/** How many characters of a run too heavy for `room` it has room for: the inverse of the weight. */
function fitting([, letters, digits]: RegExpMatchArray, room: number): number {
  if (letters !== undefined) return Math.floor((3 * room + 1) / 2);
  return digits === undefined ? 0 : 3 * room;
}

export type PrimitiveKind = "tool" | "resource" | "prompt";

/** The fields of an id; null where it has none. */
export interface ToolIdParts {
  namespace: string;
  name: string;
  version: string | null;
  hash8: string | null;
}

export interface ToolIdOptions {
  /** The name of the server; null, absent or empty if there is none. */
  server?: string | null | undefined;
  /** What `_meta.version` holds. A value that cannot stand in an id counts as not declared. */
  version?: unknown;
}

/** A text that is not an id, or a name that cannot become an id. */
export class CatalogError extends Error {
  override name = "CatalogError";
  constructor(
    readonly reason: "not-a-tool-id" | "no-usable-name",
    message: string,
  ) {
    super(message);
  }
}

const DEFAULT_NAMESPACE = "mcp";

// Namespace, name and version share the weight of an id with the separators and the hash (spec 1.6).
const MAX_ID_WEIGHT = 47;
const MAX_NAMESPACE_WEIGHT = 16;
const MAX_VERSION_WEIGHT = 10;
const HASH_WEIGHT = 9; // "#" and eight hex digits

const NAMESPACE = /^[a-z][a-z0-9_-]{0,63}$/;
const NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/;
const VERSION = /^[A-Za-z0-9._-]{1,32}$/;
const HASH8 = /^[0-9a-f]{8}$/;
const MAX_ID_LENGTH = 240;
const FIELDS = /^([^:@#]*):([^:@#]*)(?:@([^:@#]*))?(?:#([^:@#]*))?$/;
const KIND_TAG = /^(resource|prompt)::/;

/** The fields of a tool's id. Throws CatalogError for everything else. */
export function parseToolId(text: string): ToolIdParts {
  const fields = typeof text === "string" && text.length <= MAX_ID_LENGTH ? FIELDS.exec(text) : null;
  if (fields === null) throw notAnId(text);
  const [, namespace, name, version = null, hash8 = null] = fields;
  return checked({ namespace: namespace!, name: name!, version, hash8 });
}

/** The inverse of parseToolId. Throws CatalogError where a field breaks its grammar. */
export function formatToolId(parts: ToolIdParts): string {
  const { namespace, name, version, hash8 } = checked(parts);
  return `${namespace}:${name}${version === null ? "" : `@${version}`}${hash8 === null ? "" : `#${hash8}`}`;
}

/** The kind and the fields of an id. Keys with `~` are opaque, and refused. */
export function parsePrimitiveId(text: string): ToolIdParts & { kind: PrimitiveKind } {
  const tag = typeof text === "string" ? KIND_TAG.exec(text) : null;
  if (tag === null) return { kind: "tool", ...parseToolId(text) };
  return { kind: tag[1] as PrimitiveKind, ...parseToolId(text.slice(tag[0].length)) };
}

/** The inverse of parsePrimitiveId: a tool's id is bare. */
export function formatPrimitiveId(kind: PrimitiveKind, parts: ToolIdParts): string {
  if (kind === "tool") return formatToolId(parts);
  if (kind !== "resource" && kind !== "prompt") throw notAnId(kind);
  return `${kind}::${formatToolId(parts)}`;
}

function checked(parts: ToolIdParts): ToolIdParts {
  const { namespace, name, version, hash8 } = parts;
  const fits =
    matches(NAMESPACE, namespace) &&
    matches(NAME, name) &&
    (version === null || matches(VERSION, version)) &&
    (hash8 === null || matches(HASH8, hash8));
  if (!fits) throw notAnId([namespace, name, version, hash8]);
  return parts;
}

function matches(grammar: RegExp, value: unknown): value is string {
  return typeof value === "string" && grammar.test(value);
}

function notAnId(value: unknown): CatalogError {
  const shown = JSON.stringify(value) ?? typeof value;
  return new CatalogError("not-a-tool-id", `not namespace:name[@version][#hash8]: ${shown.slice(0, 300)}`);
}

/** The namespace that a bare name suggests: `github.x`, `fs/x` and `slack_x_y` have one, the rest is `mcp`. */
export function inferNamespace(toolName: string): string {
  return derive(toolName).namespace;
}

function derive(toolName: string): { namespace: string; name: string } {
  const separated = /^([^./]+)[./](.+)$/s.exec(toolName);
  if (separated !== null) return { namespace: normalizeNamespace(separated[1]!), name: separated[2]! };
  const [first, ...others] = toolName.split("_");
  const namespace = first && others.length >= 2 ? normalizeNamespace(first) : DEFAULT_NAMESPACE;
  return { namespace, name: toolName };
}

/** A server's name within the namespace grammar (spec 1.2). Not injective: see clashingNamespaces. */
export function normalizeNamespace(server: string): string {
  if (NAMESPACE.test(server) && idWeight(server) <= MAX_NAMESPACE_WEIGHT) return server;
  const digest = sha256Hex(server); // taken first: lone surrogates are refused whether or not the digest is needed
  // toLowerCase alone would also turn the Kelvin sign into a k.
  let plain = server
    .replace(/[A-Z]/g, (letter) => letter.toLowerCase())
    .replace(/[^a-z0-9_]+/g, "-")
    .replace(/^-|-$/g, "");
  if (!/^[a-z]/.test(plain)) plain = `x-${plain}`;
  if (plain !== "x-" && plain.length <= 64 && idWeight(plain) <= MAX_NAMESPACE_WEIGHT) return plain;
  // What the cut loses, six hex digits of the whole name make up for.
  return `${cutToWeight(plain, MAX_NAMESPACE_WEIGHT - 7).replace(/[-_]+$/, "")}-${digest.slice(0, 6)}`;
}

/** The namespaces that several of these servers would share, in order, each with the names of those servers. */
export function clashingNamespaces(servers: Iterable<string>): Map<string, string[]> {
  const byNamespace = new Map<string, string[]>();
  for (const server of new Set(servers)) {
    const namespace = normalizeNamespace(server);
    byNamespace.set(namespace, [...(byNamespace.get(namespace) ?? []), server]);
  }
  return new Map([...byNamespace].filter(([, names]) => names.length > 1).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** What an id depends on in an input schema: the names of its top-level properties, and `required` (spec 1.3). */
export function canonicalShape(inputSchema: unknown): string {
  const { properties, required }: Record<string, unknown> = isRecord(inputSchema) ? inputSchema : {};
  return asciiJson({
    properties: isRecord(properties) ? Object.keys(properties).sort(byCodePoint) : [],
    required: Array.isArray(required) ? required.filter(isString).sort(byCodePoint) : [],
  });
}

/** Eight hex digits over the raw upstream name and the shape of the input schema. */
export function canonicalHash8(upstreamName: string, inputSchema: unknown): string {
  return hash8Of(`${upstreamName}\n${canonicalShape(inputSchema)}`);
}

/** The id of an upstream's tool. The server is its namespace; without a server, its name suggests one. */
export function toolIdFor(upstreamName: string, inputSchema: unknown, options: ToolIdOptions = {}): string {
  return formatToolId(partsFor(upstreamName, canonicalHash8(usable(upstreamName), inputSchema), options));
}

/** The id of a resource: its uri is its identity, its name only makes the id readable. */
export function resourceIdFor(uri: string, name: string, server?: string | null): string {
  const hash8 = hash8Of(`resource\n${usable(uri)}`);
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(uri)?.[1] ?? DEFAULT_NAMESPACE;
  const readable = name || uri.replace(/^[^\n]*\/(?=[^\n])/, "");
  return formatPrimitiveId("resource", partsFor(readable, hash8, { server: server || scheme }));
}

/** The id of a prompt: its name, and the set of the names of its arguments. */
export function promptIdFor(name: string, argumentNames: readonly unknown[], server?: string | null): string {
  const shape = asciiJson([...new Set(argumentNames.filter(isString))].sort(byCodePoint));
  return formatPrimitiveId("prompt", partsFor(name, hash8Of(`prompt\n${usable(name)}\n${shape}`), { server }));
}

function partsFor(rawName: string, hash8: string, options: ToolIdOptions): ToolIdParts {
  const { namespace, name } = options.server
    ? { namespace: normalizeNamespace(options.server), name: rawName }
    : derive(rawName);
  const version = isUsableVersion(options.version) ? options.version : null;
  const taken = idWeight(namespace) + 1 + HASH_WEIGHT + (version === null ? 0 : 1 + idWeight(version));
  const room = MAX_ID_WEIGHT - taken;
  if (NAME.test(name) && idWeight(name) <= room) return { namespace, name, version, hash8: version ? null : hash8 };
  // An escaped name is not unique by itself, so its id carries the hash of the raw name even beside a version.
  return { namespace, name: escapeName(name, room), version, hash8 };
}

function isUsableVersion(version: unknown): version is string {
  return matches(VERSION, version) && idWeight(version) <= MAX_VERSION_WEIGHT;
}

function escapeName(rawName: string, room: number): string {
  const beginning = [...rawName.slice(0, 2048)].slice(0, 1024).join(""); // 1024 characters are at most 2048 units
  const plain = beginning.replace(/[^A-Za-z0-9_.-]+/gu, "_");
  return cutToWeight(/^[A-Za-z_]/.test(plain) ? plain : `_${plain}`, room).slice(0, 128);
}

/** Keys for a list of ids: the first of equals keeps its id, later ones become `id~2`, `id~3` and so on (spec 1.8). */
export function resolveCollisions(ids: readonly string[]): string[] {
  const taken = new Set(ids);
  const counts = new Map<string, number>();
  return ids.map((id) => {
    let count = (counts.get(id) ?? 0) + 1;
    if (count > 1) while (taken.has(`${id}~${count}`)) count++;
    counts.set(id, count);
    const key = count === 1 ? id : `${id}~${count}`;
    taken.add(key);
    return key;
  });
}

function usable(text: string): string {
  if (!isString(text) || text === "") throw new CatalogError("no-usable-name", "a name is a string that is not empty");
  return text;
}

function isString(value: unknown): value is string {
  return typeof value === "string";
}

/** Order by code point. Units alone would put U+FF5E behind U+1F600, whose units are smaller. */
function byCodePoint(a: string, b: string): number {
  const shared = Math.min(a.length, b.length);
  for (let at = 0; at < shared; at++) {
    const difference = a.codePointAt(at)! - b.codePointAt(at)!;
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** JSON in pure ASCII. A pair of surrogates is two units, so it becomes two escapes. */
function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function hash8Of(text: string): string {
  return sha256Hex(text).slice(0, 8);
}

/** Over UTF-8. Node would write U+FFFD for a lone surrogate, and different names would get one hash. */
function sha256Hex(text: string): string {
  if (!text.isWellFormed()) throw new CatalogError("no-usable-name", "a name with lone surrogates has no UTF-8");
  return createHash("sha256").update(text, "utf8").digest("hex");
}
