"""Asks MCP servers what they list. In: a JSON file {server: command}. Out: a catalog file [{server, tool}].

    python collect.py servers.json --out unseen_catalog.json

The servers of unseen_queries.jsonl (npm, November 2026; placeholder keys in the environment are enough to be told
the tools): @bitwarden/mcp-server, @brave/brave-search-mcp-server, @cocal/google-calendar-mcp, @currents/mcp,
@elastic/mcp-server-elasticsearch, @hubspot/mcp-server, @line/line-bot-mcp-server, @mapbox/mcp-server,
@mobilenext/mobile-mcp, @modelcontextprotocol/server-everart, @modelcontextprotocol/server-postgres,
@notionhq/notion-mcp-server, @pinecone-database/mcp, @postman/postman-mcp-server (--full), @sentry/mcp-server,
@translated/lara-mcp, @upstash/context7-mcp, @winor30/mcp-server-datadog, airtable-mcp-server, exa-mcp-server,
figma-developer-mcp, linear-mcp-server, mcp-obsidian, mcp-server-docker, mongodb-mcp-server, tavily-mcp.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "collect", "version": "1"}}


def tools_of(command: list[str]) -> list[dict[str, Any]]:
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdin
    assert server.stdout

    def ask(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
        server.stdin.flush()
        for line in server.stdout:
            if line.startswith("{") and json.loads(line).get("id") == number:
                return json.loads(line)["result"]
        return {}

    try:
        ask(1, "initialize", HELLO)
        server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        found: list[dict[str, Any]] = []
        page: dict[str, Any] = {"nextCursor": None}
        while "nextCursor" in page:
            cursor = {"cursor": page["nextCursor"]} if page["nextCursor"] else {}
            page = ask(len(found) + 2, "tools/list", cursor)
            found += page.get("tools", [])
        return found
    finally:
        server.kill()


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("servers", type=Path)
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    catalog = []
    for server, command in json.loads(given.servers.read_text()).items():
        found = tools_of(command)
        print(server, len(found), flush=True)
        catalog += [{"server": server, "tool": tool} for tool in found]
    given.out.write_text(json.dumps(catalog))


if __name__ == "__main__":
    main()
