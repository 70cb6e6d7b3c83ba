"""Looks for poison in the definitions that come in. In: offers. Out: the tools that deserve a person's eyes.

Touches nothing but its memory: a definition is judged once, by its digest, because a judgement takes milliseconds and
catalogs are rebuilt often.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leafgate.catalog.pins import digest
from leafgate.firewall.scan import Scan, scan_definition
from leafgate.ports import Offers, ToolListing

log = logging.getLogger("leafgate.scan")

# Server, digest of the definition, and the names of all tools, which a poisoned one may try to shadow.
_Key = tuple[str, str, int]


@dataclass(frozen=True)
class Risk:
    """A tool whose definition was flagged, and why."""

    server: str
    tool: str
    risk: float
    kinds: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {"server": self.server, "tool": self.tool, "risk": self.risk, "findings": list(self.kinds)}


class DefinitionWatch:
    """Judges definitions, and remembers."""

    def __init__(self, hold: bool = False) -> None:
        self.hold = hold
        self._judged: dict[_Key, Scan] = {}
        self._risks: tuple[Risk, ...] = ()

    @property
    def risks(self) -> Sequence[Risk]:
        """What was flagged when offers were last looked at."""
        return self._risks

    def look_at(self, offers: Offers) -> Offers:
        """The offers; without what was flagged, where flagged tools are held back."""
        names: dict[str, list[str]] = {}
        for listing in offers.tools:
            names.setdefault(listing.server, []).append(_name(listing.definition))
        everybody = hash(frozenset((server, *found) for server, found in names.items()))
        judged: dict[_Key, Scan] = {}
        risks: list[Risk] = []
        kept: list[ToolListing] = []
        for listing in offers.tools:
            key = (listing.server, digest(listing.definition), everybody)
            scan = judged[key] = self._judged.get(key) or _judge(listing, names)
            if scan.flagged:
                kinds = tuple(dict.fromkeys(finding.kind for finding in scan.findings))
                risks.append(Risk(listing.server, _name(listing.definition)[:240], scan.risk, kinds))
            if not scan.flagged or not self.hold:
                kept.append(listing)
        for risk in risks:
            if risk not in self._risks:
                done = "held back" if self.hold else "shown all the same"
                log.warning(
                    "[%s] %s: risk %.2f (%s); %s", risk.server, risk.tool, risk.risk, ", ".join(risk.kinds), done
                )
        self._judged, self._risks = judged, tuple(risks)
        return replace(offers, tools=kept)


def _judge(listing: ToolListing, names: Mapping[str, Sequence[str]]) -> Scan:
    others = [name for server, found in names.items() if server != listing.server for name in found]
    return scan_definition(listing.definition, others, own_names=names[listing.server])


def _name(definition: Mapping[str, Any]) -> str:
    return str(definition.get("name", ""))
