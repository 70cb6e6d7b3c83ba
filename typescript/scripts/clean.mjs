// In: nothing. Out: no dist folder, so that no file of a renamed source stays in it. Touches dist only.
import { rmSync } from "node:fs";

rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
