"""What tool definitions would cost a model that had to read them all. In: a catalog, a counter. Out: tokens.

Touches nothing. `learn` takes long for many tools and belongs in a thread; the rest is for every request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final
from weakref import WeakKeyDictionary

from leafgate.catalog.catalog import Catalog
from leafgate.model.tool import SelectableItem

LINES_KEPT: Final = 4_096


class DefinitionWeight:
    """The tokens of every known definition. A description may change under the same id, so items are compared."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._count_line = lru_cache(LINES_KEPT)(count)
        self._known: Mapping[str, tuple[SelectableItem, int]] = {}
        self._sums: WeakKeyDictionary[Catalog, int] = WeakKeyDictionary()

    def learn(self, catalog: Catalog) -> None:
        """Counts what is new in this catalog, and forgets what is not in it."""
        self._known = {item.id: (item, self._weigh(item)) for item in catalog}

    def of(self, catalog: Catalog) -> int | None:
        """The tokens of all its definitions; None before they were counted."""
        found = self._sums.get(catalog)
        if found is not None:
            return found
        weights = [self._find(item) for item in catalog]
        if None in weights:
            return None
        self._sums[catalog] = found = sum(weight for weight in weights if weight is not None)
        return found

    def of_page(self, text: str) -> int:
        """The tokens of a page of cards, give or take one a line: the same cards come again and again."""
        return sum(self._count_line(f"{line}\n") for line in text.split("\n"))

    def _find(self, item: SelectableItem) -> int | None:
        known = self._known.get(item.id)
        return known[1] if known is not None and (known[0] is item or known[0] == item) else None

    def _weigh(self, item: SelectableItem) -> int:
        found = self._find(item)
        return self._count(_definition(item)) if found is None else found


def _definition(item: SelectableItem) -> str:
    """As a client without a gateway puts it before its model."""
    told = {"name": item.upstream_name, "description": item.description, "inputSchema": item.args_schema}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))
