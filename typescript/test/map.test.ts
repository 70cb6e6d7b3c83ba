import { mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  MapDigestError,
  MapError,
  MapHashMismatchError,
  MapInvalidError,
  MapUnreachableError,
  makeMetaTokenizer,
} from "../src/index.js";
import { defaultCacheFolder, findBundledMap } from "../src/map.js";
import { digestOf } from "../src/tokenizer.js";

const toy = findBundledMap("toy")!;
const servers: Server[] = [];
let cacheDir: string;
let count = 0;

/** A toy map that no other test has: maps are kept in memory by digest. */
async function freshMap(): Promise<{ bytes: Buffer; mapHash: string }> {
  const text = await readFile(toy.path, "utf8");
  const bytes = Buffer.from(text.replace('"id":"toy"', `"id":"toy ${process.pid} ${count++}"`));
  return { bytes, mapHash: await digestOf(bytes) };
}

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeEach(async () => {
  cacheDir = await mkdtemp(join(tmpdir(), "leaf-maps-"));
});

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

describe("where a map may be", () => {
  it.each(["toy", "qwen/qwen2", "qwen2", "cl100k_base"])("the bundled %s, without a digest", async (mapUrl) => {
    expect((await makeMetaTokenizer({ mapUrl })).mapId).toBe(findBundledMap(mapUrl)!.sha256);
  });

  it("a path or a file URL, with a digest in any spelling", async () => {
    for (const mapUrl of [toy.path, pathToFileURL(toy.path).href])
      expect(
        (await makeMetaTokenizer({ mapUrl, mapHash: toy.sha256.slice(7).toUpperCase(), cache: false })).mapId,
      ).toBe(toy.sha256);
  });

  it("a server, through redirects", async () => {
    const { bytes, mapHash } = await freshMap();
    const base = await serve((request, response) => {
      if (request.url === "/map") response.end(bytes);
      else response.writeHead(302, { location: request.url === "/a" ? "/b" : "/map" }).end();
    });
    expect((await makeMetaTokenizer({ mapUrl: `${base}/a`, mapHash, cacheDir })).encode("the cat")).toEqual([261, 264]);
  });

  it("wherever fetchImpl finds it", async () => {
    const { bytes, mapHash } = await freshMap();
    const fetchImpl = (async () => new Response(new Uint8Array(bytes))) as typeof fetch;
    const meta = await makeMetaTokenizer({ mapUrl: "https://maps.invalid/toy.json", mapHash, cacheDir, fetchImpl });
    expect(meta.mapId).toBe(mapHash);
  });
});

