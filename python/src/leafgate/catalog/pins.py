"""Pins: which definitions an operator has approved, and which have changed since.

A pin is a digest over the whole definition as the server sent it, with every description and schema. Ids do not depend
on prose, so only a pin shows that the words of a tool changed after its approval.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from leafgate.model.errors import ConfigError

LOCK_VERSION: Final = 1

Drift = Literal["changed", "unpinned"]


@dataclass(frozen=True)
class Pins:
    """Digests by server and tool name."""

    digests: Mapping[tuple[str, str], str]

    def check(self, server: str, definition: Mapping[str, Any]) -> Drift | None:
        """Return how a definition differs from the approved one, or None if it does not."""
        approved = self.digests.get((server, str(definition.get("name"))))
        if approved is None:
            return "unpinned"
        return None if approved == digest(definition) else "changed"

    def as_json(self) -> dict[str, Any]:
        tools = [
            {"server": server, "tool": name, "sha256": sha256}
            for (server, name), sha256 in sorted(self.digests.items())
        ]
        return {"version": LOCK_VERSION, "tools": tools}


@dataclass(frozen=True)
class PinDiff:
    """The differences between a lock file and a catalog."""

    changed: tuple[tuple[str, str], ...]
    unpinned: tuple[tuple[str, str], ...]
    gone: tuple[tuple[str, str], ...]

    def as_json(self) -> dict[str, Any]:
        return {
            kind: [{"server": server, "tool": name} for server, name in names] for kind, names in vars(self).items()
        }

    @property
    def clean(self) -> bool:
        return not (self.changed or self.unpinned or self.gone)


def digest(definition: Mapping[str, Any]) -> str:
    """Return the sha256 over the canonical JSON of a whole definition."""
    canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def pin(definitions: Iterable[tuple[str, Mapping[str, Any]]]) -> Pins:
    """Approve definitions, each with the name of its server; of two with the same name, the first counts."""
    digests: dict[tuple[str, str], str] = {}
    for server, definition in definitions:
        digests.setdefault((server, str(definition.get("name"))), digest(definition))
    return Pins(digests)


def compare(pins: Pins, definitions: Iterable[tuple[str, Mapping[str, Any]]]) -> PinDiff:
    now = pin(definitions).digests
    return PinDiff(
        changed=tuple(sorted(key for key in now if key in pins.digests and pins.digests[key] != now[key])),
        unpinned=tuple(sorted(key for key in now if key not in pins.digests)),
        gone=tuple(sorted(key for key in pins.digests if key not in now)),
    )


def read_pins(document: object, where: str) -> Pins:
    """Return the pins of a lock file, or raise a ConfigError that names it."""
    tools = document.get("tools") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or document.get("version") != LOCK_VERSION or not isinstance(tools, list):
        raise ConfigError(f"{where}: not a lock file of version {LOCK_VERSION}; make one with `leafgate catalog pin`")
    digests: dict[tuple[str, str], str] = {}
    for number, entry in enumerate(tools, 1):
        fields = [entry.get(key) for key in ("server", "tool", "sha256")] if isinstance(entry, Mapping) else []
        if len(fields) != 3 or not all(isinstance(value, str) for value in fields):
            raise ConfigError(f"{where}: entry {number} lacks server, tool or sha256")
        server, name, sha256 = map(str, fields)
        digests[server, name] = sha256
    return Pins(digests)
