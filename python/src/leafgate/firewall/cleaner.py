"""The cleaner of everything foreign. In: a text or a JSON value. Out: the same, clean, and what was done to it. Pure.

Both steps stand here in their order: first what could act on a model is made inert, then what must not leave is
redacted. Whoever only wants the text calls a Cleaner like a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leafgate.firewall.json_strings import all_strings
from leafgate.firewall.redact import DEFAULT as REDACT_ALL
from leafgate.firewall.redact import RedactPolicy, redact_json, redact_text
from leafgate.firewall.redact import worth_a_look as may_hold_secrets
from leafgate.firewall.sanitize import DEFAULT as SANITIZE_ALL
from leafgate.firewall.sanitize import SanitizePolicy, sanitize_json, sanitize_text
from leafgate.firewall.sanitize import worth_a_look as may_need_cleaning


@dataclass(frozen=True)
class Found:
    """How many of each kind were removed, redacted, or only noticed."""

    removed: Mapping[str, int] = field(default_factory=dict)
    redacted: Mapping[str, int] = field(default_factory=dict)
    flagged: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Found) -> Found:
        return Found(
            _sum(self.removed, other.removed), _sum(self.redacted, other.redacted), _sum(self.flagged, other.flagged)
        )

    def as_provenance(self) -> dict[str, list[dict[str, Any]]]:
        """The lists for an envelope; what is empty is left out."""
        listed = {
            "removed": [{"kind": kind, "count": n} for kind, n in sorted(self.removed.items())],
            "redacted": [{"type": kind, "count": n} for kind, n in sorted(self.redacted.items())],
            "flagged": [{"kind": kind, "count": n} for kind, n in sorted(self.flagged.items())],
        }
        return {name: found for name, found in listed.items() if found}


NOTHING = Found()


@dataclass(frozen=True)
class CleanText:
    """A clean text."""

    text: str
    found: Found = NOTHING


@dataclass(frozen=True)
class CleanValue:
    """A clean JSON value."""

    value: Any
    found: Found = NOTHING


@dataclass(frozen=True)
class Cleaner:
    """How foreign content is cleaned; called like a function, it gives the text alone. `worth_a_look` are those of
    some texts that may have to change."""

    text: Callable[[str], CleanText]
    json: Callable[[Any], CleanValue]
    worth_a_look: Callable[[Sequence[str]], set[str]]

    def __call__(self, text: str) -> str:
        return self.text(text).text

    def knowing(self, value: Any) -> Callable[[str], str]:
        """The same function for whoever cleans the strings of a value one by one: all of them are looked at together,
        once, when it is first asked. A catalog has tens of thousands, and hardly one that needs cleaning."""
        known: dict[str, str] = {}

        def clean(text: str) -> str:
            if not known:
                strings = set(all_strings(value).found)
                known.update((each, each) for each in strings - self.worth_a_look(list(strings)))
            made = known.get(text)
            if made is None:
                made = known[text] = self(text)
            return made

        return clean


def make_cleaner(sanitize: SanitizePolicy = SANITIZE_ALL, redact: RedactPolicy = REDACT_ALL) -> Cleaner:
    """A cleaner by these policies."""

    def clean_text(text: str) -> CleanText:
        cleaned = sanitize_text(text, sanitize)
        hidden = redact_text(cleaned.text, redact)
        if not (cleaned.removed or cleaned.flagged or hidden.redacted):
            return CleanText(hidden.text)
        return CleanText(hidden.text, Found(cleaned.removed, hidden.redacted, cleaned.flagged))

    def clean_json(value: Any) -> CleanValue:
        cleaned = sanitize_json(value, sanitize)
        hidden = redact_json(cleaned.value, redact)
        return CleanValue(hidden.value, Found(cleaned.removed, hidden.redacted, cleaned.flagged))

    def worth_a_look(texts: Sequence[str]) -> set[str]:
        return may_need_cleaning(texts, sanitize) | may_hold_secrets(texts, redact)

    return Cleaner(clean_text, clean_json, worth_a_look)


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    if not other:
        return one
    return {kind: one.get(kind, 0) + other.get(kind, 0) for kind in (*one, *(k for k in other if k not in one))}
