"""The snapshot as it looks to somebody who may not see all of it. In: a snapshot, a visibility. Out: a smaller one.

Touches a worker thread. The index is shared and only masked; trees and counts are made of what is seen and nothing
else, so that no name of what is hidden shows through. Views are kept while their snapshot stands, the latest used ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import anyio
from anyio import to_thread

from leafgate.admission.visibility import Visibility
from leafgate.catalog.catalog import Catalog
from leafgate.catalog.tree import build_tree
from leafgate.gateway.native import NativeOffers, native_offers
from leafgate.gateway.snapshot import Shelf, Snapshot
from leafgate.ports import Offers, ToolListing

MAX_VIEWS: Final = 32

View = TypeVar("View")


class Sights:
    """All the views of one snapshot that were asked for lately."""

    def __init__(self, snapshot: Snapshot, clean_json: Callable[[Any], Any], capacity: int = MAX_VIEWS) -> None:
        self.whole = snapshot
        self._clean_json = clean_json
        self._capacity = capacity
        self._seen: OrderedDict[Visibility, Snapshot] = OrderedDict()
        self._native: OrderedDict[Visibility, NativeOffers] = OrderedDict()
        self._one_at_a_time = anyio.Lock()

    async def seen(self, visibility: Visibility) -> Snapshot:
        """What is there, for somebody with this visibility."""
        if visibility.is_whole:
            return self.whole
        return await self._kept(self._seen, visibility, partial(seen_snapshot, self.whole, visibility))

    async def native(self, visibility: Visibility) -> NativeOffers:
        """The same, as plain MCP clients know it."""
        snapshot = await self.seen(visibility)
        return await self._kept(self._native, visibility, partial(native_offers, snapshot, self._clean_json))

    async def _kept(
        self, views: OrderedDict[Visibility, View], visibility: Visibility, make: Callable[[], View]
    ) -> View:
        if visibility not in views:
            async with self._one_at_a_time:  # thousands of items take a while, and one thread of ours at most
                if visibility not in views:
                    views[visibility] = await to_thread.run_sync(make)
        view = views[visibility]
        views.move_to_end(visibility)
        while len(views) > self._capacity:
            views.popitem(last=False)
        return view


def seen_snapshot(whole: Snapshot, visibility: Visibility) -> Snapshot:
    """The part of a snapshot that is seen, as a snapshot of its own."""
    tools, resources, prompts = (_seen_shelf(shelf, visibility) for shelf in _shelves(whole))
    return Snapshot(
        tools=tools,
        resources=resources,
        prompts=prompts,
        offers=Offers(
            tools=_seen_listings(whole.offers.tools, tools, "name"),
            resources=_seen_listings(whole.offers.resources, resources, "uri"),
            templates=_seen_listings(whole.offers.templates, resources, "uriTemplate"),
            prompts=_seen_listings(whole.offers.prompts, prompts, "name"),
        ),
        flags=(),
    )


def _shelves(snapshot: Snapshot) -> tuple[Shelf, Shelf, Shelf]:
    return snapshot.tools, snapshot.resources, snapshot.prompts


def _seen_shelf(shelf: Shelf, visibility: Visibility) -> Shelf:
    catalog = Catalog(item for item in shelf.catalog if visibility.sees(item))
    seen = frozenset(item.id for item in catalog)
    return Shelf(catalog, shelf.router.narrowed(lambda item: item.id in seen), build_tree(catalog.all()))


def _seen_listings(listings: Sequence[ToolListing], shelf: Shelf, key: str) -> list[ToolListing]:
    """The definitions of the items seen. What intake left out has no id that a glob could speak of, and is not seen."""
    seen = {(item.server, item.upstream_name) for item in shelf.catalog}
    return [listing for listing in listings if (listing.server, str(listing.definition.get(key))) in seen]
