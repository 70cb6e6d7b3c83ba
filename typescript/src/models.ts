/**
 * Which map gives the token ids of a model: the rules of maps/models.json (spec 5.12). A name is read as words, so that
 * `meta-llama/Llama-3.3-70B-Instruct`, `llama3.3:70b` and `us.meta.llama3-3-70b-v1:0` are names of one family. The
 * pattern with the most words that the name has counts.
 */
import { MapUnreachableError } from "./errors.js";

export const MODEL_PREFIX = "model:";

/** What a map is built from: a file in a registry's package, or a file of the model's own repository. */
export interface MapOrigin {
  package?: string;
  file?: string;
  repository?: string;
  options?: readonly string[];
}

/** Models with the same tokenizer. Either `map` is the id of their map, or `no_map` says why there is none. */
export interface ModelFamily {
  name: string;
  map?: string;
  no_map?: string;
  match: readonly string[];
  examples: readonly string[];
}

export interface ModelsDocument {
  maps: Readonly<Record<string, MapOrigin>>;
  families: readonly ModelFamily[];
}

/** Runs of words that a name has in this order. `isFirst`: the first run begins the name, or what follows a slash. */
interface Pattern {
  family: ModelFamily;
  runs: ReadonlyArray<readonly string[]>;
  isFirst: boolean;
  weight: number;
}

export class Models {
  private readonly patterns: readonly Pattern[];

  constructor(readonly document: ModelsDocument) {
    this.patterns = document.families.flatMap((family) => family.match.map((text) => readPattern(family, text)));
  }

  /** The family that the name of a model belongs to, or undefined if no pattern matches. */
  familyOf(model: string): ModelFamily | undefined {
    const words = wordsOf(withoutPrefix(model));
    let best: Pattern | undefined;
    for (const pattern of this.patterns) {
      if (pattern.weight > (best?.weight ?? 0) && matches(pattern, words)) best = pattern;
    }
    return best?.family;
  }

  /** The id of the map of a model. MapUnreachableError says why there is none. */
  mapOf(model: string): string {
    const family = this.familyOf(model);
    if (family === undefined) throw new MapUnreachableError(this.sayUnknown(model));
    if (family.map === undefined) throw new MapUnreachableError(`no map for '${model}': ${family.no_map}`);
    return family.map;
  }

  sayUnknown(model: string): string {
    const nearest = this.nearest(model, []);
    const hint = nearest === undefined ? "if" : `did you mean ${nearest}? If`;
    return `no model '${model}' in the table; ${hint} its tokenizer.json is public, \`maps build\` makes a map of it`;
  }

  /** What to write in the place of a name that no map has. */
  hint(name: string, ids: readonly string[]): string {
    const map = this.familyOf(name)?.map;
    if (map !== undefined && map !== name) return `; ${MODEL_PREFIX}${name} is the map of that model, ${map}.`;
    const nearest = this.nearest(name, ids);
    if (nearest === undefined) return ".";
    return `; did you mean ${ids.includes(nearest) ? nearest : MODEL_PREFIX + nearest}?`;
  }

  /** The model or map whose name differs least from this one; undefined if all differ by more than a third. */
  nearest(name: string, ids: readonly string[]): string | undefined {
    const wanted = wordsOf(withoutPrefix(name)).join(" ");
    const names = [...ids, ...this.document.families.flatMap((family) => family.examples)];
    const distances = names.map((each) => editDistance(wanted, wordsOf(each).join(" ")));
    const best = Math.min(...distances);
    return best * 3 <= wanted.length ? names[distances.indexOf(best)] : undefined;
  }

  /** The commands that build a map. */
  buildSteps(mapId: string, program: string): string[] {
    const { package: from, file, repository, options = [] } = this.document.maps[mapId] ?? {};
    const [registry, name, version] = from?.split(" ") ?? [];
    const fetch =
      registry === "npm"
        ? [`npm install --no-save ${name}@${version}`]
        : registry === undefined
          ? []
          : [`pip install --no-deps --target packages ${name}==${version}`];
    const source =
      registry === "npm" ? `node_modules/${name}/${file}` : registry === undefined ? repository! : `packages/${file}`;
    const target = `${mapId.slice(mapId.lastIndexOf("/") + 1)}.json`;
    const build = [...program.split(" "), "maps", "build", source, "--id", mapId, ...options, "--out", target];
    return [...fetch, build.map(quote).join(" ")];
  }
}

/** The words of a name: `Qwen/Qwen2.5-1.5B` has `qwen`, `/`, `qwen`, `2`, `5`, `1_5b`. */
export function wordsOf(name: string): string[] {
  return name
    .replace(/[A-Z]/g, (letter) => letter.toLowerCase())
    .replaceAll("_", "-")
    .replace(/([0-9])\.([0-9]+[bm])(?![a-z0-9])/g, "$1_$2")
    .replace(/[^a-z0-9/_]+/g, " ")
    .replace(/([a-z])([0-9])/g, "$1 $2")
    .replaceAll("/", " / ")
    .split(" ")
    .filter((word) => word !== "");
}

function withoutPrefix(model: string): string {
  return model.startsWith(MODEL_PREFIX) ? model.slice(MODEL_PREFIX.length) : model;
}

function readPattern(family: ModelFamily, text: string): Pattern {
  const isFirst = text.startsWith("^");
  const runs = (isFirst ? text.slice(1) : text).split(" ").map(wordsOf);
  return { family, runs, isFirst, weight: runs.flat().length };
}

function matches({ runs, isFirst }: Pattern, words: readonly string[]): boolean {
  let at = 0;
  for (const [number, run] of runs.entries()) {
    const found = findRun(words, run, at, isFirst && number === 0);
    if (found < 0) return false;
    at = found + run.length;
  }
  return true;
}

function findRun(words: readonly string[], run: readonly string[], start: number, isFirst: boolean): number {
  for (let at = start; at + run.length <= words.length; at++) {
    if (!run.every((word, i) => words[at + i] === word) || (isFirst && at > 0 && words[at - 1] !== "/")) continue;
    // `qwen3` does not stand for `qwen3.5`, which may have another tokenizer.
    if (!(/^[0-9]+$/.test(run.at(-1)!) && /^[0-9]{1,2}$/.test(words[at + run.length] ?? ""))) return at;
  }
  return -1;
}

/** The least number of characters to insert, delete or replace. */
function editDistance(left: string, right: string): number {
  const row = Array.from({ length: right.length + 1 }, (_, j) => j);
  for (let i = 1; i <= left.length; i++) {
    let before = row[0]!;
    row[0] = i;
    for (let j = 1; j <= right.length; j++) {
      const replaced = before + (left[i - 1] === right[j - 1] ? 0 : 1);
      before = row[j]!;
      row[j] = Math.min(before + 1, row[j - 1]! + 1, replaced);
    }
  }
  return row[right.length]!;
}

/** As Python's shlex does. */
function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}
