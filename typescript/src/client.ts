/**
 * In: the address of an MCP server, best of a leafgate gateway. Out: a client that calls its tools, in frames where the
 * server speaks them and in JSON where not. Touches the network. This is the package's second entry point.
 */
import { ProtocolError } from "./client-errors.js";
import { type ConnectOptions, type Settings, settingsOf } from "./connect-options.js";
import { Connection, type RequestOptions } from "./connection.js";
import { type Params, withMeta } from "./eras.js";
import { isRecord } from "./leaf.js";
import { readAnswer, type ToolAnswer } from "./tool-answer.js";

export type { OnProgress, Progress } from "./call.js";
export * from "./client-errors.js";
export type { ConnectOptions, Form, Token } from "./connect-options.js";
export type { RequestOptions } from "./connection.js";
export type { ClientInfo } from "./eras.js";
export { FRAMES_TYPE, FrameReader, MAX_MESSAGE_BYTES, packFrame, unpackMessage } from "./frames.js";
export type { Message } from "./message-reader.js";
export type { ToolAnswer } from "./tool-answer.js";

/** As many pages as a list may have: a server that never ends its list is not followed for ever. */
const MAX_PAGES = 1_000;

export interface Tool {
  name: string;
  [field: string]: unknown;
}

/** What `tool_browse` takes: a wish in words, or a path to list. */
export type Wanted = { query: string; topK?: number | undefined } | { path: string; topK?: number | undefined };

export interface ExecuteOptions extends RequestOptions {
  /** Only checks the call. */
  dryRun?: boolean | undefined;
}

/** Connects. Throws ClientError; the reason of `signal` where it was aborted. */
export async function connect(options: ConnectOptions): Promise<Client> {
  const settings = settingsOf(options);
  return new Client(settings, await Connection.open(settings, options.signal));
}

export class Client {
  /** Use `connect`. */
  constructor(
    private readonly settings: Settings,
    private readonly connection: Connection,
  ) {}

  get protocolVersion(): string {
    return this.connection.protocolVersion;
  }

  /** Whether the server's last answer came in frames. */
  get speaksFrames(): boolean {
    return this.connection.speaksFrames;
  }

  /** The result of any request of MCP, as it came. */
  request(method: string, params: Params = {}, options?: RequestOptions): Promise<Params> {
    return this.connection.request(method, withMeta(params, this.settings.wish), options);
  }

  /** All tools, through all pages of the list. */
  async listTools(options?: RequestOptions): Promise<Tool[]> {
    const tools: Tool[] = [];
    let params: Params = {};
    for (let page = 0; page < MAX_PAGES; page++) {
      const result = await this.request("tools/list", params, options);
      if (!Array.isArray(result.tools) || !result.tools.every(isTool)) throw new ProtocolError("the list has no tools");
      tools.push(...result.tools);
      const { nextCursor } = result;
      if (typeof nextCursor !== "string") return tools;
      if (nextCursor === params.cursor) throw new ProtocolError("the list of tools goes round in circles");
      params = { cursor: nextCursor };
    }
    throw new ProtocolError(`the list of tools has more than ${MAX_PAGES} pages`);
  }

  /** Calls a tool. A tool's own error is an answer, with `isError`; LeafError where its ids are not to be believed. */
  async callTool(name: string, args: Params = {}, options?: RequestOptions): Promise<ToolAnswer> {
    const result = await this.request("tools/call", { name, arguments: args }, options);
    if (result.resultType === "input_required") throw new ProtocolError("the tool asks for input that was not offered");
    if (!Array.isArray(result.content)) throw new ProtocolError("the result has no content");
    return readAnswer(result, this.settings.reading);
  }

  /** Finds tools of a gateway. */
  browse(wanted: Wanted, options?: RequestOptions): Promise<ToolAnswer> {
    const { topK, ...what } = wanted;
    return this.callTool("tool_browse", { ...what, ...(topK === undefined ? {} : { top_k: topK }) }, options);
  }

  /** Calls a tool behind a gateway by its id. */
  execute(toolId: string, args: Params = {}, { dryRun = false, ...options }: ExecuteOptions = {}): Promise<ToolAnswer> {
    return this.callTool("tool_execute", { tool_id: toolId, args, ...(dryRun ? { dry_run: true } : {}) }, options);
  }

  /** A part of a result that a gateway has shortened. */
  view(handle: string, selector: Params, options?: RequestOptions): Promise<ToolAnswer> {
    return this.callTool("tool_view", { handle, selector }, options);
  }

  /** Ends what is under way, and the session where there is one. */
  close(): Promise<void> {
    return this.connection.close();
  }
}

function isTool(value: unknown): value is Tool {
  return isRecord(value) && typeof value.name === "string";
}