describe("what is refused", () => {
  const never = (() => {
    throw new Error("nothing may be fetched");
  }) as unknown as typeof fetch;

  it.each(["", "sha256:", "abc", `sha512:${"0".repeat(64)}`, undefined])(
    "the digest %j, before anything is fetched",
    async (mapHash) => {
      const loading = makeMetaTokenizer({ mapUrl: "https://maps.invalid/x.json", mapHash, fetchImpl: never });
      await expect(loading).rejects.toThrow(MapDigestError);
    },
  );

  it("a file without a digest, naming the one that it has, or that it is not a map", async () => {
    const file = join(cacheDir, "map.json");
    const { bytes, mapHash } = await freshMap();
    await writeFile(file, bytes);
    await expect(makeMetaTokenizer({ mapUrl: file })).rejects.toThrow(
      `mapHash is missing; that of ${file} is ${mapHash}`,
    );
    await writeFile(file, '{"model": {}}');
    const advice = /a Hugging Face tokenizer.json, not a map; build a map of it: npx mcp-leaf maps build/;
    await expect(makeMetaTokenizer({ mapUrl: file })).rejects.toThrow(advice);
  });

  it.each(["http://maps.invalid/x.json", "ftp://127.0.0.1/x", "http://127.0.0.1.evil.invalid/x"])(
    "the address %s",
    async (mapUrl) => {
      const loading = makeMetaTokenizer({ mapUrl, mapHash: toy.sha256, cache: false, fetchImpl: never });
      await expect(loading).rejects.toThrow(MapUnreachableError);
      await expect(loading).rejects.toThrow(/only https/);
    },
  );

  it("a redirect to plain http elsewhere", async () => {
    const { mapHash } = await freshMap();
    const base = await serve((_, response) => response.writeHead(302, { location: "http://maps.invalid/" }).end());
    await expect(makeMetaTokenizer({ mapUrl: base, mapHash, cacheDir })).rejects.toThrow(/only https/);
  });

  it("redirects without end", async () => {
    const { mapHash } = await freshMap();
    const base = await serve((_, response) => response.writeHead(302, { location: "/" }).end());
    await expect(makeMetaTokenizer({ mapUrl: base, mapHash, cacheDir })).rejects.toThrow(/redirects/);
  });

  it("other bytes than expected, naming both digests", async () => {
    const { bytes, mapHash } = await freshMap();
    const base = await serve((_, response) => response.end(`${bytes} `));
    const loading = makeMetaTokenizer({ mapUrl: base, mapHash, cacheDir });
    await expect(loading).rejects.toThrow(MapHashMismatchError);
    const found = await digestOf(Buffer.from(`${bytes} `));
    await expect(loading).rejects.toMatchObject({ expected: mapHash, found });
    expect(await readdir(cacheDir)).toEqual([]);
  });

  it("the right bytes of a wrong map", async () => {
    const bytes = Buffer.from('{"id":"x","vocab":{}}');
    const base = await serve((_, response) => response.end(bytes));
    const loading = makeMetaTokenizer({ mapUrl: base, mapHash: await digestOf(bytes), cacheDir });
    await expect(loading).rejects.toThrow(MapInvalidError);
    await expect(loading).rejects.toBeInstanceOf(MapError);
  });

  it.each([404, 500, 204])("the status %i", async (status) => {
    const { mapHash } = await freshMap();
    const base = await serve((_, response) => response.writeHead(status).end());
    await expect(makeMetaTokenizer({ mapUrl: base, mapHash, cacheDir })).rejects.toThrow(MapUnreachableError);
  });

  it("a map that is too large, announced or not", async () => {
    const { bytes, mapHash } = await freshMap();
    let stopped = false;
    const base = await serve((request, response) => {
      if (request.url === "/announced") return response.end(bytes);
      response.on("close", () => (stopped = true));
      const more = () => response.writable && response.write("x".repeat(1 << 16), () => setImmediate(more));
      return more();
    });
    for (const path of ["/announced", "/endless"]) {
      const loading = makeMetaTokenizer({ mapUrl: base + path, mapHash, cacheDir, maxBytes: 1000 });
      await expect(loading).rejects.toThrow(/larger than the limit of 1000 bytes/);
    }
    await expect.poll(() => stopped).toBe(true);
    await expect(makeMetaTokenizer({ mapUrl: toy.path, mapHash, maxBytes: 1000 })).rejects.toThrow(MapUnreachableError);
  });

  it("a server that takes too long", async () => {
    const { mapHash } = await freshMap();
    const base = await serve((_, response) => void response.write("{"));
    const loading = makeMetaTokenizer({ mapUrl: base, mapHash, cacheDir, timeoutMs: 50 });
    await expect(loading).rejects.toThrow(/longer than 50 ms/);
    await expect(loading).rejects.toBeInstanceOf(MapUnreachableError);
  });

  it("what is not there", async () => {
    await expect(
      makeMetaTokenizer({ mapUrl: join(cacheDir, "none"), mapHash: toy.sha256, cache: false }),
    ).rejects.toThrow(MapUnreachableError);
    await expect(makeMetaTokenizer({ mapUrl: cacheDir, mapHash: toy.sha256, cache: false })).rejects.toThrow(
      MapUnreachableError,
    );
    const gone = await serve(() => {});
    servers.pop()!.close();
    await expect(makeMetaTokenizer({ mapUrl: gone, mapHash: toy.sha256, cache: false })).rejects.toThrow(
      MapUnreachableError,
    );
  });
});

