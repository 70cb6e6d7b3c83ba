// `add` copies the maps of the repository into this folder for packing; `remove` deletes the copy. A checkout uses the
// maps beside this folder.
import { cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

const from = new URL("../../maps/", import.meta.url);
const to = new URL("../maps/", import.meta.url);

function copy(file) {
  const target = fileURLToPath(new URL(file, to));
  mkdirSync(dirname(target), { recursive: true });
  cpSync(fileURLToPath(new URL(file, from)), target);
}

rmSync(to, { recursive: true, force: true });
if (process.argv[2] === "add") {
  const { maps } = JSON.parse(readFileSync(new URL("index.json", from), "utf8"));
  const beside = ["index.json", "models.json", "corpus.json.gz", "LICENCES.md", "LICENCE-Apache-2.0.txt"];
  for (const file of [...beside, ...maps.map((map) => map.file)]) copy(file);
}
