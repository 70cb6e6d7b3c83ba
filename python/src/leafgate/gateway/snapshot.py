"""One immutable view of everything behind the gateway (spec 3.3), and the part of it that one caller sees.

A request takes one snapshot and uses it to its end; a refresh builds a new one whole and swaps it in. Views of a part
are cached for as long as their snapshot is in use.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

import anyio
from anyio import to_thread
from cachetools import LRUCache

from leafgate.browse.cards import CardCache
from leafgate.browse.rank import BUNDLED, IndexStore, Router
from leafgate.catalog.catalog import Catalog
from leafgate.catalog.intake import IntakeFlag, IntakeMemory, intake
from leafgate.catalog.pins import Pins
from leafgate.catalog.skills import read_skill
from leafgate.catalog.tree import Tree, build_tree
from leafgate.clean.cleaner import Cleaner
from leafgate.meaning import Embedder
from leafgate.model.errors import GatewayError
from leafgate.model.rights import Visibility
from leafgate.model.tool import Kind, PrimitiveKind, SelectableItem
from leafgate.ports import FitForLists, ListedForm, OfferKind, Offers, ToolListing, fit_as_written

MAX_VIEWS: Final = 32

View = TypeVar("View")
ListedForms = Mapping[int, tuple[Mapping[str, Any], ListedForm]]
Cleaners = tuple[Cleaner, Mapping[str, Cleaner]]  # for all servers, and for those that have their own
NO_OTHERS: Final[Mapping[str, Cleaner]] = {}


@dataclass(frozen=True)
class Shelf:
    """All items of one kind: the catalog, the index and the tree over it, and the cards that were made of it so far."""

    catalog: Catalog
    router: Router
    tree: Tree
    cards: CardCache = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Pinned:
    """What the operator approved, and whether tools that are not as approved are held back or only reported."""

    pins: Pins
    hold: bool


@dataclass(frozen=True)
class Snapshot:
    """All tools, resources and prompts, and the definitions of them as lists show them.

    `listed_forms` has the listed form of each definition by the definition's identity, for the next snapshot.
    """

    tools: Shelf
    resources: Shelf
    prompts: Shelf
    offers: Offers
    flags: tuple[IntakeFlag, ...]
    memory: IntakeMemory | None = field(default=None, compare=False, repr=False)
    listed_forms: ListedForms = field(default_factory=dict, compare=False, repr=False)

    @property
    def catalog(self) -> Catalog:
        return self.tools.catalog

    @property
    def shelves(self) -> tuple[Shelf, Shelf, Shelf]:
        return self.tools, self.resources, self.prompts

    @cached_property
    def has_app_tools(self) -> bool:
        """Whether there are tools that are not for models."""
        return any(not item.is_for_models for item in self.tools.catalog)

    @cached_property
    def digest(self) -> str:
        """Equal for equal definitions, in every process; computed on first use."""
        digest = hashlib.sha256()
        for shelf in self.shelves:
            for item in sorted(shelf.catalog, key=lambda item: item.id):
                texts = [item.id, item.server, item.upstream_name, item.title, item.description, item.tags]
                schemas = [item.args_schema, item.output_schema, item.side_effects]
                digest.update(json.dumps([*texts, *schemas], sort_keys=True, separators=(",", ":")).encode())
        return digest.hexdigest()[:32]

    def item(self, tool_id: object) -> SelectableItem:
        """The tool of this id, or HYDRATE_FAILED; ARGS_INVALID if it is not a text."""
        if not isinstance(tool_id, str):
            raise GatewayError("ARGS_INVALID", "tool_id is a text")
        item, message = self.tools.catalog.get(tool_id), "no tool has this id; browse for the ids there are"
        if item is None:
            raise GatewayError("HYDRATE_FAILED", message, path=tool_id[:240])
        return item


def build_snapshot(
    offers: Offers,
    clean: Cleaner,
    earlier: Snapshot | None = None,
    *,
    clean_for: Mapping[str, Cleaner] = NO_OTHERS,
    store: IndexStore | None = None,
    pinned: Pinned | None = None,
    embedder: Embedder | None = None,
    fit: FitForLists = fit_as_written,
) -> Snapshot:
    """A new snapshot of these offers. Foreign definitions are cleaned here, once, and compared with their pins; what
    lists show of them is made to fit.

    Servers with their own policy have their cleaner in `clean_for`.
    """
    flags: list[IntakeFlag] = []
    cleaners = clean, clean_for
    memory = IntakeMemory(cleaners, None if earlier is None else earlier.memory)
    if pinned is not None:
        offers = replace(offers, tools=_check_pins(offers.tools, pinned, flags))
    tools = _read_items(offers.tools, "tool", cleaners, flags, memory)
    resources = _read_items(
        [*offers.resources, *offers.templates, *_skill_files(offers, flags)], "resource", cleaners, flags, memory
    )
    prompts = _read_items(offers.prompts, "prompt", cleaners, flags, memory)
    listed, listed_forms = _fit_offers(offers, fit, {} if earlier is None else earlier.listed_forms, flags)
    return Snapshot(
        tools=_shelf(tools, earlier.tools if earlier else None, store, embedder),
        resources=_shelf(resources, earlier.resources if earlier else None, None, embedder),
        prompts=_shelf(prompts, earlier.prompts if earlier else None, None, embedder),
        offers=listed,
        flags=tuple(flags),
        memory=memory,
        listed_forms=listed_forms,
    )


def _fit_offers(
    offers: Offers, fit: FitForLists, earlier: ListedForms, flags: list[IntakeFlag]
) -> tuple[Offers, ListedForms]:
    """The offers with each definition as lists show it, and these forms by the identity of the definition.

    The definitions of a server that did not change are the same objects as before, and are not checked again.
    """
    forms: dict[int, tuple[Mapping[str, Any], ListedForm]] = {}

    def fit_all(kind: OfferKind, item_kind: Kind, listings: Iterable[ToolListing]) -> Iterator[ToolListing]:
        for listing in listings:
            raw = listing.definition
            before = earlier.get(id(raw))
            form = before[1] if before is not None and before[0] is raw else fit(kind, raw)
            forms[id(raw)] = raw, form
            name = str(raw.get("name") or raw.get("uri") or raw.get("uriTemplate"))[:240]
            for where, reason in form.removed:
                message = f"left out of lists: {reason}"
                flags.append(IntakeFlag("does-not-fit-lists", message, item_kind, listing.server, name, where=where))
            if form.definition is not None:
                yield listing if form.definition is raw else ToolListing(listing.server, form.definition)

    listed = replace(
        offers,
        tools=[*fit_all("tools", "tool", offers.tools)],
        resources=[*fit_all("resources", "resource", offers.resources)],
        templates=[*fit_all("templates", "resource", offers.templates)],
        prompts=[*fit_all("prompts", "prompt", offers.prompts)],
    )
    return listed, forms


def _skill_files(offers: Offers, flags: list[IntakeFlag]) -> list[ToolListing]:
    """The files of skills that are not listed as resources, so that they can be browsed and read like those."""
    listed = {(each.server, str(each.definition.get("uri"))) for each in offers.resources}
    files: list[ToolListing] = []
    for listing in offers.skills:
        skill = read_skill(listing.definition)
        if skill is None:
            name = str(listing.definition.get("uri"))[:240]
            message = "a skill whose entry breaks the rules of SEP-2640"
            flags.append(IntakeFlag("skill-invalid", message, "resource", listing.server, name, left_out=True))
            continue
        for definition in skill.resources():
            if (listing.server, definition["uri"]) not in listed:
                listed.add((listing.server, definition["uri"]))
                files.append(ToolListing(listing.server, definition))
    return files


def _check_pins(tools: Iterable[ToolListing], pinned: Pinned, flags: list[IntakeFlag]) -> list[ToolListing]:
    approved: list[ToolListing] = []
    for listing in tools:
        drift = pinned.pins.check(listing.server, listing.definition)
        if drift is not None:
            name = str(listing.definition.get("name"))[:240]
            message = "not approved yet" if drift == "unpinned" else "changed since it was approved"
            flags.append(IntakeFlag(f"drift-{drift}", message, "tool", listing.server, name, left_out=pinned.hold))
        if drift is None or not pinned.hold:
            approved.append(listing)
    return approved


def _shelf(
    items: Mapping[str, SelectableItem], earlier: Shelf | None, store: IndexStore | None, embedder: Embedder | None
) -> Shelf:
    if earlier is not None and embedder is None and _are_same(items, earlier.catalog):
        return earlier
    catalog = Catalog(items.values())
    before = None if earlier is None else earlier.router
    router = Router(catalog, embedder=embedder or BUNDLED, earlier=before, store=store)
    return Shelf(catalog, router, build_tree(catalog.all()))


def _are_same(items: Mapping[str, SelectableItem], catalog: Catalog) -> bool:
    """Whether these are the items of a catalog. Nearly all are the very same objects, as the intake reuses them."""
    same = ((old := catalog.get(id)) is new or old == new for id, new in items.items())
    return len(items) == len(catalog) and all(same)


def _read_items(
    listings: Iterable[ToolListing],
    kind: PrimitiveKind,
    cleaners: Cleaners,
    flags: list[IntakeFlag],
    memory: IntakeMemory,
) -> dict[str, SelectableItem]:
    by_server: dict[str, list[Any]] = {}
    for listing in listings:
        by_server.setdefault(listing.server, []).append(listing.definition)
    items: dict[str, SelectableItem] = {}
    clean, clean_for = cleaners
    for server, definitions in by_server.items():
        new_items, report = intake(
            definitions if kind == "tool" else (),
            resources=definitions if kind == "resource" else (),
            prompts=definitions if kind == "prompt" else (),
            server=server or None,
            clean=clean_for.get(server, clean).prepare(definitions),
            memory=memory,
        )
        flags += report.flags
        for item in new_items:
            if item.id in items:
                message, name = "another server's item has this id already", item.upstream_name
                flags.append(IntakeFlag("id-collision", message, kind, item.server, name, item.id, left_out=True))
            else:
                items[item.id] = item
    return items


def narrow_snapshot(whole: Snapshot, visibility: Visibility) -> Snapshot:
    """The visible part of a snapshot.

    The index is shared and masked; trees and counts are made of visible items only, so that no name of a hidden item
    shows through.
    """
    tools, resources, prompts = (_narrow_shelf(shelf, visibility) for shelf in whole.shelves)
    offers = Offers(
        tools=_visible_listings(whole.offers.tools, tools, "name"),
        resources=_visible_listings(whole.offers.resources, resources, "uri"),
        templates=_visible_listings(whole.offers.templates, resources, "uriTemplate"),
        prompts=_visible_listings(whole.offers.prompts, prompts, "name"),
        skills=_visible_listings(whole.offers.skills, resources, "uri"),
    )
    servers = {item.server for shelf in (tools, resources, prompts) for item in shelf.catalog}
    instructions = {server: text for server, text in whole.offers.instructions.items() if server in servers}
    return Snapshot(tools, resources, prompts, replace(offers, instructions=instructions), flags=())


def _narrow_shelf(shelf: Shelf, visibility: Visibility) -> Shelf:
    catalog = Catalog(item for item in shelf.catalog if visibility.sees(item))
    ids = frozenset(item.id for item in catalog)
    return Shelf(catalog, shelf.router.narrow(lambda item: item.id in ids), build_tree(catalog.all()))


def _visible_listings(listings: Sequence[ToolListing], shelf: Shelf, key: str) -> list[ToolListing]:
    """The definitions of the visible items. What intake left out has no id that a glob could match: it is hidden."""
    names = {(item.server, item.upstream_name) for item in shelf.catalog}
    return [listing for listing in listings if (listing.server, str(listing.definition.get(key))) in names]


class Views(Generic[View]):
    """What was made of the visible parts of one snapshot: the latest used views, each made once, in a thread."""

    def __init__(self, capacity: int = MAX_VIEWS) -> None:
        self._views: LRUCache[Visibility, View] = LRUCache(capacity)
        self._lock = anyio.Lock()

    async def get(self, visibility: Visibility, make: Callable[[], View]) -> View:
        view = self._views.get(visibility)
        if view is None:
            async with self._lock:  # thousands of items take a while: one thread at a time is busy with them
                view = self._views.get(visibility)
                if view is None:
                    view = self._views[visibility] = await to_thread.run_sync(make)
        return view
