"""`leafgate maps`: list the installed maps, add one, check one, build one from a tokenizer's file.

`check` compares the ids of a map with those of the original engine, on a corpus of texts. Without a tokenizer's file to
compare with, it says what else it checked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.progress import track
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from leafgate.cli.json_lines import AS_JSON_OPTION, print_json
from leafgate.cli.tokens import map_facts
from leafgate.maps.accelerator import accelerate
from leafgate.maps.corpus import corpus
from leafgate.maps.fetch import fetch_map
from leafgate.maps.files import (
    MapEntry,
    MapFiles,
    add_map,
    check_map_id,
    find_named,
    load_entry,
    own_folder,
    read_bounded,
    short_id,
)
from leafgate.maps.models import known_models
from leafgate.maps.original import compare, open_original
from leafgate.model.errors import ConfigError, LeafgateError, MissingExtraError, TextError
from leafgate.model.leaf import parse_digest
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.equal_maps import ids_digest
from leafgate.tokens.map_building import PATTERNS, family_of, with_choices, write_map
from leafgate.tokens.token_map import MAX_MAP_BYTES, read_map
from leafgate.tokens.tokenizer_files import read_tokenizer
from leafgate.tokens.verify import check as check_ids

DIGEST_CHARS: Final = 19
_FILE: Final = click.Path(dir_okay=False, path_type=Path)
WIDTH_IN_A_PIPE: Final = 200
FETCH_SECONDS: Final = 120


@click.group()
def command() -> None:
    """List, add, check and build tokenizer maps.

    \b
    leafgate maps list
    leafgate maps for qwen3:8b
    leafgate maps check qwen/qwen2
    leafgate maps build tokenizer.json --id me/mine --out mine.json
    leafgate maps check mine.json --against tokenizer.json
    leafgate maps add mine.json
    """


@command.command("list")
@click.option("--no-load", is_flag=True, help="Do not load the maps to check them.")
@AS_JSON_OPTION
def list_command(no_load: bool, as_json: bool) -> None:
    """List the installed maps: id, digest, size, source, licence, and whether each can be loaded.

    They are in the folders of LEAFGATE_MAPS, in the folder of `maps add`, and in leafgate itself. Exits 1 if one of
    them is broken; one that needs an extra is not.

    \b
    leafgate maps list
    leafgate maps list --json --no-load
    """
    console = Console(stderr=True)
    rows = []
    for entry in track(MapFiles().list(), "Loading", console=console, transient=True, disable=not console.is_terminal):
        ok, problem = (None, None) if no_load else _try(entry)
        rows.append({**_entry_json(entry), "ok": ok, "problem": problem})
    if as_json:
        print_json(rows)
    else:
        _print_rows(rows)
    if any(row["ok"] is False for row in rows):
        sys.exit(1)


@command.command("for")
@click.argument("model")
@AS_JSON_OPTION
def for_command(model: str, as_json: bool) -> None:
    """Say which map gives the token ids of a model, and how to get it.

    MODEL is a name as it is written for Hugging Face, Ollama, vLLM or the API of a provider. Exits 1 if the model has
    no public tokenizer.

    \b
    leafgate maps for qwen3:8b
    leafgate maps for meta-llama/Llama-3.3-70B-Instruct --json
    """
    models = known_models()
    family = models.family_of(model)
    if family is None:
        raise ConfigError(models.say_unknown(model))
    facts: dict[str, Any] = {"model": model, "family": family.name, "map": family.map}
    if family.map is None:
        facts["reason"] = family.no_map
    else:
        entry, origin = find_named(MapFiles().list(), family.map), models.maps[family.map]
        facts["map_id"] = None if entry is None else entry.digest
        if entry is None:
            facts["source"] = f"{origin.package}, {origin.file}" if origin.package else f"its own {origin.file}"
            facts["build"] = [
                *origin.build_steps(family.map, "leafgate"), f"leafgate maps add {short_id(family.map)}.json"
            ]  # fmt: skip
    _print_facts(facts, as_json)
    if family.map is None:
        sys.exit(1)


@command.command()
@click.argument("where", metavar="PATH|URL")
@click.option(
    "--hash", "--sha256", "sha256", metavar="DIGEST", help="The expected digest of the map; required for a URL."
)
@click.option("--id", "id", metavar="OWNER/NAME", help="The id to store it under. [default: the map's own]")
@click.option("--source", help="Its source, as a note. [default: the name of the file or the host]")
@click.option("--licence", default="", help="Its licence, as a note.")
@click.option("--replace", is_flag=True, help="Replace another map with this id.")
@AS_JSON_OPTION
def add(
    *, where: str, sha256: str | None, id: str | None, source: str | None, licence: str, replace: bool, as_json: bool
) -> None:
    """Check a map and copy it into your own folder of maps.

    The folder is the first one of LEAFGATE_MAPS, else leafgate/maps in your data folder. Its index is replaced
    atomically, and the previous one is saved as index.json.bak.

    \b
    leafgate maps add mine.json --licence MIT
    leafgate maps add https://maps.example/mine.json --hash sha256:4cfe...
    """
    raw = _read_or_fetch(where, None if sha256 is None else parse_digest(sha256))
    token_map = read_map(raw, where=_name(where), expected_digest=sha256)
    make_encoder(token_map)
    source = _name(where) if source is None else source
    id = id or token_map.id
    entry, changed = add_map(own_folder(), raw, id=id, source=source, licence=licence, replace=replace)
    if as_json:
        print_json({**_entry_json(entry), "added": changed})
        return
    click.echo(f"{'added' if changed else 'already installed:'} {entry.id} {entry.digest}\n{entry.path}")


@command.command()
@click.argument("name", metavar="MAP")
@click.option("--against", metavar="TOKENIZER", type=_FILE,
              help="The tokenizer's own file, as for `maps build`.")  # fmt: skip
@AS_JSON_OPTION
def check(name: str, against: Path | None, as_json: bool) -> None:
    """Load a map, check its ids on a corpus of more than 2,000 texts, and describe it. MAP is a path or an id.

    With --against the ids are compared with those of the original engine: Hugging Face's tokenizers (the extra
    `metaspace`), tiktoken, or sentencepiece. Exits 1 if any differ, and names the first difference. Without it nothing
    is known about the original: only that ids decode to their texts.

    \b
    leafgate maps check mine.json --against tokenizer.json
    leafgate maps check openai/o200k_base
    """
    files = MapFiles()
    entry = files.find(name)
    with _busy("Loading"):
        encoder = files.load(name)
    facts = map_facts(entry, encoder.map)
    facts |= {
        "file": str(entry.path),
        "pattern_family": family_of(encoder.map.pattern),
        "ids_digest": ids_digest(encoder.map),
        "accelerated": accelerate(encoder) is not encoder,
        "warnings": facts.pop("warnings"),
        "checked": _check_corpus(encoder),
    }
    differences = 0
    if against is None:
        facts["compared"] = None
    else:
        with _busy("Comparing"):
            raw = read_bounded(against, MAX_MAP_BYTES)
            comparison = compare(encoder, open_original(raw, where=against.name, encoder=encoder))
        differences = comparison.differences
        facts["compared"] = asdict(comparison)
    _print_facts(facts, as_json)
    if differences:
        sys.exit(1)


def _check_corpus(encoder: Encoder) -> str:
    """Say how many texts have ids that are accepted as theirs."""
    accepted = without_ids = 0
    for text in corpus():
        try:
            accepted += check_ids(encoder, text, encoder.encode(text), level="canonical").accepted
        except TextError:
            without_ids += 1
    checked = f"the ids of {accepted} of {len(corpus())} texts decode to them"
    return checked + (f"; {without_ids} texts have no tokenization" if without_ids else "")


@command.command()
@click.argument("source", type=_FILE, required=False)
@click.option("--from", "source_option", type=_FILE, hidden=True)  # as SOURCE was given before
@click.option("--id", "id", required=True, metavar="OWNER/NAME", help="The map's id.")
@click.option("--out", "--output", "-o", "output", metavar="FILE", type=_FILE, help="The map. [default: NAME.json]")
@click.option("--pattern", metavar="NAME|REGEX", help=f"{', '.join(PATTERNS)}, or a regex. Rank files need it.")
@click.option("--special", "specials", multiple=True, metavar="NAME=ID", help="A special token; may be repeated.")
@click.option("--normalizer", type=click.Choice(("nfc", "nfkc", "none")), help="In place of the source's own.")
@AS_JSON_OPTION
def build(
    *,
    source: Path | None,
    source_option: Path | None,
    id: str,
    output: Path | None,
    pattern: str | None,
    specials: Sequence[str],
    normalizer: str | None,
    as_json: bool,
) -> None:
    """Build a map from a tokenizer's file. The same input gives the same bytes and the same digest.

    SOURCE is a Hugging Face tokenizer.json, a tiktoken rank file, a Mistral tekken.json, a SentencePiece .model (BPE),
    or Anthropic's claude.json. What a map cannot express is refused, with the reason.

    \b
    leafgate maps build tokenizer.json --id me/mine --out mine.json
    leafgate maps build cl100k_base.tiktoken --id openai/cl100k_base --pattern cl100k \\
        --special '<|endoftext|>=100257' --out cl100k_base.json
    """
    source = source or source_option
    if source is None:
        raise click.UsageError("Missing argument 'SOURCE'.")
    output = output or Path(f"{check_map_id(id).rpartition('/')[2]}.json")
    with _busy("Building"):
        parts = read_tokenizer(read_bounded(source, MAX_MAP_BYTES), where=str(source))
        chosen = _specials(specials)
        parts = with_choices(parts, pattern=_pattern(pattern), specials=chosen, normalizer=normalizer)
        if parts.kind == "byte_level" and not parts.patterns:
            raise ConfigError(f"{source} has no split pattern; --pattern takes {', '.join(PATTERNS)} or a regex")
        raw = write_map(parts, id=check_map_id(id))
        token_map = read_map(raw, where=str(source))
        make_encoder(token_map)
    try:
        output.write_bytes(raw)
    except OSError as error:
        raise ConfigError(f"{output}: {error.strerror}") from None
    facts = {
        "id": id,
        "map_id": token_map.digest,
        "ids_digest": ids_digest(token_map),
        "file": str(output),
        "bytes": len(raw),
        "encoder": parts.kind,
        "tokens": len(parts.vocab),
        "special_tokens": len(parts.specials),
        "added_tokens": len(parts.added),
        "normalizer": parts.normalizer,
        "patterns": [family_of(pattern) or pattern for pattern in parts.patterns],
        "notes": list(parts.notes),
    }
    _print_facts(facts, as_json)


def _read_or_fetch(where: str, digest: str | None) -> bytes:
    if "://" not in where:
        return read_bounded(Path(where), MAX_MAP_BYTES)
    if digest is None:
        raise ConfigError("a map from a URL needs --hash: the digest that its publisher states")
    with _busy("Fetching"):
        return fetch_map(where, digest, timeout=FETCH_SECONDS)


def _name(where: str) -> str:
    """Return the source as the index may show it: without folders, and without the credentials of a URL."""
    if "://" not in where:
        return Path(where).name
    return urlsplit(where).hostname or "a URL"


def _try(entry: MapEntry) -> tuple[bool | None, str | None]:
    """Return whether a map can be loaded, None if that needs an extra, and why it cannot."""
    try:
        load_entry(entry)
    except MissingExtraError as error:
        return None, str(error)
    except LeafgateError as error:
        return False, str(error)
    return True, None


def _entry_json(entry: MapEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "map_id": entry.digest,
        "bytes": entry.bytes,
        "file": str(entry.path),
        "source": entry.source,
        "licence": entry.licence,
    }


def _print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    short = Column("id", no_wrap=True), Column("digest", no_wrap=True), Column("bytes", no_wrap=True, justify="right")
    long = (Column(title, overflow="fold") for title in ("licence", "source", "loads"))
    table = Table(*short, *long, box=None, pad_edge=False)
    for row in rows:
        digest, size = str(row["map_id"])[:DIGEST_CHARS], f"{row['bytes']:,}"
        loads = row["problem"] or ("-" if row["ok"] is None else "yes")
        cells = (row["id"], digest, size, row["licence"], row["source"], loads)
        table.add_row(*(Text(cell) for cell in cells))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_IN_A_PIPE
    console.print(table)


def _print_facts(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        shown = "with no original: --against takes its file" if name == "compared" and value is None else _format(value)
        click.echo(f"{name:15} {shown}")


def _format(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and "differences" in value:
        summary = f"{value['differences']} differences on {value['texts']} texts with {value['against']}"
        return f"{summary}\n{value['first_difference']}" if value["differences"] else summary
    if isinstance(value, list) and any(" " in line for line in value):
        return f"\n{'':16}".join(value)
    return ", ".join(value) or "none" if isinstance(value, dict | list) else str(value)


def _pattern(choice: str | None) -> str | None:
    if choice is None or choice in PATTERNS:
        return choice and PATTERNS[choice]
    if choice.isidentifier():
        raise ConfigError(f"unknown pattern {choice!r}; give one of {', '.join(PATTERNS)}, or a regular expression")
    return choice


def _specials(options: Sequence[str]) -> dict[str, int]:
    specials: dict[str, int] = {}
    for each in options:
        name, equals, id = each.rpartition("=")
        if not equals or not name or not (id.isascii() and id.isdigit()):
            raise ConfigError(f"--special {each!r} is not NAME=ID, such as '<|endoftext|>=100257'")
        if name in specials:
            raise ConfigError(f"--special {name!r} is given twice")
        specials[name] = int(id[:20])
    return specials


def _busy(title: str) -> Status:
    """Return a spinner on standard error, shown if it is a terminal."""
    return Console(stderr=True).status(f"{title} …")
