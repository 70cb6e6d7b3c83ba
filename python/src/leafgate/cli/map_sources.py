"""Puts the shelf of maps together. In: the `maps` section of a configuration and the default map. Out: a MapShelf.

Touches the operator's files, which are checked here; URLs are not asked before a client wants their map.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leafgate.storage.accelerator import SoonFaster
from leafgate.storage.map_files import CARD_MAP, MapFiles, find_named
from leafgate.storage.map_shelf import MapShelf, MapSource, file_source, url_source
from leafgate.tokens.encoder import Encoder


def make_shelf(settings: Mapping[str, Any], default: str | None, *, accelerated: bool = True) -> MapShelf:
    """The operator's own maps come first: they may take the place of a bundled one."""
    sources: list[MapSource] = [
        *(file_source(Path(path)) for path in settings.get("files", ())),
        *(url_source(each["url"], sha256=each["sha256"], id=each.get("id")) for each in settings.get("urls", ())),
        *MapFiles().list(),
    ]
    if default is not None and find_named(sources, default) is None and Path(default).is_file():
        sources.append(file_source(Path(default)))
        default = sources[-1].digest
    finish = SoonFaster if accelerated else _as_it_is
    return MapShelf(sources, allow=settings.get("allow"), default=default, pinned=[CARD_MAP], finish=finish)


def _as_it_is(encoder: Encoder) -> Encoder:
    return encoder
