/**
 * An MCP server on standard input and output. CODEC_MAP_URL and CODEC_MAP_HASH in the environment name its map; without
 * a map it prints a warning and serves results without ids.
 */
import { makeMetaTokenizer, wrapServer } from "@codecai/mcp-leaf";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";
import { convertTime, currentTime, ZoneError } from "./clock.js";

const zone = z.string().describe("IANA time zone, such as Europe/Berlin");

const server = new McpServer({ name: "leaf-time-server", version: "0.6.0" });

server.registerTool(
  "get_current_time",
  {
    description: "The current time in a time zone.",
    inputSchema: { timezone: zone.default("UTC") },
    annotations: { readOnlyHint: true },
  },
  ({ timezone }) => answer(() => currentTime(new Date(), timezone)),
);

server.registerTool(
  "convert_time",
  {
    description: "What a time of today in one time zone is in another.",
    inputSchema: {
      source_timezone: zone,
      time: z.string().describe("time of day, HH:MM, 24 hours"),
      target_timezone: zone,
    },
    annotations: { readOnlyHint: true },
  },
  ({ source_timezone, time, target_timezone }) =>
    answer(() => convertTime(new Date(), source_timezone, time, target_timezone)),
);

function answer(sentence: () => string): CallToolResult {
  try {
    return { content: [{ type: "text", text: sentence() }] };
  } catch (error) {
    if (!(error instanceof ZoneError)) throw error;
    return { content: [{ type: "text", text: error.message }], isError: true };
  }
}

async function addLeaves(): Promise<void> {
  const mapUrl = process.env.CODEC_MAP_URL || "qwen/qwen2";
  try {
    wrapServer(server, await makeMetaTokenizer({ mapUrl, mapHash: process.env.CODEC_MAP_HASH || undefined }));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(`time-server: serving plain results, the map cannot be loaded: ${reason}\n`);
  }
}

await addLeaves();
process.stdin.once("end", () => void server.close());
await server.connect(new StdioServerTransport());
