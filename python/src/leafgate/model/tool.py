"""What can be selected: a tool, resource or prompt as the catalog holds it. Nouns only; touches nothing.

The definition is foreign text that intake has already cleaned. `upstream_name` is the raw name, kept for dispatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["tool", "agent", "skill", "internal", "resource", "prompt"]
JsonObject = Mapping[str, Any]


@dataclass(frozen=True)
class SelectableItem:
    """One entry of the catalog. Annotation-derived fields are the server's claims, never verified (spec 2)."""

    id: str
    kind: Kind
    name: str
    description: str
    namespace: str
    upstream_name: str
    server: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    args_schema: JsonObject = field(default_factory=dict)
    output_schema: JsonObject | None = None
    side_effects: bool = True
    cost_hint: float = 0.0
    metadata: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class HydrationResult:
    """A selected item with everything a caller needs to call it."""

    item: SelectableItem
    args_schema: JsonObject
    output_schema: JsonObject | None
