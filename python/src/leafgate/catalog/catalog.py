"""The catalog: every item once, by its id, in id order; with hydration and one digest over all definitions.

The digest changes with any word of any definition, although ids do not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from leafgate.model.errors import CatalogError
from leafgate.model.tool import HydrationResult, SelectableItem


class Catalog:
    """Built at once, or item by item with register(); it does not change after it is published."""

    def __init__(self, items: Iterable[SelectableItem] = ()) -> None:
        self._items: dict[str, SelectableItem] = {}
        self._ordered: tuple[SelectableItem, ...] | None = None
        self._digest: str | None = None
        for item in items:
            self.register(item)

    def register(self, item: SelectableItem) -> SelectableItem:
        """Add an item, or raise CatalogError if its id is already in use."""
        if item.id in self._items:
            other = self._items[item.id]
            raise CatalogError(
                f"two items have the id {item.id}: {other.upstream_name!r} of {other.server or 'no server'} and "
                f"{item.upstream_name!r} of {item.server or 'no server'}"
            )
        self._items[item.id] = item
        self._ordered = self._digest = None
        return item

    def get(self, item_id: str) -> SelectableItem | None:
        return self._items.get(item_id)

    def all(self) -> tuple[SelectableItem, ...]:
        """Return every item, in id order."""
        if self._ordered is None:
            self._ordered = tuple(self._items[key] for key in sorted(self._items))
        return self._ordered

    def by_namespace(self) -> dict[str, tuple[SelectableItem, ...]]:
        """Return namespaces in order, each with its items in id order."""
        groups: dict[str, list[SelectableItem]] = {}
        for item in self.all():
            groups.setdefault(item.namespace, []).append(item)
        return {namespace: tuple(groups[namespace]) for namespace in sorted(groups)}

    def hydrate(self, item_id: str) -> HydrationResult:
        """Return the item with its schemas, or raise CatalogError if no item has this id."""
        item = self._items.get(item_id)
        if item is None:
            raise CatalogError(f"no item has the id {item_id!r}")
        return hydrate_item(item)

    @property
    def digest(self) -> str:
        """sha256 over all whole definitions: the same for the same items in any order."""
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
    """Return the sha256 over one whole definition, with descriptions, schemas and metadata."""
    whole = {field.name: copy_json(getattr(item, field.name)) for field in fields(item)}
    return hashlib.sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def hydrate_item(item: SelectableItem) -> HydrationResult:
    """Return the item with copies of its schemas, so that no caller can change those of the catalog."""
    return HydrationResult(
        item=item, args_schema=copy_json(item.args_schema), output_schema=copy_json(item.output_schema)
    )


def copy_json(value: Any) -> Any:
    """Return a deep copy in plain dicts and lists. Intake has limited the depth."""
    if isinstance(value, Mapping):
        return {key: copy_json(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [copy_json(child) for child in value]
    return value
