/**
 * Relays between a client and a stdio MCP server, and adds ids to the results of tool calls. Only the `_meta` of text
 * blocks is rewritten, and the extension is added to the capabilities that the server declares, in the JSON text itself:
 * every other byte is passed on unchanged.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { Transform, type TransformCallback } from "node:stream";
import {
  CODEC_META_KEY,
  isRecord,
  isTextBlock,
  isWithdrawnBlock,
  LEAF_EXTENSION,
  type MetaTokenizer,
  type WrapOptions,
  wrapToolCall,
} from "./leaf.js";
import { leafCapability } from "./wrap-server.js";

export interface Span {
  start: number;
  end: number;
}

export interface Member extends Span {
  key: string;
  value: Span;
}

/** The members of the object that starts at or after this place, in the order of the text, repeated keys included. */
export function membersAt(json: string, place: number): Member[] {
  const members: Member[] = [];
  let at = skipBlanks(json, skipBlanks(json, place) + 1);
  while (json[at] === '"') {
    const keyEnd = skipString(json, at);
    const valueStart = skipBlanks(json, skipBlanks(json, keyEnd) + 1);
    const end = skipValue(json, valueStart);
    const key = JSON.parse(json.slice(at, keyEnd)) as string;
    members.push({ key, start: at, end, value: { start: valueStart, end } });
    at = skipComma(json, end);
  }
  return members;
}

/** The elements of the array that starts at or after this place. */
export function elementsAt(json: string, place: number): Span[] {
  const elements: Span[] = [];
  let at = skipBlanks(json, skipBlanks(json, place) + 1);
  while (at < json.length && json[at] !== "]") {
    const end = skipValue(json, at);
    elements.push({ start: at, end });
    at = skipComma(json, end);
  }
  return elements;
}

/** The member that a parser returns: the last one of its name. */
export function memberNamed(members: readonly Member[], key: string): Member | undefined {
  return members.findLast((member) => member.key === key);
}

