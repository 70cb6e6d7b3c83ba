// In: JSON lines on standard input. Out: one JSON line of answer for each, in order (spec 5.8).
// Touches: standard streams, and the map's file. The seam through which other languages compare themselves with this one.

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import {
  CatalogError,
  CodecMetaMapMismatchError,
  canonicalHash8,
  canonicalShape,
  IdsError,
  inferNamespace,
  MAX_TEXT_LENGTH,
  MapDigestError,
  MapHashMismatchError,
  MapInvalidError,
  MapUnreachableError,
  makeMetaTokenizer,
  normalizeNamespace,
  parsePrimitiveId,
  parseToolId,
  promptIdFor,
  readCodecMeta,
  resolveCollisions,
  resourceIdFor,
  stripCodecMeta,
  TextError,
  toolIdFor,
  verifyCodecMeta,
  wrapToolCall,
} from "./dist/src/index.js";
import { isRecord, parseDigest } from "./dist/src/leaf.js";
import { findBundledMap } from "./dist/src/map.js";
import { digestOf } from "./dist/src/tokenizer.js";
import { elementsAt, memberNamed, membersAt } from "./dist/src/wrap-command.js";

const USAGE = `usage: node contract.mjs COMMAND --map ID|PATH [--level canonical|decode]

COMMAND is encode, decode, check, wrap, verify; or read, strip, digest, load, tool-id, which need no map.`;
const WITHOUT_MAP = ["read", "strip", "digest", "load", "tool-id"];
const FLUSH = 1 << 16;

class BadLine extends Error {}

// What a line of `tool-id` may ask (spec 1).
const idQuestions = {
  "parse-tool-id": ({ id }) => parseToolId(a("string", "id", id)),
  "parse-primitive-id": ({ id }) => parsePrimitiveId(a("string", "id", id)),
  hash8: ({ name, input_schema }) => ({
    shape: canonicalShape(input_schema),
    hash8: canonicalHash8(a("string", "name", name), input_schema),
  }),
  "infer-namespace": ({ name }) => ({ namespace: inferNamespace(a("string", "name", name)) }),
  "normalize-namespace": ({ server }) => ({ namespace: normalizeNamespace(a("string", "server", server)) }),
  "tool-id": ({ name, input_schema, server, version }) => ({
    id: toolIdFor(a("string", "name", name), input_schema, { server: aOrNull("string", "server", server), version }),
  }),
  "resource-id": ({ uri, name, server }) => ({
    id: resourceIdFor(a("string", "uri", uri), a("string", "name", name), aOrNull("string", "server", server)),
  }),
  "prompt-id": ({ name, arguments: names, server }) => ({
    id: promptIdFor(a("string", "name", name), a("array", "arguments", names), aOrNull("string", "server", server)),
  }),
  "resolve-collisions": ({ ids }) => ({
    keys: resolveCollisions(a("array", "ids", ids).map((id) => a("string", "ids", id))),
  }),
};

const commands = {
  encode: ({ text }, { tokenizer }) => ({ ids: tokenizer.encode(a("string", "text", text)) }),
  decode: ({ ids }, { tokenizer, line }) => ({ text: tokenizer.decode(literalIds(a("array", "ids", ids), line)) }),
  check: ({ text, ids, map_id }, { tokenizer, level, line }) => {
    a("string", "text", text);
    return tokenizer.check(text, literalIds(a("array", "ids", ids), line), { level, mapId: map_id });
  },
  wrap: ({ result, minTextLength = 1, maxTextLength = MAX_TEXT_LENGTH, requestMeta }, { tokenizer }) => ({
    result: wrapToolCall(a("object", "result", result), tokenizer, {
      minTextLength: a("number", "minTextLength", minTextLength),
      maxTextLength: a("number", "maxTextLength", maxTextLength),
      requestMeta,
    }),
  }),
  read: ({ result, expectedMapHash }) => ({
    entries: readCodecMeta(a("object", "result", result), { expectedMapHash: expectedMapHash ?? undefined }),
  }),
  strip: ({ result }) => ({ result: stripCodecMeta(a("object", "result", result)) }),
  verify: ({ result }, { tokenizer, level }) => ({
    entries: verifyCodecMeta(a("object", "result", result), tokenizer, { level }),
  }),
  digest: ({ hash }) => ({ digest: parseDigest(hash) }),
  load: async ({ file, hash, text }) => {
    const path = a("string", "file", file);
    const mapHash = hash === undefined ? await digestOf(readMapFile(path)) : parseDigest(hash);
    const tokenizer = await makeMetaTokenizer({ mapUrl: path, mapHash, cache: false });
    return { loaded: tokenizer.map.name, ...(text === undefined ? {} : { ids: tokenizer.encode(text) }) };
  },
  "tool-id": (fields) => {
    const ask = a("string", "ask", fields.ask);
    if (!Object.hasOwn(idQuestions, ask)) throw new BadLine(`"ask" is none of ${Object.keys(idQuestions).join(", ")}`);
    return idQuestions[ask](fields);
  },
};

