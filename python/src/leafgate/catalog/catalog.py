"""The catalog: every item once, by its id, in id order.

In: SelectableItems that intake has made. Out: lookups, hydration, and one digest over all definitions, which changes
with any word of any definition although ids do not. Touches nothing. Owns the rule that an id names one item.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from leafgate.catalog.hydrate import hydrate_item, thawed
from leafgate.model.errors import CatalogError
from leafgate.model.tool import HydrationResult, SelectableItem


class Catalog:
    """Built once, or item by item with register(); never changed after it is handed on."""

    def __init__(self, items: Iterable[SelectableItem] = ()) -> None:
        self._items: dict[str, SelectableItem] = {}
        self._ordered: tuple[SelectableItem, ...] | None = None
        self._digest: str | None = None
        for item in items:
            self.register(item)

    def register(self, item: SelectableItem) -> SelectableItem:
        """Add an item; CatalogError if its id is taken."""
        if item.id in self._items:
            taken = self._items[item.id]
            raise CatalogError(
                f"two items have the id {item.id}: {taken.upstream_name!r} of {taken.server or 'no server'} and "
                f"{item.upstream_name!r} of {item.server or 'no server'}"
            )
        self._items[item.id] = item
        self._ordered = self._digest = None
        return item

    def get(self, item_id: str) -> SelectableItem | None:
        return self._items.get(item_id)

    def all(self) -> tuple[SelectableItem, ...]:
        """Every item, in id order."""
        if self._ordered is None:
            self._ordered = tuple(self._items[key] for key in sorted(self._items))
        return self._ordered

    def by_namespace(self) -> dict[str, tuple[SelectableItem, ...]]:
        """Namespaces in order, each with its items in id order."""
        groups: dict[str, list[SelectableItem]] = {}
        for item in self.all():
            groups.setdefault(item.namespace, []).append(item)
        return {namespace: tuple(groups[namespace]) for namespace in sorted(groups)}

    def hydrate(self, item_id: str) -> HydrationResult:
        """The item with its schemas; CatalogError if there is none of this id."""
        item = self._items.get(item_id)
        if item is None:
            raise CatalogError(f"no item has the id {item_id!r}")
        return hydrate_item(item)

    @property
    def digest(self) -> str:
        """sha256 over all definitions, whole: the same for the same items in any order."""
        if self._digest is None:
            whole = hashlib.sha256()
            for item in self.all():
                whole.update(bytes.fromhex(definition_digest(item)))
            self._digest = whole.hexdigest()
        return self._digest

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[SelectableItem]:
        return iter(self.all())

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._items


def definition_digest(item: SelectableItem) -> str:
    """sha256 over one whole definition: descriptions, schemas and metadata too. What a pin is made of."""
    whole = {field.name: _plain(getattr(item, field.name)) for field in fields(item)}
    return hashlib.sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _plain(value: Any) -> Any:
    return thawed(value) if isinstance(value, Mapping | list | tuple) else value
