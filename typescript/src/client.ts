/**
 * The client: calls the tools of an MCP server, in frames where the server offers them and in JSON otherwise. This is the
 * second entry point of the package.
 */

import { ProtocolError } from "./client-errors.js";
import { type ConnectOptions, type Settings, settingsOf } from "./connect-options.js";
import { Connection, type RequestOptions } from "./connection.js";
import { isRecord } from "./leaf.js";
import { type Params, withMeta } from "./protocol.js";
import {
  type BrowseAnswer,
  type HydrateAnswer,
  readAnswer,
  readHydrated,
  readPage,
  type ToolAnswer,
} from "./tool-answer.js";

export * from "./client-errors.js";
export type { ConnectOptions, Form, Token } from "./connect-options.js";
export type { RequestOptions } from "./connection.js";
export type { Message } from "./messages.js";
export { FRAMES_TYPE, FrameReader, MAX_MESSAGE_BYTES, packFrame, unpackMessage } from "./messages.js";
export type { ClientInfo, OnProgress, Progress } from "./protocol.js";
export type { BrowseAnswer, Card, CardPage, HydrateAnswer, HydratedTool, Signal, ToolAnswer } from "./tool-answer.js";

// A gateway sends the cards as JSON only where the full form is asked for.
const FULL_FORM = { "leafgate/accept": { envelope: "full" } };

/** The most pages of a list, in case a server never ends it. */
const MAX_PAGES = 1_000;

export interface Tool {
  name: string;
  [field: string]: unknown;
}

/** The arguments of `tool_browse`: a query, or a path to list. */
export type Wanted = { query: string; topK?: number | undefined } | { path: string; topK?: number | undefined };

export interface ExecuteOptions extends RequestOptions {
  /** Only check the call. */
  dryRun?: boolean | undefined;
}

/** Connects to a server. Throws ClientError, or the reason of `signal` if it is aborted. */
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

  /** The result of any MCP request, as the server sent it. */
  request(method: string, params: Params = {}, options?: RequestOptions): Promise<Params> {
    return this.connection.request(method, withMeta(params, this.settings.acceptMeta), options);
  }

  /** All tools, through all pages of the list. */
  async listTools(options?: RequestOptions): Promise<Tool[]> {
    const tools: Tool[] = [];
    let params: Params = {};
    for (let page = 0; page < MAX_PAGES; page++) {
      const result = await this.request("tools/list", params, options);
      if (!Array.isArray(result.tools) || !result.tools.every(isTool))
        throw new ProtocolError("the result has no list of tools");
      tools.push(...result.tools);
      const { nextCursor } = result;
      if (typeof nextCursor !== "string") return tools;
      if (nextCursor === params.cursor) throw new ProtocolError("the list of tools repeats a page");
      params = { cursor: nextCursor };
    }
    throw new ProtocolError(`the list of tools has more than ${MAX_PAGES} pages`);
  }

  /** Calls a tool. An error of the tool is an answer with `isError`. Throws LeafError for ids that are not valid. */
  async callTool(name: string, args: Params = {}, options?: RequestOptions): Promise<ToolAnswer> {
    return this.call({ name, arguments: args }, options);
  }

  private async call(params: Params, options?: RequestOptions): Promise<ToolAnswer> {
    const result = await this.request("tools/call", params, options);
    if (result.resultType === "input_required")
      throw new ProtocolError("the server asks for input, which this client cannot give");
    if (!Array.isArray(result.content)) throw new ProtocolError("the result has no content");
    return readAnswer(result, this.settings.reading);
  }

  /** Finds tools of a gateway. */
  async browse({ topK, ...rest }: Wanted, options?: RequestOptions): Promise<BrowseAnswer> {
    const args = { ...rest, ...(topK === undefined ? {} : { top_k: topK }) };
    return readPage(await this.call({ name: "tool_browse", arguments: args, _meta: FULL_FORM }, options));
  }

  /** The description and schemas of a tool behind a gateway. */
  async hydrate(toolId: string, options?: RequestOptions): Promise<HydrateAnswer> {
    return readHydrated(await this.callTool("tool_hydrate", { tool_id: toolId }, options));
  }

  /** Calls a tool behind a gateway by its id. */
  execute(toolId: string, args: Params = {}, { dryRun = false, ...options }: ExecuteOptions = {}): Promise<ToolAnswer> {
    return this.callTool("tool_execute", { tool_id: toolId, args, ...(dryRun ? { dry_run: true } : {}) }, options);
  }

  /** A part of a result that a gateway has shortened. */
  view(handle: string, selector: Params, options?: RequestOptions): Promise<ToolAnswer> {
    return this.callTool("tool_view", { handle, selector }, options);
  }

  /** Ends all requests, and the session if there is one. */
  close(): Promise<void> {
    return this.connection.close();
  }
}

function isTool(value: unknown): value is Tool {
  return isRecord(value) && typeof value.name === "string";
}
