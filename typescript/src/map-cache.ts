/**
 * In: a digest. Out: the map's bytes as they were kept, not to be trusted before they are hashed again.
 * Touches: one folder of files. A cache that cannot be read or written is no failure, only a slower start.
 */
import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

/** Where verified maps may be kept between processes. */
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

export function defaultCacheFolder(env: NodeJS.ProcessEnv = process.env, platform = process.platform): string {
  const base =
    env.XDG_CACHE_HOME ||
    (platform === "win32" && env.LOCALAPPDATA) ||
    join(homedir(), platform === "darwin" ? "Library/Caches" : ".cache");
  return join(base, "leafgate", "maps");
}
