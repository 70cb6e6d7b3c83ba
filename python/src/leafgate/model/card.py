"""ChoiceCard: the only form in which a model reads about an item before it asks for its schema (spec 2.1)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from leafgate.model.tool import Kind

Safety = Literal["", "read_only", "destructive"]


@dataclass(frozen=True)
class ChoiceCard:
    """Never carries a schema, an example, free-form metadata or a server's address."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...] = ()
    kind: Kind = "tool"
    namespace: str = ""
    has_schema: bool = False
    score: float | None = None
    cost_hint: float = 0.0
    side_effects: bool = False
    safety: Safety = ""

    def as_json(self) -> dict[str, Any]:
        """The JSON form: all fields, the score included."""
        return {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "tags": list(self.tags),
            "kind": self.kind,
            "namespace": self.namespace,
            "has_schema": self.has_schema,
            "score": self.score,
            "cost_hint": self.cost_hint,
            "side_effects": self.side_effects,
            "safety": self.safety,
        }

    def __bytes__(self) -> bytes:
        """The JSON form as canonical bytes: equal cards have equal bytes, in every process."""
        return json.dumps(self.as_json(), sort_keys=True, separators=(",", ":")).encode()
