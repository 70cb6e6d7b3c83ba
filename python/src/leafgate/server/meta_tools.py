"""The few tools that a client sees instead of a thousand. In: a snapshot. Out: tool definitions and a dispatch table.

Touches nothing. The descriptions name what the catalog holds, so that an agent knows when to browse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leafgate.gateway.snapshot import Snapshot

NAMED_SERVERS: Final = 12

_SELECTOR: Final = {
    "type": "object",
    "description": "Which part. lines: start, end (from 1). head, tail: lines. search: text, context. stats.",
    "properties": {
        "type": {"enum": ["head", "tail", "lines", "search", "stats"]},
        "start": {"type": "integer", "minimum": 1},
        "end": {"type": "integer", "minimum": 1},
        "lines": {"type": "integer", "minimum": 1},
        "text": {"type": "string"},
        "context": {"type": "integer", "minimum": 1},
    },
    "required": ["type"],
}


def meta_tools(snapshot: Snapshot, servers: Sequence[str]) -> list[dict[str, Any]]:
    """The definitions for tools/list, in their order. `servers` are known before they have come up."""
    return [
        {
            "name": "tool_browse",
            "description": f"Find tools. {_holdings(snapshot, servers)} Search by what you want to do (query), "
            "or list a path such as / or /server. Answers with tool ids.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What you want to do, in your own words."},
                    "path": {"type": "string", "description": "A path to list instead of searching."},
                    "top_k": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
                },
            },
            "annotations": {"readOnlyHint": True},
        },
        {
            "name": "tool_hydrate",
            "description": "Get the argument schema of a tool id from tool_browse, before the first call.",
            "inputSchema": {
                "type": "object",
                "properties": {"tool_id": {"type": "string"}},
                "required": ["tool_id"],
            },
            "annotations": {"readOnlyHint": True},
        },
        {
            "name": "tool_execute",
            "description": "Call a tool by its id. A long result is shortened and kept under a handle for tool_view.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "tool_id": {"type": "string"},
                    "args": {"type": "object", "description": "The tool's arguments.", "default": {}},
                },
                "required": ["tool_id"],
            },
        },
        {
            "name": "tool_view",
            "description": "Read a part of a result that was shortened, by its handle.",
            "inputSchema": {
                "type": "object",
                "properties": {"handle": {"type": "string"}, "selector": _SELECTOR},
                "required": ["handle", "selector"],
            },
            "annotations": {"readOnlyHint": True},
        },
    ]


def _holdings(snapshot: Snapshot, servers: Sequence[str]) -> str:
    shown = ", ".join(servers[:NAMED_SERVERS])
    more = len(servers) - NAMED_SERVERS
    known = f"{len(snapshot.catalog)} tools" if len(snapshot.catalog) else "Tools"
    return f"{known} of the servers {shown}{f' and {more} more' if more > 0 else ''}."
