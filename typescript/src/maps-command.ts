/**
 * `mcp-leaf maps`: lists the bundled maps, says which map gives the token ids of a model, and builds and checks maps.
 */
import { writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { parseArgs } from "node:util";
import { buildMap, PATTERNS, type PatternName } from "./building.js";
import { MapError } from "./errors.js";
import { idsDigest } from "./ids-digest.js";
import { bundledMaps, findBundledMap, knownModels, noSuchMap, readBeside, readSource } from "./map.js";
import { checkCorpus, compare, openOriginal } from "./map-check.js";
import { type MapDocument, readMapDocument } from "./map-document.js";
import { familyOf } from "./pattern-families.js";
import { quote } from "./quoting.js";
import { digestOf, MAX_MAP_BYTES, makeTokenizer } from "./tokenizer.js";

export class UsageError extends Error {}

export interface Output {
  text: string;
  status: number;
}

const MAX_ID_CHARS = 200;
const NORMALIZERS = ["nfc", "nfkc", "none"] as const;
const READ_MS = 60_000;

export async function mapsCommand([command, ...args]: readonly string[]): Promise<Output> {
  if (command === undefined || command === "list") return listMaps();
  if (command === "for") return mapFor(args);
  if (command === "build") return withoutPrefix(buildCommand(args));
  if (command === "check") return checkCommand(args);
  throw new UsageError(`unknown command maps ${command}`);
}

function listMaps(): Output {
  const lines = bundledMaps().map(({ id, sha256, bytes }) => `${id}\t${sha256}\t${bytes}\n`);
  return { text: lines.join(""), status: 0 };
}

function mapFor(args: readonly string[]): Output {
  const { values, positionals } = orUsageError(() =>
    parseArgs({ args: [...args], options: { json: { type: "boolean" } }, allowPositionals: true }),
  );
  const [model, ...more] = positionals;
  if (model === undefined || more.length > 0) throw new UsageError("give one model, such as qwen3:8b");
  const facts = factsOf(model);
  return show(facts, values.json, facts.map === null ? 1 : 0);
}

type Fact = string | number | boolean | null | readonly string[] | object;
type Facts = Record<string, Fact>;

function factsOf(model: string): Facts {
  const models = knownModels();
  const family = models.familyOf(model);
  if (family === undefined) throw new UsageError(models.sayUnknown(model));
  const facts: Facts = { model, family: family.name, map: family.map ?? null };
  if (family.map === undefined) return { ...facts, reason: family.no_map ?? "" };
  const bundled = findBundledMap(family.map);
  if (bundled !== undefined) return { ...facts, map_id: bundled.sha256 };
  const { package: from, file, repository } = models.document.maps[family.map] ?? {};
  const source = from === undefined ? `its own ${repository}` : `${from}, ${file}`;
  return { ...facts, map_id: null, source, build: models.buildSteps(family.map, "npx mcp-leaf") };
}

function show(facts: Facts, asJson: boolean | undefined, status = 0): Output {
  return { text: asJson ? `${JSON.stringify(facts)}\n` : formatFacts(facts), status };
}

function formatFacts(facts: Facts): string {
  return Object.entries(facts)
    .map(([name, value]) => `${name.padEnd(15)} ${formatFact(value)}\n`)
    .join("");
}

function formatFact(value: Fact): string {
  if (value === null) return "-";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "object") return String(value);
  const words: readonly string[] = Array.isArray(value) ? value : Object.keys(value);
  if (Array.isArray(value) && words.some((word) => word.includes(" "))) return words.join(`\n${" ".repeat(16)}`);
  return words.join(", ") || "none";
}

// build

const BUILD_OPTIONS = {
  from: { type: "string" }, // as SOURCE is given to older versions of `leafgate maps build`
  id: { type: "string" },
  out: { type: "string", short: "o" },
  output: { type: "string" },
  pattern: { type: "string" },
  special: { type: "string", multiple: true },
  normalizer: { type: "string" },
  json: { type: "boolean" },
} as const;

async function buildCommand(args: readonly string[]): Promise<Output> {
  const { values, positionals } = orUsageError(() =>
    parseArgs({ args: [...args], options: BUILD_OPTIONS, allowPositionals: true }),
  );
  const source = positionals[0] ?? values.from;
  if (source === undefined || positionals.length > 1) throw new UsageError("give one SOURCE, a tokenizer's file");
  if (values.id === undefined) throw new UsageError("--id is missing: the map's id, OWNER/NAME");
  const id = checkedId(values.id);
  const output = values.out ?? values.output ?? `${id.slice(id.lastIndexOf("/") + 1)}.json`;
  const normalizer = NORMALIZERS.find((name) => name === values.normalizer);
  if (normalizer !== values.normalizer) throw new UsageError(`--normalizer takes ${NORMALIZERS.join(", ")}`);
  const specials = readSpecials(values.special ?? []);
  const raw = await readFileBounded(source);
  const built = await buildMap(raw, { id, name: source, pattern: patternOf(values.pattern), specials, normalizer });
  try {
    await writeFile(output, built.bytes);
  } catch (error) {
    throw new Error(`${output}: ${reasonOf(error)}`);
  }
  const facts = {
    id,
    map_id: built.mapId,
    ids_digest: built.idsDigest,
    file: output,
    bytes: built.bytes.length,
    encoder: built.encoder,
    tokens: built.tokens,
    special_tokens: built.specialTokens,
    added_tokens: built.addedTokens,
    normalizer: built.normalizer,
    patterns: built.patterns,
    notes: built.notes,
  };
  return show(facts, values.json);
}

