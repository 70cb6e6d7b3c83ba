"""The definitions of the few tools that a client sees instead of all tools of all servers (data/meta_tools.toml).

The description of tool_browse names what the catalog contains, so that an agent knows when to browse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from leafgate.browse.cards import make_card
from leafgate.data import expand, load_table
from leafgate.digest.selectors import SELECTOR_SCHEMA
from leafgate.gateway.native import NativeTool
from leafgate.gateway.snapshot import Snapshot
from leafgate.model.tool import ALL_META_TOOLS, META_TOOLS, ExposureMode

NAMED_SERVERS: Final = 12
# Claude Code defers the tools of MCP servers, and would hide the very tools that find the others.
META: Final = {"anthropic/alwaysLoad": True}
SHOWN_FIELDS: Final = ("name", "title", "annotations", "icons")

_TOOLS: Final = load_table("meta_tools", dict.fromkeys(ALL_META_TOOLS, dict))
_TOOLS["tool_view"]["inputSchema"]["properties"]["selector"] = SELECTOR_SCHEMA


def meta_tools(
    snapshot: Snapshot, mode: ExposureMode, servers: Sequence[str], *, hydrate: bool = True
) -> list[Mapping[str, Any]]:
    """The gateway's own tools for tools/list, in their order. `servers` are named before they have started."""
    has = {"resource": len(snapshot.resources.catalog) > 0, "prompt": len(snapshot.prompts.catalog) > 0}
    names = [name for name in META_TOOLS[mode] if has.get(name.partition("_")[0], True)]
    more = len(servers) - NAMED_SERVERS
    count = f"{len(snapshot.catalog)} tools" if len(snapshot.catalog) else "Tools"
    listed = f"{', '.join(servers[:NAMED_SERVERS])}{f' and {more} more' if more > 0 else ''}"
    holdings = {"HOLDINGS": f"{count} of the servers {listed}."}
    return [
        {"name": name, **_TOOLS[name], "description": expand(_TOOLS[name]["description"], holdings), "_meta": META}
        for name in names
        if hydrate or name != "tool_hydrate"
    ]


def define_for(tool: NativeTool, takes_any_json: bool) -> Mapping[str, Any]:
    """The definition of a tool. Before 2026-07-28 clients refuse a whole list for an output schema that is not of an
    object; they get results of such a tool as text."""
    schema = tool.definition.get("outputSchema")
    if takes_any_json or schema is None or schema.get("type") == "object":
        return tool.definition
    return {key: value for key, value in tool.definition.items() if key != "outputSchema"}


def stripped_tools(tools: Iterable[NativeTool]) -> list[Mapping[str, Any]]:
    """One short entry per tool, with what clients show of it and without its schema."""
    return [
        {
            **{key: tool.definition[key] for key in SHOWN_FIELDS if key in tool.definition},
            "description": make_card(tool.item).description,
            "inputSchema": {"type": "object"},
        }
        for tool in tools
    ]