function a(type, name, value) {
  const found = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  if (found !== type) throw new BadLine(`"${name}" must be ${type}, it is ${found}`);
  return value;
}

function aOrNull(type, name, value) {
  return value === undefined || value === null ? null : a(type, name, value);
}

/** The ids with NaN in the place of numbers that were written with a fraction or an exponent. */
function literalIds(ids, line) {
  if (!/\d[.eE]/.test(line)) return ids;
  const { value } = memberNamed(membersAt(line, 0), "ids");
  const elements = elementsAt(line, value.start);
  return ids.map((id, index) => {
    const { start, end } = elements[index];
    return typeof id === "number" && /[.eE]/.test(line.slice(start, end)) ? Number.NaN : id;
  });
}

async function answer(bytes, command, context) {
  try {
    const line = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const fields = JSON.parse(line);
    if (!isRecord(fields)) throw new BadLine("not a JSON object");
    return await command(fields, { ...context, line });
  } catch (error) {
    return refusal(error);
  }
}

function refusal(error) {
  const { message } = error;
  if (error instanceof TextError) return { error: "bad-text", message };
  if (error instanceof IdsError || error instanceof CatalogError) return { error: error.reason, message };
  if (error instanceof CodecMetaMapMismatchError) {
    return { error: "map-mismatch", expected: error.expected, found: error.found, textIndex: error.textIndex };
  }
  if (error instanceof MapDigestError) return { error: "bad-digest", message };
  if (error instanceof MapHashMismatchError) {
    return { error: "hash-mismatch", expected: error.expected, found: error.found, message };
  }
  if (error instanceof MapInvalidError) return { error: "invalid-map", message };
  if (error instanceof MapUnreachableError) return { error: "unreachable", message };
  return { error: "bad-line", message };
}

async function loadTokenizer(map) {
  if (map === undefined) throw new Error("--map is missing");
  // A local file is named by its path alone: its digest is whatever its bytes have.
  const mapHash = findBundledMap(map) === undefined ? await digestOf(readMapFile(map)) : undefined;
  return makeMetaTokenizer({ mapUrl: map, mapHash });
}

function readMapFile(path) {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new MapUnreachableError(error.message);
  }
}

async function* linesOf(stream) {
  let rest = [];
  for await (const chunk of stream) {
    const lines = [];
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      lines.push(Buffer.concat([...rest, chunk.subarray(start, end)]));
      rest = [];
      start = end + 1;
    }
    if (start < chunk.length) rest.push(chunk.subarray(start));
    yield lines;
  }
  if (rest.length > 0) yield [Buffer.concat(rest)];
}

function write(text) {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

async function serve(command, context) {
  for await (const lines of linesOf(process.stdin)) {
    let out = "";
    for (const line of lines) {
      out += `${JSON.stringify(await answer(line, command, context))}\n`;
      if (out.length < FLUSH) continue;
      await write(out);
      out = "";
    }
    if (out !== "") await write(out);
  }
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { map: { type: "string" }, level: { type: "string", default: "canonical" } },
  });
  const [name] = positionals;
  const { level } = values;
  if (positionals.length !== 1 || !Object.hasOwn(commands, name) || !["canonical", "decode"].includes(level)) {
    throw new Error(USAGE);
  }
  const tokenizer = WITHOUT_MAP.includes(name) ? undefined : await loadTokenizer(values.map);
  await serve(commands[name], { tokenizer, level });
}

main().catch((error) => {
  if (error.code === "EPIPE") return; // the reader has seen enough
  process.stderr.write(`contract: ${error.message}\n`);
  process.exitCode = 2;
});
