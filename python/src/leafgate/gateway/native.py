"""Upstream offers as plain MCP clients know them: under their own names, with whole definitions. In: a snapshot.

Touches nothing. Names that two servers share are prefixed with the server's, on both sides, so that neither wins by
accident; definitions are cleaned before anybody sees them, and what names a thing is never changed by cleaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from leafgate.gateway.snapshot import Snapshot
from leafgate.model.tool import SelectableItem
from leafgate.model.tool_id import normalize_namespace
from leafgate.ports import ToolListing


@dataclass(frozen=True)
class NativeTool:
    """A tool under its public name."""

    item: SelectableItem
    definition: Mapping[str, Any]


@dataclass(frozen=True)
class NativePrompt:
    """A prompt under its public name."""

    server: str
    upstream_name: str
    definition: Mapping[str, Any]


@dataclass(frozen=True)
class NativeOffers:
    """Everything, by the name that clients use for it."""

    tools: Mapping[str, NativeTool]
    prompts: Mapping[str, NativePrompt]
    resources: Mapping[str, Mapping[str, Any]]
    templates: Mapping[str, Mapping[str, Any]]
    server_of_resource: Mapping[str, str]


def native_offers(snapshot: Snapshot, clean_json: Callable[[Any], Any]) -> NativeOffers:
    """The native view of a snapshot. What intake left out is left out here too."""
    items = {(item.server, item.upstream_name): item for item in snapshot.tools.catalog}
    taken = [listing for listing in snapshot.offers.tools if (listing.server, _name(listing)) in items]
    tools = {
        public: NativeTool(
            items[listing.server, _name(listing)], _named(clean_json(listing.definition), "name", public)
        )
        for public, listing in _by_public_name(taken).items()
    }
    prompts = {
        public: NativePrompt(listing.server, _name(listing), _named(clean_json(listing.definition), "name", public))
        for public, listing in _by_public_name(snapshot.offers.prompts).items()
    }
    resources = _first_by(snapshot.offers.resources, "uri")
    return NativeOffers(
        tools=tools,
        prompts=prompts,
        resources={uri: _named(clean_json(listing.definition), "uri", uri) for uri, listing in resources.items()},
        templates={
            uri: _named(clean_json(listing.definition), "uriTemplate", uri)
            for uri, listing in _first_by(snapshot.offers.templates, "uriTemplate").items()
        },
        server_of_resource={uri: listing.server for uri, listing in resources.items()},
    )


def _name(listing: ToolListing) -> str:
    name = listing.definition.get("name")
    return name if isinstance(name, str) else ""


def _by_public_name(listings: Iterable[ToolListing]) -> dict[str, ToolListing]:
    """First come, first served within a server; between servers, a shared name is nobody's."""
    own = {(listing.server, _name(listing)): listing for listing in reversed([*listings]) if _name(listing)}
    shared = Counter(name for _, name in own)
    return {
        name if shared[name] == 1 else f"{normalize_namespace(server)}__{name}": own[server, name]
        for server, name in reversed([*own])
    }


def _first_by(listings: Iterable[ToolListing], key: str) -> dict[str, ToolListing]:
    found: dict[str, ToolListing] = {}
    for listing in listings:
        uri = listing.definition.get(key)
        if isinstance(uri, str):
            found.setdefault(uri, listing)
    return found


def _named(definition: Any, key: str, value: str) -> Mapping[str, Any]:
    return {**definition, key: value} if isinstance(definition, Mapping) else {key: value}