describe("AbortSignal", () => {
  it("ends the wait, and the load when nobody waits any more", async () => {
    const { bytes, mapHash } = await freshMap();
    let closed = 0;
    let requests = 0;
    let slow = true;
    const base = await serve((_, response) => {
      requests++;
      response.on("close", () => closed++);
      if (slow) response.write(bytes.subarray(0, 10));
      else response.end(bytes);
    });
    const first = new AbortController();
    const second = new AbortController();
    const load = (signal: AbortSignal) => makeMetaTokenizer({ mapUrl: base, mapHash, cacheDir, signal });
    const waits = [load(first.signal), load(second.signal)];
    const outcomes = Promise.allSettled(waits);
    await expect.poll(() => requests).toBe(1);
    first.abort(new Error("first gone"));
    await expect(waits[0]).rejects.toThrow("first gone");
    expect(closed).toBe(0);
    second.abort(new Error("second gone"));
    await expect(waits[1]).rejects.toThrow("second gone");
    await expect.poll(() => closed).toBe(1);
    await outcomes;
    slow = false;
    expect((await load(new AbortController().signal)).mapId).toBe(mapHash);
    await expect(load(AbortSignal.abort(new Error("before")))).rejects.toThrow("before");
  });
});

describe("caches", () => {
  it("load once, however many ask", async () => {
    const { bytes, mapHash } = await freshMap();
    let requests = 0;
    const base = await serve((_, response) => {
      requests++;
      response.end(bytes);
    });
    const metas = await Promise.all(
      Array.from({ length: 20 }, () => makeMetaTokenizer({ mapUrl: base, mapHash, cacheDir })),
    );
    expect(requests).toBe(1);
    expect(new Set(metas).size).toBe(1);
    expect(await readdir(cacheDir)).toEqual([`${mapHash.slice(7)}.json`]);
  });

  it("do not remember failures", async () => {
    const { bytes, mapHash } = await freshMap();
    let requests = 0;
    const base = await serve((_, response) => (++requests === 1 ? response.writeHead(503).end() : response.end(bytes)));
    await expect(makeMetaTokenizer({ mapUrl: base, mapHash, cacheDir })).rejects.toThrow("503");
    expect((await makeMetaTokenizer({ mapUrl: base, mapHash, cacheDir })).mapId).toBe(mapHash);
  });

  it("serve from disk, and replace a broken entry", async () => {
    const { bytes, mapHash } = await freshMap();
    const file = join(cacheDir, `${mapHash.slice(7)}.json`);
    await writeFile(file, "broken");
    let requests = 0;
    const base = await serve((_, response) => {
      requests++;
      response.end(bytes);
    });
    await makeMetaTokenizer({ mapUrl: base, mapHash, cacheDir });
    expect(requests).toBe(1);
    expect(await readFile(file)).toEqual(bytes);
    const other = await freshMap();
    await writeFile(join(cacheDir, `${other.mapHash.slice(7)}.json`), other.bytes);
    expect((await makeMetaTokenizer({ mapUrl: base, mapHash: other.mapHash, cacheDir })).mapId).toBe(other.mapHash);
    expect(requests).toBe(1);
  });

  it("may be unusable", async () => {
    const { bytes, mapHash } = await freshMap();
    const base = await serve((_, response) => response.end(bytes));
    const notAFolder = join(cacheDir, "file");
    await writeFile(notAFolder, "");
    expect((await makeMetaTokenizer({ mapUrl: base, mapHash, cacheDir: notAFolder })).mapId).toBe(mapHash);
  });

  it("may be one's own", async () => {
    const { bytes, mapHash } = await freshMap();
    const kept = new Map<string, Uint8Array>([[mapHash, bytes]]);
    const cache = {
      get: async (digest: string) => kept.get(digest),
      set: async (digest: string, value: Uint8Array) => void kept.set(digest, value),
    };
    const meta = await makeMetaTokenizer({ mapUrl: "https://maps.invalid/x", mapHash, cache });
    expect(meta.mapId).toBe(mapHash);
  });

  it("live where the system keeps caches", () => {
    expect(defaultCacheFolder({ XDG_CACHE_HOME: "/x" }, "linux")).toBe(join("/x", "leafgate", "maps"));
    expect(defaultCacheFolder({}, "darwin")).toMatch(/Library.Caches.leafgate.maps$/);
    expect(defaultCacheFolder({ XDG_CACHE_HOME: "/x" }, "darwin")).toBe(join("/x", "leafgate", "maps"));
    expect(defaultCacheFolder({ XDG_CACHE_HOME: "x" }, "linux")).toMatch(/\.cache.leafgate.maps$/);
    expect(defaultCacheFolder({ LOCALAPPDATA: "/l", XDG_CACHE_HOME: "/x" }, "win32")).toBe(
      join("/l", "leafgate", "Cache", "maps"),
    );
  });
});
