/**
 * In: a map's id. Out: the file and digest of the map that ships with this package. Touches: the index file, once.
 * The published package carries the maps; a checkout has them beside this folder.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export interface BundledMap {
  id: string;
  path: string;
  sha256: string;
  bytes: number;
}

let found: readonly BundledMap[] | undefined;

export function bundledMaps(): readonly BundledMap[] {
  found ??= readIndex();
  return found;
}

/** A bundled map by its id, or by the part behind the slash where only one map has it. */
export function findBundledMap(id: string): BundledMap | undefined {
  const exact = bundledMaps().find((map) => map.id === id);
  if (exact !== undefined) return exact;
  const ending = bundledMaps().filter((map) => map.id.endsWith(`/${id}`));
  return ending.length === 1 && !id.includes("/") ? ending[0] : undefined;
}

function readIndex(): BundledMap[] {
  const index = ["../maps/", "../../maps/", "../../../maps/"]
    .map((folder) => new URL(`${folder}index.json`, import.meta.url))
    .find((url) => existsSync(url));
  if (index === undefined) return [];
  const { maps } = JSON.parse(readFileSync(index, "utf8")) as { maps: Array<BundledMap & { file: string }> };
  return maps.map(({ id, file, sha256, bytes }) => ({ id, path: fileURLToPath(new URL(file, index)), sha256, bytes }));
}
