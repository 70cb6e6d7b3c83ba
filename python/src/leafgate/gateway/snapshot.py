"""One immutable view of everything behind the gateway. In: listings. Out: a Snapshot (spec 3).

Touches nothing. A request takes one snapshot and keeps it; a refresh builds a new one whole and swaps it in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from leafgate.admission.validate import compile_schema
from leafgate.browse.rank import Router
from leafgate.catalog.catalog import Catalog
from leafgate.catalog.intake import IntakeFlag, intake
from leafgate.catalog.tree import Tree, build_tree
from leafgate.model.errors import GatewayError
from leafgate.model.tool import SelectableItem
from leafgate.ports import ToolListing


@dataclass(frozen=True)
class Snapshot:
    """The catalog, the index and the tree over it, and a validator per tool, made when it is first needed."""

    catalog: Catalog
    router: Router
    tree: Tree
    flags: tuple[IntakeFlag, ...]
    servers: tuple[str, ...]
    _validators: dict[str, jsonschema_rs.Validator] = field(default_factory=dict, repr=False)

    def item(self, tool_id: str) -> SelectableItem:
        """The item of this id, or HYDRATE_FAILED."""
        found = self.catalog.get(tool_id)
        if found is None:
            raise GatewayError(
                "HYDRATE_FAILED", "no tool has this id; browse for the ids there are", path=tool_id[:240]
            )
        return found

    def validator(self, item: SelectableItem) -> jsonschema_rs.Validator:
        """Compiled once per tool and snapshot."""
        if item.id not in self._validators:
            self._validators[item.id] = compile_schema(item.args_schema)
        return self._validators[item.id]


def build_snapshot(listings: Iterable[ToolListing], clean: Callable[[str], str]) -> Snapshot:
    """A new snapshot over these listings; foreign definitions are cleaned here, once."""
    by_server: dict[str, list[Any]] = {}
    for listing in listings:
        by_server.setdefault(listing.server, []).append(listing.definition)
    items: dict[str, SelectableItem] = {}
    flags: list[IntakeFlag] = []
    for server, definitions in by_server.items():
        taken, report = intake(definitions, server=server or None, clean=clean)
        flags += report.flags
        for item in taken:
            if item.id in items:
                flags.append(_collision(item))
            else:
                items[item.id] = item
    catalog = Catalog(items.values())
    return Snapshot(catalog, Router(catalog), build_tree(catalog.all()), tuple(flags), tuple(by_server))


def _collision(item: SelectableItem) -> IntakeFlag:
    message = "another server's tool has this id already"
    return IntakeFlag("id-collision", message, item.kind, item.server, item.upstream_name, item.id, left_out=True)
