"""The `catalog` of a configuration: tools saved to a file. In: the file, and what servers offer now. Out: both.

Touches the file, once. A server that is up speaks for itself; until then, or without it, its saved definitions count:
they can be found and looked at, and a call answers UPSTREAM_UNAVAILABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leafgate.catalog.snapshot_file import read_catalog_file
from leafgate.ports import Offers, ToolListing


def load_saved_offers(path: Path) -> Offers:
    """What the file's servers offered when it was saved. A bad file is a ConfigError."""
    saved = read_catalog_file(path)
    return Offers(
        tools=[each for listing in saved for each in _listed(listing.server, listing.tools)],
        resources=[each for listing in saved for each in _listed(listing.server, listing.resources)],
        prompts=[each for listing in saved for each in _listed(listing.server, listing.prompts)],
    )


def with_saved(live: Callable[[], Offers], saved: Offers) -> Callable[[], Offers]:
    """What servers offer now, and what is saved of those that offer nothing."""

    def offers() -> Offers:
        now = live()
        speaking = {each.server for kind in (now.tools, now.resources, now.templates, now.prompts) for each in kind}
        return Offers(
            tools=[*now.tools, *_of_others(saved.tools, speaking)],
            resources=[*now.resources, *_of_others(saved.resources, speaking)],
            templates=now.templates,
            prompts=[*now.prompts, *_of_others(saved.prompts, speaking)],
        )

    return offers


def _listed(server: str | None, definitions: Sequence[Mapping[str, Any]]) -> list[ToolListing]:
    return [ToolListing(server or "", definition) for definition in definitions]


def _of_others(saved: Sequence[ToolListing], speaking: set[str]) -> list[ToolListing]:
    return [each for each in saved if each.server not in speaking]