/** An error of the source is not one of a map that is loaded. */
async function withoutPrefix(output: Promise<Output>): Promise<Output> {
  try {
    return await output;
  } catch (error) {
    throw error instanceof MapError ? new Error(error.message) : error;
  }
}

function checkedId(id: string): string {
  if (id.length <= MAX_ID_CHARS && /^[A-Za-z0-9][A-Za-z0-9._-]*(?:\/[A-Za-z0-9][A-Za-z0-9._-]*)*$/.test(id)) return id;
  throw new Error(`${quote(id.slice(0, 80))} is not an id for a map; write owner/name, of letters, digits and . _ -`);
}

function patternOf(choice: string | undefined): string | undefined {
  if (choice === undefined) return undefined;
  if (Object.hasOwn(PATTERNS, choice)) return PATTERNS[choice as PatternName];
  if (/^[\p{L}_][\p{L}\p{N}_]*$/u.test(choice))
    throw new Error(
      `unknown pattern ${quote(choice)}; give one of ${Object.keys(PATTERNS).join(", ")}, or a regular expression`,
    );
  return choice;
}

function readSpecials(options: readonly string[]): Record<string, number> {
  const specials = new Map<string, number>();
  for (const each of options) {
    const [, name, id] = /^(.+)=([0-9]+)$/s.exec(each) ?? [];
    if (name === undefined) throw new Error(`--special ${quote(each)} is not NAME=ID, such as '<|endoftext|>=100257'`);
    if (specials.has(name)) throw new Error(`--special ${quote(name)} is given twice`);
    specials.set(name, Number(id!.slice(0, 20)));
  }
  return Object.fromEntries(specials);
}

async function readFileBounded(path: string): Promise<Uint8Array> {
  const limits = {
    maxBytes: MAX_MAP_BYTES,
    timeoutMs: READ_MS,
    fetchImpl: fetch,
    signal: new AbortController().signal,
  };
  return readSource(path, limits);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

// check

async function checkCommand(args: readonly string[]): Promise<Output> {
  const options = { against: { type: "string" }, json: { type: "boolean" } } as const;
  const { values, positionals } = orUsageError(() => parseArgs({ args: [...args], options, allowPositionals: true }));
  const [name, ...more] = positionals;
  if (name === undefined || more.length > 0) throw new UsageError("give one MAP: a path, or the id of a bundled map");
  const file = findBundledMap(name)?.path ?? name;
  const raw = await readFileBounded(file).catch((error: unknown) => {
    throw String(reasonOf(error)).includes("ENOENT") ? noSuchMap(name) : error;
  });
  const mapId = await digestOf(raw);
  const tokenizer = makeTokenizer(raw, mapId, name);
  const document = readMapDocument(raw, name);
  const { texts } = readBeside<{ texts: string[] }>("corpus.json.gz")?.document ?? { texts: [] };
  const facts: Facts = {
    ...factsOfMap(document, raw),
    map_id: mapId,
    file,
    ids_digest: await idsDigest(document),
    warnings: document.warnings,
    checked: checkCorpus(tokenizer, texts),
  };
  if (values.against === undefined)
    return show({ ...facts, compared: values.json ? null : "with no original: --against takes its file" }, values.json);
  const original = await openOriginal(await readFileBounded(values.against), basename(values.against));
  const compared = await compare(tokenizer, original, texts);
  const summary = `${compared.differences} differences on ${compared.texts} texts with ${compared.against}`;
  const shown = compared.first_difference === null ? summary : `${summary}\n${compared.first_difference}`;
  return show({ ...facts, compared: values.json ? compared : shown }, values.json, compared.differences > 0 ? 1 : 0);
}

function factsOfMap(document: MapDocument, raw: Uint8Array): Facts {
  const { encoding } = document;
  const { special_tokens: specials = {} } = JSON.parse(new TextDecoder().decode(raw)) as { special_tokens?: object };
  const ids = new Set<number>(encoding.ids);
  if (encoding.kind === "metaspace") for (let byte = 0; byte < 256; byte++) ids.add(encoding.fallbackStart + byte);
  const split =
    encoding.kind === "metaspace" ? [] : "pattern" in encoding.split ? encoding.split.pattern : encoding.split.stages;
  let maxId = 0;
  for (const id of [...ids, ...document.specialIds]) maxId = Math.max(maxId, id);
  return {
    id: document.id,
    map_id: "",
    file: "",
    bytes: raw.length,
    encoder: encoding.kind,
    tokens: ids.size,
    special_tokens: specials,
    max_id: maxId,
    pattern: split,
    normalizer: document.normalizer,
    pattern_family: typeof split === "string" ? familyOf(split) : null,
  };
}

/** What `parse` returns; an error of the arguments is a UsageError. */
export function orUsageError<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
