/**
 * `mcp-leaf maps`: lists the bundled maps, and says which map gives the token ids of a model.
 */
import { parseArgs } from "node:util";
import { bundledMaps, findBundledMap, knownModels } from "./map.js";

export class UsageError extends Error {}

export interface Output {
  text: string;
  status: number;
}

export function mapsCommand([command, ...args]: readonly string[]): Output {
  if (command === undefined || command === "list") return listMaps();
  if (command === "for") return mapFor(args);
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
  return { text: values.json ? `${JSON.stringify(facts)}\n` : formatFacts(facts), status: facts.map === null ? 1 : 0 };
}

type Facts = Record<string, string | readonly string[] | null>;

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
  return { ...facts, map_id: null, source, build: models.buildSteps(family.map, "leafgate") };
}

function formatFacts(facts: Facts): string {
  const format = (value: Facts[string]) => (Array.isArray(value) ? value.join(`\n${" ".repeat(16)}`) : (value ?? "-"));
  return Object.entries(facts)
    .map(([name, value]) => `${name.padEnd(15)} ${format(value)}\n`)
    .join("");
}

/** What `parse` returns; an error of the arguments is a UsageError. */
export function orUsageError<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
