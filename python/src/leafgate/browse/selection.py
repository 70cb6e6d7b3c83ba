"""The turn in which a model picks one card: bounded before by a schema, checked afterwards (spec 2.9).

In: the ids that were offered, and what the model answered. Out: a JSON Schema, or a verdict that never guesses.
Touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from leafgate.model.errors import RouteError

Provider = Literal["json_schema", "openai", "anthropic"]
Status = Literal["accepted", "repaired", "rejected"]


class HasId(Protocol):
    """A card, an item, or anything else that is offered by its id."""

    @property
    def id(self) -> str: ...


@dataclass(frozen=True)
class SelectionValidation:
    """What became of a selection; `id` is the offered id it stands for, None if it was rejected."""

    status: Status
    id: str | None
    reason: str


def selection_schema(candidates: Iterable[str | HasId], provider: Provider = "json_schema") -> dict[str, Any]:
    """A schema that only the offered ids satisfy, in the envelope that a provider's API takes."""
    ids = _ids(candidates)
    if not ids:
        raise RouteError("there are no candidates to select from")
    schema = {
        "type": "object",
        "properties": {
            "selection": {"type": "string", "enum": ids, "description": "The id of the one item to use."},
        },
        "required": ["selection"],
        "additionalProperties": False,
    }
    if provider == "json_schema":
        return schema
    if provider == "openai":
        return {"type": "json_schema", "json_schema": {"name": "selection", "strict": True, "schema": schema}}
    if provider == "anthropic":
        return {"name": "select", "description": "Select one of the offered items.", "input_schema": schema}
    raise RouteError(f"no provider variant: {provider!r}")


def validate_selection(selected: object, candidates: Iterable[str | HasId]) -> SelectionValidation:
    """Exact, then the only one that differs in case, then the only one that begins so; never one of several."""
    ids = _ids(candidates)
    wanted = selected.strip() if isinstance(selected, str) else ""
    if not wanted:
        return SelectionValidation("rejected", None, "the selection is not a string, or empty")
    if wanted in ids:
        exact = wanted == selected
        return SelectionValidation("accepted" if exact else "repaired", wanted, "exact" if exact else "white space")
    folded = wanted.casefold()
    for reason, matches in (
        ("case", [candidate for candidate in ids if candidate.casefold() == folded]),
        ("prefix", [candidate for candidate in ids if candidate.casefold().startswith(folded)]),
    ):
        if len(matches) == 1:
            return SelectionValidation("repaired", matches[0], reason)
        if matches:
            return SelectionValidation("rejected", None, f"ambiguous {reason}: {len(matches)} candidates match")
    return SelectionValidation("rejected", None, "not one of the candidates")


def _ids(candidates: Iterable[str | HasId]) -> list[str]:
    given = (candidate if isinstance(candidate, str) else candidate.id for candidate in candidates)
    return [one for one in dict.fromkeys(given) if one != "__cache_breakpoint__"]
