#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
/**
 * The command line of this package. `mcp-leaf wrap` adds leaf tokens to the results of any stdio MCP server.
 */
import { MapError, MapUnreachableError } from "./errors.js";
import { MAX_TEXT_LENGTH } from "./leaf.js";
import { findBundledMap, isRemote, makeMetaTokenizer, noSuchMap } from "./map.js";
import { mapsCommand, orUsageError, UsageError } from "./maps-command.js";
import { PATTERNS } from "./pattern-families.js";
import { digestOf, type LoadedTokenizer } from "./tokenizer.js";
import { wrapCommand } from "./wrap-command.js";

const HELP = `mcp-leaf: token ids for the tool results of MCP servers

  mcp-leaf wrap --map MAP [--hash DIGEST] [OPTIONS] -- COMMAND [ARGUMENT...]
      Runs a stdio MCP server and relays between it and the client. Adds token ids to the text of
      each tool result, and declares that it does. Ends when the server ends, with its status.

        --map MAP              a bundled map such as qwen/qwen2, a model such as model:qwen3:8b,
                               a path, or an https URL. With several, each call says which is
                               wanted; the first is for calls that do not
        --hash DIGEST          sha256:<64 hex digits> of the map's file; needed for a URL. With several
                               maps, one for each, in the same order
        --min-text-length N    texts of fewer characters get no ids (default 1)
        --max-text-length N    results with more bytes of text get no ids (default ${MAX_TEXT_LENGTH})

  mcp-leaf maps                lists the bundled maps
  mcp-leaf maps for MODEL [--json]
                               says which map gives the token ids of a model, and how to get it
  mcp-leaf maps build SOURCE --id OWNER/NAME [OPTIONS]
      Builds a map from a tokenizer's file: a Hugging Face tokenizer.json, a tiktoken rank file, a
      Mistral tekken.json, a SentencePiece .model (BPE), or Anthropic's claude.json. Writes the same
      bytes as leafgate maps build, or says what a map cannot express.

        -o, --out FILE         the map (default NAME.json)
        --pattern NAME|REGEX   ${Object.keys(PATTERNS).join(", ")}, or a regex. Rank files need it
        --special NAME=ID      a special token; may be repeated
        --normalizer NAME      nfc, nfkc or none, in place of the source's own
        --json

  mcp-leaf maps check MAP [--against TOKENIZER] [--json]
      Loads a map, checks its ids on more than 2,000 texts, and describes it. With --against it
      compares them with the ids of npm tokenizers for a tokenizer.json, names the first difference
      and ends with status 1 if there is one; without it nothing is known about the original.

  mcp-leaf --version
  mcp-leaf --help

Example: mcp-leaf wrap --map qwen/qwen2 -- npx -y @modelcontextprotocol/server-everything
`;
const USAGE_ERROR = 2;

async function main(args: readonly string[]): Promise<number> {
  const [command, ...rest] = args;
  if (command === undefined || command === "--help" || command === "-h" || command === "help") return print(HELP);
  if (command === "--version") return print(`${version()}\n`);
  if (command === "maps") {
    if (rest.includes("--help") || rest.includes("-h")) return print(HELP);
    const { text, status } = await mapsCommand(rest);
    print(text);
    return status;
  }
  if (command === "wrap") return wrap(rest);
  throw new UsageError(`unknown command ${command}`);
}

async function wrap(args: readonly string[]): Promise<number> {
  const separator = args.indexOf("--");
  const own = separator < 0 ? args : args.slice(0, separator);
  if (own.includes("--help") || own.includes("-h")) return print(HELP);
  const {
    map: maps = [],
    hash: hashes = [],
    "min-text-length": minimum,
    "max-text-length": maximum,
  } = wrapOptions(own);
  const command = separator < 0 ? [] : args.slice(separator + 1);
  if (maps.length === 0) throw new UsageError("--map is missing");
  if (hashes.length > 0 && hashes.length !== maps.length)
    throw new UsageError("give one --hash for each --map, or none");
  if (command.length === 0) throw new UsageError("the server's command is missing: put it after --");
  const minTextLength = lengthOf("--min-text-length", minimum, 1);
  const maxTextLength = lengthOf("--max-text-length", maximum, MAX_TEXT_LENGTH);
  const metas = await Promise.all(maps.map((map, index) => load(map, hashes[index])));
  for (const { map } of metas)
    for (const warning of map.warnings) process.stderr.write(`mcp-leaf: ${map.name}: ${warning}\n`);
  return wrapCommand(command, metas, { minTextLength, maxTextLength });
}

function lengthOf(option: string, value: string | undefined, fallback: number): number {
  const length = Number(value ?? fallback);
  if (!Number.isInteger(length) || length < 0) throw new UsageError(`${option} is not a number`);
  return length;
}

function wrapOptions(args: readonly string[]) {
  const options = {
    map: { type: "string", multiple: true },
    hash: { type: "string", multiple: true },
    "min-text-length": { type: "string" },
    "max-text-length": { type: "string" },
  } as const;
  return orUsageError(() => parseArgs({ args: [...args], options }).values);
}

/** A file is trusted as it is; a map from the network needs a digest. */
async function load(map: string, hash: string | undefined): Promise<LoadedTokenizer> {
  const local = !isRemote(map) && findBundledMap(map) === undefined;
  if (hash === undefined && isRemote(map)) throw new UsageError(`--hash is missing: the sha256 of ${map}`);
  return makeMetaTokenizer({ mapUrl: map, mapHash: hash ?? (local ? await digestOfFile(map) : undefined) });
}

async function digestOfFile(path: string): Promise<string> {
  try {
    return await digestOf(await readFile(/^file:/i.test(path) ? fileURLToPath(path) : path));
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") throw noSuchMap(path);
    throw new MapUnreachableError(`${path}: ${error instanceof Error ? error.message : error}`);
  }
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

function version(): string {
  const path = ["../package.json", "../../package.json"]
    .map((place) => new URL(place, import.meta.url))
    .find((url) => {
      try {
        return readFileSync(url, "utf8").includes("mcp-leaf");
      } catch {
        return false;
      }
    });
  return path === undefined ? "unknown" : (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

function complain(error: unknown): number {
  const message = error instanceof Error ? error.message : String(error);
  const what = error instanceof MapError ? `the map cannot be loaded: ${message}` : message;
  process.stderr.write(`mcp-leaf: ${what}\n`);
  if (error instanceof UsageError) process.stderr.write("Try mcp-leaf --help.\n");
  return USAGE_ERROR;
}

const status = await main(process.argv.slice(2)).catch(complain);
// Standard input may still be open and would keep the process alive; standard output must be flushed first.
process.stdout.write("", () => process.exit(status));
