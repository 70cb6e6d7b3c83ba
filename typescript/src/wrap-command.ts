/**
 * In: the command of a stdio MCP server, and a tokenizer. Out: the status with which that server ended.
 * Touches: a child process, the standard streams, signals. It dies with its child, and its child dies with it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import type { MetaTokenizer } from "./leaf.js";
import { LeafLines } from "./leaf-lines.js";
import { lineStream } from "./line-stream.js";
import type { WrapOptions } from "./write-leaf.js";

const GRACE_MS = 2_000;
const NOT_FOUND = 127;
const ENDING_SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

/** Relays between our own standard streams and the server's, until the server has ended. */
export function wrapCommand(command: readonly string[], meta: MetaTokenizer, options: WrapOptions): Promise<number> {
  const lines = new LeafLines(meta, options);
  const child = spawn(command[0]!, command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  const toClient = lineStream((line) => passedOn(lines, line));
  const toServer = lineStream((line) => {
    lines.fromClient(line);
    return line;
  });
  process.stdin.pipe(toServer).pipe(child.stdin);
  child.stdout.pipe(toClient).pipe(process.stdout);
  // A server that closes its input, or a client that closes ours, is an end of the conversation and no fault of ours.
  child.stdin.on("error", () => {});
  process.stdout.on("error", () => endChild(child));
  process.stdin.once("end", () => endLater(child));
  process.stdin.once("error", () => endLater(child));
  for (const signal of ENDING_SIGNALS) process.on(signal, () => endChild(child));
  return statusOf(child, toClient);
}

/** A line that we cannot work on is still the client's: it passes as it is. */
function passedOn(lines: LeafLines, line: Buffer): Uint8Array {
  try {
    return lines.fromServer(line);
  } catch (error) {
    process.stderr.write(`mcp-leaf: a result stays plain: ${error instanceof Error ? error.message : error}\n`);
    return line;
  }
}

/** A closed input tells a good server to end. One that does not is told again, less politely each time. */
function endLater(child: ChildProcess): void {
  setTimeout(() => endChild(child), GRACE_MS).unref();
}

function endChild(child: ChildProcess): void {
  child.kill("SIGTERM");
  setTimeout(() => child.kill("SIGKILL"), GRACE_MS).unref();
}

/** Resolves when the server has ended and its last line was passed on. */
function statusOf(child: ChildProcess, toClient: NodeJS.ReadableStream): Promise<number> {
  return new Promise((resolve) => {
    let answered = false;
    const drained = new Promise<void>((done) => toClient.once("end", done));
    child.once("error", (error) => {
      process.stderr.write(`mcp-leaf: cannot run the server: ${error.message}\n`);
      resolve(NOT_FOUND);
    });
    child.once("exit", async (code, signal) => {
      if (answered) return;
      answered = true;
      // A grandchild may hold the pipe open: what it still says has this long.
      await Promise.race([drained, new Promise((done) => setTimeout(done, GRACE_MS).unref())]);
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    });
  });
}
