"""`leafgate maps`: list the maps at hand, add one, check one, build one of a tokenizer's own file.

In: names, files, URLs. Out: text or JSON on standard output, progress on standard error. Touches the folders of maps.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.progress import Progress
from rich.status import Status
from rich.table import Table
from rich.text import Text

from leafgate.cli.map_comparison import compare
from leafgate.model.errors import ConfigError, LeafgateError
from leafgate.model.leaf import digest_of, parse_digest
from leafgate.storage.accelerator import accelerate
from leafgate.storage.map_fetch import fetch_map
from leafgate.storage.map_files import MapEntry, MapFiles, load_entry, own_folder, read_bounded
from leafgate.storage.map_folder import add_map, check_map_id
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.map_building import MapParts, read_rank_file, read_tokenizer_json, with_choices, write_map
from leafgate.tokens.patterns import PATTERNS, family_of
from leafgate.tokens.token_map import MAX_MAP_BYTES, read_map

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
DIGEST_CHARS: Final = 19
WIDTH_IN_A_PIPE: Final = 200
FETCH_SECONDS: Final = 120


@click.group()
def command() -> None:
    """List, add, check and build tokenizer maps.

    \b
    leafgate maps list
    leafgate maps check qwen/qwen2
    leafgate maps build --from vocab.tiktoken --id me/mine --pattern cl100k -o mine.json
    leafgate maps add mine.json
    """


@command.command("list")
@click.option("--no-load", is_flag=True, help="Do not load the maps to see whether they can be used.")
@JSON_OPTION
def list_command(no_load: bool, as_json: bool) -> None:
    """List the maps at hand: id, digest, size, where from, licence, and whether each can be loaded.

    They come from the folders of LEAFGATE_MAPS, the folder that `maps add` fills, and what ships with leafgate. Exits 1
    if one of them cannot be used.

    \b
    leafgate maps list
    leafgate maps list --json --no-load
    """
    entries = _with_progress("Loading", MapFiles().list())
    tried = [_Tried(entry, None) if no_load else _try(entry) for entry in entries]
    if as_json:
        _print_json([each.as_json() for each in tried])
    else:
        _print_tried(tried)
    if any(each.outcome not in (None, "yes") for each in tried):
        sys.exit(1)


@command.command()
@click.argument("where", metavar="PATH|URL")
@click.option("--sha256", metavar="DIGEST", help="The digest that the map must have; a URL cannot do without.")
@click.option("--id", "id", metavar="OWNER/NAME", help="The id to keep it under. [default: the map's own]")
@click.option("--source", help="Where it comes from, for people. [default: the name of the file or the host]")
@click.option("--licence", default="", help="Its licence, for people.")
@click.option("--replace", is_flag=True, help="Put it in the place of another map with this id.")
@JSON_OPTION
def add(
    *, where: str, sha256: str | None, id: str | None, source: str | None, licence: str, replace: bool, as_json: bool
) -> None:
    """Copy a map into your own folder of maps, once it has proved itself.

    The folder is the first one of LEAFGATE_MAPS, else leafgate/maps in your data folder. Its index is changed in one
    step, and the one before is kept as index.json.bak.

    \b
    leafgate maps add mine.json --licence MIT
    leafgate maps add https://maps.example/mine.json --sha256 sha256:4cfe...
    """
    raw = _read_or_fetch(where, None if sha256 is None else parse_digest(sha256))
    token_map = read_map(raw, where=_name(where), expected_digest=sha256)
    make_encoder(token_map)
    entry, changed = add_map(
        own_folder(),
        raw,
        id=id or token_map.id,
        source=_name(where) if source is None else source,
        licence=licence,
        replace=replace,
    )
    if as_json:
        _print_json({**_entry_json(entry), "added": changed})
        return
    click.echo(f"{'added' if changed else 'already there:'} {entry.id} {entry.digest}\n{entry.path}")


@command.command()
@click.argument("name", metavar="PATH|ID")
@click.option(
    "--against",
    metavar="TOKENIZER_JSON",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare with this file of Hugging Face's instead of with one built from the map.",
)
@JSON_OPTION
def check(name: str, against: Path | None, as_json: bool) -> None:
    """Load a map, have it prove itself, and say what it holds.

    Where the extra `metaspace` (Hugging Face's tokenizers) is installed, ids are compared with that library's on a few
    hundred nasty texts. Exits 1 if any differ.

    \b
    leafgate maps check openai/o200k_base
    leafgate maps check mine.json --against tokenizer.json
    """
    files = MapFiles()
    entry = files.find(name)
    with _busy("Loading"):
        encoder = files.load(name)
    with _busy("Comparing"):
        comparison = compare(encoder, against)
    facts = {**_facts(entry, encoder), "compared": None if comparison is None else comparison.as_json()}
    if as_json:
        _print_json(facts)
    else:
        _print_facts(facts)
    if comparison is not None and comparison.differences:
        sys.exit(1)


@command.command()
@click.option(
    "--from",
    "source",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A rank file (.tiktoken) or a tokenizer.json.",
)
@click.option("--id", "id", required=True, metavar="OWNER/NAME", help="The map's id.")
@click.option(
    "--pattern", metavar="NAME|REGEX", help=f"{', '.join(PATTERNS)}, or a regular expression. Rank files need it."
)
@click.option(
    "--special", "specials", multiple=True, metavar="NAME=ID", help="A special token; may be given many times."
)
@click.option(
    "-o", "--output", required=True, metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="The map."
)
@JSON_OPTION
def build(*, source: Path, id: str, pattern: str | None, specials: Sequence[str], output: Path, as_json: bool) -> None:
    """Build a map of a tokenizer's own file. The same input gives the same bytes, and so the same digest.

    \b
    leafgate maps build --from cl100k_base.tiktoken --id openai/cl100k_base --pattern cl100k \\
        --special '<|endoftext|>=100257' -o cl100k_base.json
    leafgate maps build --from tokenizer.json --id me/mine -o mine.json
    """
    check_map_id(id)
    parts = with_choices(_read_parts(source), pattern=_pattern(pattern), specials=_specials(specials))
    if parts.kind == "byte_level" and parts.pattern is None:
        raise ConfigError(f"{source} does not say how texts are cut; --pattern takes {', '.join(PATTERNS)} or a regex")
    raw = write_map(parts, id=id)
    with _busy("Proving"):
        make_encoder(read_map(raw, where=str(source)))
    _write(output, raw)
    facts = {
        "id": id,
        "map_id": digest_of(raw),
        "file": str(output),
        "bytes": len(raw),
        "encoder": parts.kind,
        "tokens": len(parts.vocab),
        "special_tokens": len(parts.specials),
        "pattern": None if parts.pattern is None else family_of(parts.pattern) or parts.pattern,
        "notes": list(parts.notes),
    }
    if as_json:
        _print_json(facts)
    else:
        _print_facts(facts)


def _read_or_fetch(where: str, digest: str | None) -> bytes:
    if "://" not in where:
        return read_bounded(Path(where), MAX_MAP_BYTES)
    if digest is None:
        raise ConfigError("a map from a URL needs --sha256: the digest that its publisher names")
    with _busy("Fetching"):
        return fetch_map(where, digest, timeout=FETCH_SECONDS)


def _name(where: str) -> str:
    """A place as an index may show it: no folders, and no password or key of a URL."""
    if "://" not in where:
        return Path(where).name
    return urlsplit(where).hostname or "a URL"


@dataclass(frozen=True)
class _Tried:
    """A map, and what came of loading it: "yes", what went wrong, or None where nobody tried."""

    entry: MapEntry
    outcome: str | None

    def as_json(self) -> dict[str, Any]:
        ok = None if self.outcome is None else self.outcome == "yes"
        return {**_entry_json(self.entry), "ok": ok, "problem": self.outcome if ok is False else None}


def _try(entry: MapEntry) -> _Tried:
    try:
        load_entry(entry)
    except LeafgateError as error:
        return _Tried(entry, str(error))
    return _Tried(entry, "yes")


def _entry_json(entry: MapEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "map_id": entry.digest,
        "bytes": entry.bytes,
        "file": str(entry.path),
        "source": entry.source,
        "licence": entry.licence,
    }


def _print_tried(tried: Sequence[_Tried]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("digest", no_wrap=True)
    table.add_column("bytes", no_wrap=True, justify="right")
    for title in ("licence", "source", "loads"):
        table.add_column(title, overflow="fold")
    for each in tried:
        entry = each.entry
        digest, size = str(entry.digest)[:DIGEST_CHARS], f"{entry.bytes:,}"
        row = (entry.id, digest, size, entry.licence, entry.source, each.outcome or "-")
        table.add_row(*(Text(cell) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_IN_A_PIPE
    console.print(table)


def _facts(entry: MapEntry, encoder: Encoder) -> dict[str, Any]:
    token_map = encoder.map
    return {
        "id": token_map.id,
        "map_id": token_map.digest,
        "file": str(entry.path),
        "bytes": entry.bytes,
        "encoder": token_map.kind,
        "tokens": len(token_map.token_of_id),
        "special_tokens": dict(token_map.specials),
        "max_id": max([*token_map.token_of_id, *token_map.specials.values()]),
        "pattern": token_map.pattern,
        "pattern_family": family_of(token_map.pattern),
        "self_test": "passed",
        "accelerated": accelerate(encoder) is not encoder,
        "warnings": list(token_map.warnings),
    }


def _print_facts(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        click.echo(f"{name:15} {_shown(value)}")


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and "differences" in value:
        return f"{value['differences']} differences on {value['texts']} texts with {value['against']}"
    return ", ".join(value) or "none" if isinstance(value, dict | list) else str(value)


def _read_parts(source: Path) -> MapParts:
    raw = read_bounded(source, MAX_MAP_BYTES)
    read = read_tokenizer_json if raw.lstrip()[:1] == b"{" else read_rank_file
    return read(raw, where=str(source))


def _pattern(given: str | None) -> str | None:
    if given is None or given in PATTERNS:
        return None if given is None else PATTERNS[given]
    if given.isidentifier():
        raise ConfigError(f"no pattern is called {given!r}; there are {', '.join(PATTERNS)}, and regular expressions")
    return given


def _specials(given: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in given:
        name, equals, id = each.rpartition("=")
        if not equals or not name or not (id.isascii() and id.isdigit()):
            raise ConfigError(f"--special {each!r} is not NAME=ID, such as '<|endoftext|>=100257'")
        if name in found:
            raise ConfigError(f"--special {name!r} is given twice")
        found[name] = int(id[:20])
    return found


def _write(path: Path, raw: bytes) -> None:
    try:
        path.write_bytes(raw)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _with_progress(title: str, entries: Sequence[MapEntry]) -> Iterator[MapEntry]:
    """The entries one by one, with a bar on standard error if a person looks at it."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(entries, description=title)


def _busy(title: str) -> Status:
    """Something that moves on standard error while the work goes on, if a person looks at it."""
    return Console(stderr=True).status(f"{title} …")


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))