function skipBlanks(json: string, place: number): number {
  let at = place;
  for (;;) {
    const code = json.charCodeAt(at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return at;
    at++;
  }
}

function skipComma(json: string, place: number): number {
  const at = skipBlanks(json, place);
  return json[at] === "," ? skipBlanks(json, at + 1) : at;
}

function skipString(json: string, place: number): number {
  for (let at = place + 1; ; ) {
    const quote = json.indexOf('"', at);
    let slashes = 0;
    while (json.charCodeAt(quote - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

function skipValue(json: string, place: number): number {
  const first = json[place];
  if (first === '"') return skipString(json, place);
  if (first === "{" || first === "[") return skipNested(json, place);
  let at = place;
  while (at < json.length && !",]} \n\r\t".includes(json[at]!)) at++;
  return at;
}

function skipNested(json: string, place: number): number {
  let depth = 0;
  for (let at = place; at < json.length; ) {
    const code = json.charCodeAt(at);
    if (code === 0x22) {
      at = skipString(json, at);
      continue;
    }
    at++;
    if (code === 0x7b || code === 0x5b) depth++;
    else if ((code === 0x7d || code === 0x5d) && --depth === 0) return at;
  }
  return json.length;
}

interface Edit extends Span {
  text: string;
}

/** The requests whose results declare what the server can do, in the two eras of MCP. */
const GREETINGS: readonly unknown[] = ["initialize", "server/discover"];

/** Adds ids to the results of one conversation. It remembers which open requests are tool calls, and what they ask for. */
export class LeafLines {
  private readonly calls = new Map<string, unknown>();
  private readonly greetings = new Set<string>();

  constructor(
    private readonly metas: readonly MetaTokenizer[],
    private readonly options: WrapOptions = {},
  ) {}

  /** A line from the client, which is passed on as it is. */
  fromClient(line: Uint8Array): void {
    const parsed = parse(line);
    for (const message of Array.isArray(parsed?.value) ? parsed.value : [parsed?.value]) this.note(message);
  }

  /** A line from the server: the same bytes, unless it answers a tool call or declares capabilities. */
  fromServer(line: Uint8Array): Uint8Array {
    if (this.calls.size === 0 && this.greetings.size === 0) return line;
    const parsed = parse(line);
    if (parsed === null) return line;
    const { json, value } = parsed;
    const edits = Array.isArray(value)
      ? elementsAt(json, 0).flatMap((span, index) => this.editsOf(json, span.start, value[index]))
      : this.editsOf(json, 0, value);
    return edits.length === 0 ? line : Buffer.from(applyEdits(json, edits));
  }

  private note(message: unknown): void {
    if (!isRecord(message)) return;
    if (message.method === "tools/call" && message.id !== undefined)
      this.calls.set(keyOf(message.id), isRecord(message.params) ? message.params._meta : undefined);
    if (GREETINGS.includes(message.method) && message.id !== undefined) this.greetings.add(keyOf(message.id));
    // A cancelled call may never be answered, and must not be remembered for ever.
    if (message.method === "notifications/cancelled" && isRecord(message.params))
      this.calls.delete(keyOf(message.params.requestId));
  }

  private editsOf(json: string, place: number, message: unknown): Edit[] {
    // Requests of the server have separate ids, which may equal those of the client.
    if (!isRecord(message) || message.id === undefined || message.method !== undefined) return [];
    const key = keyOf(message.id);
    if (this.greetings.delete(key)) return declarationEdits(json, place, message.result, this.metas);
    const requestMeta = this.calls.get(key);
    if (!this.calls.delete(key) || !isRecord(message.result)) return [];
    if (!Array.isArray(message.result.content)) return [];
    // The limit is on all texts of a result, so it is wrapped as a whole.
    const present = message.result.content;
    const wrapped = wrapToolCall({ content: present }, this.metas, { ...this.options, requestMeta }).content;
    const texts = wrapped.filter(isTextBlock);
    let next = 0;
    const result = memberNamed(membersAt(json, place), "result");
    const content = memberNamed(membersAt(json, result!.value.start), "content");
    return contentEdits(json, content!.value.start, present, () => texts[next++]);
  }
}

/** Adds the extension to the capabilities in a result, unless the server declares it itself. */
function declarationEdits(json: string, place: number, result: unknown, metas: readonly MetaTokenizer[]): Edit[] {
  const capabilities = isRecord(result) ? result.capabilities : undefined;
  if (!isRecord(capabilities)) return [];
  const { extensions } = capabilities;
  if (extensions !== undefined && (!isRecord(extensions) || Object.hasOwn(extensions, LEAF_EXTENSION))) return [];
  const outer = memberNamed(membersAt(json, place), "result")!;
  const { value } = memberNamed(membersAt(json, outer.value.start), "capabilities")!;
  const own = JSON.stringify(leafCapability(metas)).slice(1, -1);
  const inner = memberNamed(membersAt(json, value.start), "extensions");
  if (inner === undefined) return [addMember(json, value.start, `"extensions":{${own}}`)];
  return [addMember(json, inner.value.start, own)];
}

/** Puts a member first into the object at this place. */
function addMember(json: string, place: number, member: string): Edit {
  const at = place + 1;
  return { start: at, end: at, text: membersAt(json, place).length === 0 ? member : `${member},` };
}

/** 1 and "1" are different ids. */
function keyOf(id: unknown): string {
  return JSON.stringify(id) ?? "";
}

function parse(line: Uint8Array): { json: string; value: unknown } | null {
  try {
    const json = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(line);
    return { json, value: JSON.parse(json) as unknown };
  } catch {
    return null;
  }
}

function contentEdits(json: string, place: number, blocks: unknown[], wrap: (block: unknown) => unknown): Edit[] {
  const spans = elementsAt(json, place);
  const edits: Edit[] = [];
  let afterText = false;
  blocks.forEach((block, index) => {
    const span = spans[index]!;
    if (afterText && isWithdrawnBlock(block)) {
      // Including the comma before it.
      edits.push({ start: spans[index - 1]!.end, end: span.end, text: "" });
      return;
    }
    afterText = isTextBlock(block);
    const wrapped = afterText ? wrap(block) : block;
    if (wrapped !== block) edits.push({ ...span, text: withMeta(json, span, wrapped) });
  });
  return edits;
}

/** The JSON text of the block with another `_meta`; all other members are copied literally. */
function withMeta(json: string, span: Span, block: unknown): string {
  const members = membersAt(json, span.start);
  const old = memberNamed(members, "_meta");
  const parts = members
    .filter((member) => member.key !== "_meta")
    .map((member) => json.slice(member.start, member.end));
  const meta = isRecord(block) ? block._meta : undefined;
  if (isRecord(meta)) parts.push(`"_meta":{${metaMembers(json, old, meta).join(",")}}`);
  return `{${parts.join(",")}}`;
}

function metaMembers(json: string, old: Member | undefined, meta: Record<string, unknown>): string[] {
  const isObject = old !== undefined && json[old.value.start] === "{";
  const others = isObject ? membersAt(json, old.value.start).filter((member) => member.key !== CODEC_META_KEY) : [];
  const parts = others.map((member) => json.slice(member.start, member.end));
  const payload = meta[CODEC_META_KEY];
  return payload === undefined ? parts : [...parts, `${JSON.stringify(CODEC_META_KEY)}:${JSON.stringify(payload)}`];
}

function applyEdits(json: string, edits: readonly Edit[]): string {
  let at = 0;
  const parts: string[] = [];
  for (const { start, end, text } of edits) {
    parts.push(json.slice(at, start), text);
    at = end;
  }
  return parts.join("") + json.slice(at);
}

const LINE_FEED = 0x0a;

/** A stream that replaces each line by the result of a function. Bytes are not decoded: a character may span chunks. */
export function lineStream(each: (line: Buffer) => Uint8Array): Transform {
  // A long line arrives in many chunks, which are joined once.
  let pending: Buffer[] = [];
  return new Transform({
    transform(chunk: Buffer, _encoding, done: TransformCallback) {
      let start = 0;
      for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
        this.push(each(Buffer.concat([...pending, chunk.subarray(start, end + 1)])));
        pending = [];
        start = end + 1;
      }
      if (start < chunk.length) pending.push(chunk.subarray(start));
      done();
    },
    flush(done: TransformCallback) {
      if (pending.length > 0) this.push(each(Buffer.concat(pending)));
      done();
    },
  });
}

const GRACE_MS = 2_000;
const NOT_FOUND = 127;
const ENDING_SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

/** Relays between the standard streams of this process and those of the server, until the server ends. Returns its status. */
export function wrapCommand(
  command: readonly string[],
  metas: readonly MetaTokenizer[],
  options: WrapOptions,
): Promise<number> {
  const lines = new LeafLines(metas, options);
  const child = spawn(command[0]!, command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  const toClient = lineStream((line) => addIds(lines, line));
  const toServer = lineStream((line) => {
    lines.fromClient(line);
    return line;
  });
  process.stdin.pipe(toServer).pipe(child.stdin);
  child.stdout.pipe(toClient).pipe(process.stdout);
  // A server that closes its input, or a client that closes ours, ends the conversation; this is not an error.
  child.stdin.on("error", () => {});
  process.stdout.on("error", () => endChild(child));
  process.stdin.once("end", () => endLater(child));
  process.stdin.once("error", () => endLater(child));
  for (const signal of ENDING_SIGNALS) process.on(signal, () => endChild(child));
  return statusOf(child, toClient);
}

/** A line that cannot be processed is passed on unchanged. */
function addIds(lines: LeafLines, line: Buffer): Uint8Array {
  try {
    return lines.fromServer(line);
  } catch (error) {
    process.stderr.write(`mcp-leaf: a result stays plain: ${error instanceof Error ? error.message : error}\n`);
    return line;
  }
}

/** Gives a server whose input was closed some time to end by itself, then terminates it. */
function endLater(child: ChildProcess): void {
  setTimeout(() => endChild(child), GRACE_MS).unref();
}

function endChild(child: ChildProcess): void {
  child.kill("SIGTERM");
  setTimeout(() => child.kill("SIGKILL"), GRACE_MS).unref();
}

/** Resolves when the server has ended and its last line has been passed on. */
function statusOf(child: ChildProcess, toClient: NodeJS.ReadableStream): Promise<number> {
  return new Promise((resolve) => {
    let hasExited = false;
    const end = new Promise<void>((done) => toClient.once("end", done));
    child.once("error", (error) => {
      process.stderr.write(`mcp-leaf: cannot run the server: ${error.message}\n`);
      resolve(NOT_FOUND);
    });
    child.once("exit", async (code, signal) => {
      if (hasExited) return;
      hasExited = true;
      // A grandchild may hold the pipe open: its output is relayed for this long.
      await Promise.race([end, new Promise((done) => setTimeout(done, GRACE_MS).unref())]);
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    });
  });
}
