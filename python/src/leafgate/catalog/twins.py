"""Tools that have the name or the text of another server's tool, as a copy has that is meant to be called in its place.

A copy need not say anything suspicious, so the scan of definitions finds nothing in it. Which of the two is the copy
cannot be known, and a server that is configured twice is honest: twins are reported, and never held back. Texts are
compared by runs of three words, each of which is looked up once, so the time is in proportion to the number of tools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.clean.markers import shadow

MOST_WORDS: Final = 80  # of a description that are compared
LEAST_WORDS: Final = 6  # of a description; shorter ones are equal by chance
LEAST_SHARE: Final = 0.7  # of the runs of the shorter text that a twin has
MOST_OWNERS: Final = 8  # tools of a run of words or a name; what more tools have is not distinctive
MAX_LISTED: Final = 20  # tools of a pair of servers in a report
_WORD: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_VERSION: Final = re.compile(r"v?\d+|new|beta|alt|copy")

Runs = frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class Twin:
    """A tool, and the tool of another server that has its text or its name (`by`)."""

    server: str
    tool: str
    other_server: str
    other_tool: str
    by: str


def find_twins(tools: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Twin]:
    """Return a twin for each tool that has one: by its text, else by its name. A tool is a server and a definition."""
    texts = [_read_runs(str(definition.get("description") or "")) for _, definition in tools]
    names = [_read_name(str(definition.get("name") or "")) for _, definition in tools]
    by_run = _find_owners(texts)
    by_name = _find_owners([{name} if name else () for name in names])
    twins: list[Twin] = []
    for number, (server, definition) in enumerate(tools):
        shared = Counter(other for run in texts[number] for other in by_run.get(run, ()) if tools[other][0] != server)
        by_text = [
            other
            for other, count in shared.most_common(MOST_OWNERS)
            if count >= LEAST_SHARE * min(len(texts[number]), len(texts[other]))
        ]
        same_name = [other for other in by_name.get(names[number], ()) if tools[other][0] != server]
        for others, by in ((by_text, "text"), (same_name, "name")):
            if others:
                other_server, other = tools[others[0]]
                twins.append(
                    Twin(server, str(definition.get("name", "")), other_server, str(other.get("name", "")), by)
                )
                break
    return twins


def _find_owners(features: Iterable[Iterable[Any]]) -> dict[Any, list[int]]:
    """Return the numbers of the tools that have each feature, without those that too many have."""
    owners: dict[Any, list[int]] = {}
    for number, each in enumerate(features):
        for feature in each:
            place = owners.setdefault(feature, [])
            if len(place) <= MOST_OWNERS:
                place.append(number)
    return {feature: place for feature, place in owners.items() if 1 < len(place) <= MOST_OWNERS}


def _read_runs(text: str) -> Runs:
    """Return the runs of three words of a description; none of a short one."""
    words = _WORD.findall(shadow(text[: MOST_WORDS * 16]))[:MOST_WORDS]
    if len(words) < LEAST_WORDS:
        return frozenset()
    return frozenset(zip(words, words[1:], words[2:], strict=False))


def _read_name(name: str) -> str:
    """Return the words of a name without its version, or nothing if it is one word: any server may have `search`."""
    words = [word for word in _WORD.findall(shadow(_CAMEL.sub("_", name[:200]))) if not _VERSION.fullmatch(word)]
    return " ".join(words) if len(words) > 1 else ""


def list_pairs(twins: Iterable[Twin]) -> list[dict[str, Any]]:
    """Return the twins by pairs of servers, as JSON: the first tools of each, and how many there are."""
    pairs: dict[tuple[str, str], list[Twin]] = {}
    for twin in twins:
        pairs.setdefault((twin.server, twin.other_server), []).append(twin)
    return [
        {
            "server": server,
            "other": other,
            "count": len(found),
            "tools": [{"tool": each.tool, "twin": each.other_tool, "by": each.by} for each in found[:MAX_LISTED]],
        }
        for (server, other), found in pairs.items()
    ]
