// Deletes the dist folder, so that no output of a renamed source stays in it.
import { rmSync } from "node:fs";

rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
