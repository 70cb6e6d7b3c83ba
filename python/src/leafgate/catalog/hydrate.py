"""From a catalog entry to what a caller needs to call it.

In: a SelectableItem. Out: a HydrationResult with schemas of its own, so that no caller can change the catalog's.
Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leafgate.model.tool import HydrationResult, SelectableItem


def hydrate_item(item: SelectableItem) -> HydrationResult:
    """The item with copies of its schemas."""
    return HydrationResult(
        item=item,
        args_schema=thawed(item.args_schema),
        output_schema=None if item.output_schema is None else thawed(item.output_schema),
    )


def thawed(value: Any) -> Any:
    """A deep copy in plain dicts and lists. Intake has bounded the depth."""
    if isinstance(value, Mapping):
        return {key: thawed(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [thawed(child) for child in value]
    return value
