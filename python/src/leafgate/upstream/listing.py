"""Everything one server offers. In: a session. Out: its tools, resources, templates and prompts, all pages of each.

Touches the server. What the server does not declare is not asked for; a list that fails half-way is no list at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from mcp import ClientSession, MCPError
from mcp.types import METHOD_NOT_FOUND, ServerCapabilities

from leafgate.model.errors import UpstreamFailure
from leafgate.upstream.raw_session import raw_request

MAX_PAGES: Final = 1_000

Definitions = Sequence[Mapping[str, Any]]
ListKind = Literal["tools", "resources", "resourceTemplates", "prompts"]

_METHODS: Final[Mapping[ListKind, str]] = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
    "prompts": "prompts/list",
}


@dataclass(frozen=True)
class Listed:
    """What a server offers, as it said it."""

    tools: Definitions = ()
    resources: Definitions = ()
    templates: Definitions = ()
    prompts: Definitions = ()


async def list_everything(session: ClientSession, offers: ServerCapabilities, seconds: float) -> Listed:
    """All lists of a server."""
    has_resources = offers.resources is not None
    return Listed(
        tools=await _pages(session, "tools", seconds) if offers.tools is not None else (),
        resources=await _pages(session, "resources", seconds) if has_resources else (),
        templates=await _optional_pages(session, "resourceTemplates", seconds) if has_resources else (),
        prompts=await _pages(session, "prompts", seconds) if offers.prompts is not None else (),
    )


async def _optional_pages(session: ClientSession, kind: ListKind, seconds: float) -> Definitions:
    """A server with resources need not have templates."""
    try:
        return await _pages(session, kind, seconds)
    except MCPError as error:
        if error.code == METHOD_NOT_FOUND:
            return ()
        raise


async def _pages(session: ClientSession, kind: ListKind, seconds: float) -> Definitions:
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        params = {} if cursor is None else {"cursor": cursor}
        page = await raw_request(session, _METHODS[kind], params, seconds=seconds)
        listed = page.get(kind)
        found += (
            [definition for definition in listed if isinstance(definition, dict)] if isinstance(listed, list) else []
        )
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            return tuple(found)
    raise UpstreamFailure("UPSTREAM_ERROR", f"a list of {kind} has more than {MAX_PAGES} pages")
