"""The few tools that a client sees instead of a thousand. In: a snapshot and a mode. Out: tool definitions.

Touches nothing. The descriptions name what the catalog holds, so that an agent knows when to browse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.browse.cards import make_card
from leafgate.firewall.selectors import SELECTOR_SCHEMA
from leafgate.gateway.snapshot import Snapshot
from leafgate.model.mode import META_TOOLS, ExposureMode

NAMED_SERVERS: Final = 12

_READ_ONLY: Final = {"readOnlyHint": True}


@dataclass(frozen=True)
class Offered:
    """What there is to be named. `servers` are known before they have come up."""

    servers: Sequence[str]
    hydrate: bool = True
    resources: bool = False
    prompts: bool = False


def meta_tools(snapshot: Snapshot, mode: ExposureMode, offered: Offered) -> list[Mapping[str, Any]]:
    """The gateway's own tools for tools/list, in their order."""
    shown = {
        "tool_hydrate": offered.hydrate,
        "resource_browse": offered.resources,
        "resource_read": offered.resources,
        "prompt_browse": offered.prompts,
        "prompt_get": offered.prompts,
    }
    definitions = _definitions(snapshot, offered)
    return [definitions[name] for name in META_TOOLS[mode] if shown.get(name, True)]


def stripped_tools(snapshot: Snapshot, written: Callable[[str], str]) -> list[Mapping[str, Any]]:
    """One entry per upstream tool, without its schema: for looking around, not for calling."""
    return [
        {"name": written(item.id), "description": make_card(item).description, "inputSchema": {"type": "object"}}
        for item in snapshot.catalog
    ]


def _definitions(snapshot: Snapshot, offered: Offered) -> dict[str, Mapping[str, Any]]:
    holdings = _holdings(snapshot, offered.servers)
    return {
        "tool_browse": _browser("tool", f"Find tools. {holdings} Search by what you want to do (query), "),
        "tool_hydrate": {
            "name": "tool_hydrate",
            "description": "Get the argument schema of a tool id, before the first call.",
            "inputSchema": _object({"tool_id": {"type": "string"}}, "tool_id"),
            "annotations": _READ_ONLY,
        },
        "tool_execute": {
            "name": "tool_execute",
            "description": "Call a tool by its id. A long result is shortened and kept under a handle for tool_view.",
            "inputSchema": _object(
                {
                    "tool_id": {"type": "string"},
                    "args": {"type": "object", "description": "The tool's arguments.", "default": {}},
                    "dry_run": {"type": "boolean", "description": "Only check the call.", "default": False},
                },
                "tool_id",
            ),
        },
        "tool_view": {
            "name": "tool_view",
            "description": "Read a part of a result that was shortened, by its handle.",
            "inputSchema": _object({"handle": {"type": "string"}, "selector": SELECTOR_SCHEMA}, "handle", "selector"),
            "annotations": _READ_ONLY,
        },
        "resource_browse": _browser("resource", "Find resources (files, pages, records). Search (query), "),
        "resource_read": {
            "name": "resource_read",
            "description": "Read a resource by its id. A long one is shortened and kept for tool_view.",
            "inputSchema": _object({"resource_id": {"type": "string"}}, "resource_id"),
            "annotations": _READ_ONLY,
        },
        "prompt_browse": _browser("prompt", "Find prompts that servers offer. Search (query), "),
        "prompt_get": {
            "name": "prompt_get",
            "description": "Get a prompt by its id, filled with its arguments.",
            "inputSchema": _object({"prompt_id": {"type": "string"}, "args": {"type": "object"}}, "prompt_id"),
            "annotations": _READ_ONLY,
        },
    }


def _browser(kind: str, opening: str) -> Mapping[str, Any]:
    return {
        "name": f"{kind}_browse",
        "description": f"{opening}or list a path such as / or /server. Answers with {kind} ids.",
        "inputSchema": _object(
            {
                "query": {"type": "string", "description": "What you want to do, in your own words."},
                "path": {"type": "string", "description": "A path to list instead of searching."},
                "top_k": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
            }
        ),
        "annotations": _READ_ONLY,
    }


def _object(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties)} | ({"required": [*required]} if required else {})


def _holdings(snapshot: Snapshot, servers: Sequence[str]) -> str:
    shown = ", ".join(servers[:NAMED_SERVERS])
    more = len(servers) - NAMED_SERVERS
    known = f"{len(snapshot.catalog)} tools" if len(snapshot.catalog) else "Tools"
    return f"{known} of the servers {shown}{f' and {more} more' if more > 0 else ''}."
