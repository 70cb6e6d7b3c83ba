"""One immutable view of everything behind the gateway. In: offers. Out: a Snapshot (spec 3.3).

Touches nothing. A request takes one snapshot and keeps it; a refresh builds a new one whole and swaps it in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from leafgate.browse.cards import MadeCards
from leafgate.browse.meaning import Embedder
from leafgate.browse.rank import BUNDLED, IndexStore, Router
from leafgate.catalog.catalog import Catalog
from leafgate.catalog.intake import IntakeFlag, IntakeMemory, intake
from leafgate.catalog.pins import Pins
from leafgate.catalog.tree import Tree, build_tree
from leafgate.firewall.cleaner import Cleaner
from leafgate.model.errors import GatewayError
from leafgate.model.tool import Kind, SelectableItem
from leafgate.ports import Offers, ToolListing


@dataclass(frozen=True)
class Shelf:
    """All items of one kind: the catalog, the index and the tree over it, and the cards that were made of it so far."""

    catalog: Catalog
    router: Router
    tree: Tree
    cards: MadeCards = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Pinned:
    """What the operator approved, and whether tools that are not as approved are held back or only reported."""

    pins: Pins
    hold: bool


@dataclass(frozen=True)
class Snapshot:
    """What there is."""

    tools: Shelf
    resources: Shelf
    prompts: Shelf
    offers: Offers
    flags: tuple[IntakeFlag, ...]
    memory: IntakeMemory | None = field(default=None, compare=False, repr=False)

    @property
    def catalog(self) -> Catalog:
        return self.tools.catalog

    @cached_property
    def digest(self) -> str:
        """Equal for equal definitions, in every process; made when it is first asked for."""
        made = hashlib.sha256()
        for shelf in (self.tools, self.resources, self.prompts):
            for item in sorted(shelf.catalog, key=lambda item: item.id):
                told = [item.id, item.server, item.upstream_name, item.title, item.description, item.tags]
                schemas = [item.args_schema, item.output_schema, item.side_effects]
                made.update(json.dumps([*told, *schemas], sort_keys=True, separators=(",", ":")).encode())
        return made.hexdigest()[:32]

    def item(self, tool_id: str) -> SelectableItem:
        """The tool of this id, or HYDRATE_FAILED."""
        found = self.tools.catalog.get(tool_id)
        if found is None:
            raise GatewayError(
                "HYDRATE_FAILED", "no tool has this id; browse for the ids there are", path=tool_id[:240]
            )
        return found


def build_snapshot(
    offers: Offers,
    clean: Cleaner,
    *,
    earlier: Snapshot | None = None,
    store: IndexStore | None = None,
    pinned: Pinned | None = None,
    embedder: Embedder | None = None,
) -> Snapshot:
    """A new snapshot over these offers; foreign definitions are cleaned here, once, and held against their pins."""
    flags: list[IntakeFlag] = []
    memory = IntakeMemory(clean, None if earlier is None else earlier.memory)
    approved = offers.tools if pinned is None else _approved(offers.tools, pinned, flags)
    tools = _taken(approved, "tool", clean, flags, memory)
    resources = _taken([*offers.resources, *offers.templates], "resource", clean, flags, memory)
    prompts = _taken(offers.prompts, "prompt", clean, flags, memory)
    return Snapshot(
        tools=_shelf(tools, earlier.tools if earlier else None, store, embedder),
        resources=_shelf(resources, earlier.resources if earlier else None, None, embedder),
        prompts=_shelf(prompts, earlier.prompts if earlier else None, None, embedder),
        offers=offers,
        flags=tuple(flags),
        memory=memory,
    )


def _approved(tools: Iterable[ToolListing], pinned: Pinned, flags: list[IntakeFlag]) -> list[ToolListing]:
    kept: list[ToolListing] = []
    for listing in tools:
        drift = pinned.pins.judge(listing.server, listing.definition)
        if drift is not None:
            name = str(listing.definition.get("name"))[:240]
            said = "not approved yet" if drift == "unpinned" else "changed since it was approved"
            flags.append(IntakeFlag(f"drift-{drift}", said, "tool", listing.server, name, left_out=pinned.hold))
        if drift is None or not pinned.hold:
            kept.append(listing)
    return kept


def _shelf(
    items: Mapping[str, SelectableItem],
    earlier: Shelf | None,
    store: IndexStore | None,
    embedder: Embedder | None,
) -> Shelf:
    if earlier is not None and embedder is None and _are_same(items, earlier.catalog):
        return earlier
    catalog = Catalog(items.values())
    before = None if earlier is None else earlier.router
    router = Router(catalog, embedder=embedder or BUNDLED, earlier=before, store=store)
    return Shelf(catalog, router, build_tree(catalog.all()))


def _are_same(items: Mapping[str, SelectableItem], known: Catalog) -> bool:
    """Whether these are all that is known. Nearly all are the very same objects, as the intake remembers them."""
    if len(items) != len(known):
        return False
    return all((old := known.get(id)) is new or old == new for id, new in items.items())


def _taken(
    listings: Iterable[ToolListing],
    kind: Kind,
    clean: Cleaner,
    flags: list[IntakeFlag],
    memory: IntakeMemory,
) -> dict[str, SelectableItem]:
    by_server: dict[str, list[Any]] = {}
    for listing in listings:
        by_server.setdefault(listing.server, []).append(listing.definition)
    items: dict[str, SelectableItem] = {}
    for server, definitions in by_server.items():
        taken, report = intake(
            definitions if kind == "tool" else (),
            resources=definitions if kind == "resource" else (),
            prompts=definitions if kind == "prompt" else (),
            server=server or None,
            clean=clean.knowing(definitions),
            memory=memory,
        )
        flags += report.flags
        for item in taken:
            if item.id in items:
                flags.append(_collision(item))
            else:
                items[item.id] = item
    return items


def _collision(item: SelectableItem) -> IntakeFlag:
    message = "another server's item has this id already"
    return IntakeFlag("id-collision", message, item.kind, item.server, item.upstream_name, item.id, left_out=True)
