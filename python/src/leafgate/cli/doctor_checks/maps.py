"""Checks of the tokenizer maps: readable, the bytes that the index names, and right about a text. Out: Findings.

Touches the folders of maps. Each map encodes a short text with traps and must give it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from leafgate.cli.doctor_checks.finding import Finding, fail, ok, warn
from leafgate.model.errors import LeafgateError
from leafgate.storage.map_files import CARD_MAP, MapEntry, MapFiles
from leafgate.tokens.verify import check as check_ids

GROUP: Final = "maps"
SAMPLES: Final = ("It is currently 14:30 UTC.", "naïve café, 東京 🌱\n\n\t  x = 1", "<|im_end|> is ordinary text")
TOY_SAMPLE: Final = "the cat"


def check_maps(default: str | None, tell: Callable[[str], None]) -> Iterator[Finding]:
    """Every map that can be found, and the one that is configured."""
    try:
        files = MapFiles()
        entries = files.list()
    except LeafgateError as error:
        yield fail(GROUP, "index", str(error), "repair or remove that index, or take its folder out of LEAFGATE_MAPS")
        return
    for entry in entries:
        tell(f"trying map {entry.id}")
        yield _try(files, entry)
    yield _named(files, CARD_MAP, "card map", "reinstall leafgate: this map counts the tokens of cards")
    if default is not None:
        yield _named(files, default, "default map", "set `map` to one of them, or leave it out")


def _try(files: MapFiles, entry: MapEntry) -> Finding:
    try:
        encoder = files.load(entry.id)
        samples = (TOY_SAMPLE,) if entry.id.startswith("toy") else SAMPLES
        for text in samples:
            ids = encoder.encode(text)
            if (
                encoder.decode_bytes(ids).decode() != text
                or not check_ids(encoder, text, ids, level="canonical").accepted
            ):
                return fail(GROUP, entry.id, "does not give back the text that it encoded", "do not use this map")
    except LeafgateError as error:
        if "tokenizers" in str(error):
            return warn(GROUP, entry.id, str(error), "install leafgate[metaspace], if you want this map")
        return fail(GROUP, entry.id, str(error), "get the file anew")
    return ok(GROUP, entry.id, f"{len(encoder.map.token_of_id)} tokens")


def _named(files: MapFiles, name: str, role: str, fix: str) -> Finding:
    try:
        found = files.find(name)
    except LeafgateError as error:
        return fail(GROUP, role, str(error), fix)
    return ok(GROUP, role, found.id)
