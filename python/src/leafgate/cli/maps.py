"""`leafgate maps`: list the installed maps, add one, check one, build one from a tokenizer's file.

`check` compares a map's encoder with Hugging Face's tokenizers: with a tokenizer that this library builds from the map,
or with the tokenizer.json that the map was built from.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from leafgate.maps.accelerator import accelerate, trial_texts
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
from leafgate.model.errors import ConfigError, LeafgateError, MapInvalidError, TextError
from leafgate.model.leaf import digest_of, parse_digest
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.map_building import (
    PATTERNS,
    family_of,
    read_rank_file,
    read_tokenizer_json,
    with_choices,
    write_map,
)
from leafgate.tokens.token_map import BYTE_ALPHABET, MAX_MAP_BYTES, TokenMap, read_map

try:
    import tokenizers

    _INSTALLED = True
except ImportError:  # an extra
    _INSTALLED = False

DIGEST_CHARS: Final = 19
_FILE: Final = click.Path(dir_okay=False, path_type=Path)
WIDTH_IN_A_PIPE: Final = 200
FETCH_SECONDS: Final = 120


@dataclass(frozen=True)
class Comparison:
    """The number of texts, the number of texts whose ids differ, and the first of those."""

    against: str
    texts: int
    differences: int
    first_difference: str | None


def compare(encoder: Encoder, original: Path | None = None) -> Comparison | None:
    """Compare with Hugging Face's tokenizers; None if it is not installed, or is the encoder itself."""
    if not _INSTALLED:
        return None
    if original is not None:
        try:
            other = tokenizers.Tokenizer.from_file(str(original))
        except Exception as error:  # the library raises plain Exception
            raise MapInvalidError(f"{original}: {error}") from None
        return _compare_with(encoder, other, original.name)
    if encoder.map.kind == "metaspace":
        return None
    return _compare_with(encoder, _rebuild(encoder.map), "tokenizers, built from the map")


def _compare_with(encoder: Encoder, other: Any, against: str) -> Comparison:
    def differs(text: str) -> bool:
        try:
            return bool(encoder.encode(text) != other.encode(text, add_special_tokens=False).ids)
        except TextError:  # refusing the text is not a difference
            return False

    added_names = [token.content for token in other.get_added_tokens_decoder().values()]
    # That library reads the names of added tokens in a text as those tokens; leafgate never does.
    texts = [text for text in trial_texts() if not any(name in text for name in added_names)]
    different = [text for text in texts if differs(text)]
    return Comparison(against, len(texts), len(different), different[0] if different else None)


def _rebuild(token_map: TokenMap) -> Any:
    names = {token: "".join(BYTE_ALPHABET[byte] for byte in token) for token in token_map.token_of_id.values()}
    vocab = {names[token]: id for id, token in token_map.token_of_id.items()}
    model = tokenizers.models.BPE(vocab=vocab, merges=list(_merges(token_map.ranks, names)), ignore_merges=True)
    built = tokenizers.Tokenizer(model)
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(token_map.pattern), behavior="isolated")
    as_bytes = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    built.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, as_bytes])
    return built


def _merges(ranks: Mapping[bytes, int], names: Mapping[bytes, str]) -> Iterable[tuple[str, str]]:
    """Yield every pair that makes a token, in the order of the tokens' ranks."""
    for token in sorted(ranks, key=lambda token: ranks[token]):
        for cut in range(1, len(token)):
            head, tail = token[:cut], token[cut:]
            if head in ranks and tail in ranks:
                yield names[head], names[tail]


@click.group()
def command() -> None:
    """List, add, check and build tokenizer maps.

    \b
    leafgate maps list
    leafgate maps for qwen3:8b
    leafgate maps check qwen/qwen2
    leafgate maps build --from vocab.tiktoken --id me/mine --pattern cl100k -o mine.json
    leafgate maps add mine.json
    """


@command.command("list")
@click.option("--no-load", is_flag=True, help="Do not load the maps to check them.")
@AS_JSON_OPTION
def list_command(no_load: bool, as_json: bool) -> None:
    """List the installed maps: id, digest, size, source, licence, and whether each can be loaded.

    They are in the folders of LEAFGATE_MAPS, in the folder of `maps add`, and in leafgate itself. Exits 1 if one of
    them cannot be used.

    \b
    leafgate maps list
    leafgate maps list --json --no-load
    """
    console = Console(stderr=True)
    rows = []
    for entry in track(MapFiles().list(), "Loading", console=console, transient=True, disable=not console.is_terminal):
        problem = None if no_load else _problem(entry)
        rows.append({**_entry_json(entry), "ok": None if no_load else problem is None, "problem": problem})
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
@click.argument("name", metavar="PATH|ID")
@click.option("--against", metavar="TOKENIZER_JSON", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Compare with this Hugging Face file instead of with one built from the map.")  # fmt: skip
@AS_JSON_OPTION
def check(name: str, against: Path | None, as_json: bool) -> None:
    """Load a map, run its self-test, and describe it.

    If the extra `metaspace` (Hugging Face's tokenizers) is installed, ids are compared with that library's on a few
    hundred difficult texts. Exits 1 if any differ.

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
    facts = map_facts(entry, encoder.map)
    facts |= {
        "file": str(entry.path),
        "pattern_family": family_of(encoder.map.pattern),
        "self_test": "passed",
        "accelerated": accelerate(encoder) is not encoder,
        "warnings": facts.pop("warnings"),
        "compared": None if comparison is None else asdict(comparison),
    }
    _print_facts(facts, as_json)
    if comparison is not None and comparison.differences:
        sys.exit(1)


@command.command()
@click.option("--from", "source", required=True, metavar="FILE", type=_FILE,
              help="A rank file (.tiktoken) or a tokenizer.json.")  # fmt: skip
@click.option("--id", "id", required=True, metavar="OWNER/NAME", help="The map's id.")
@click.option("--pattern", metavar="NAME|REGEX", help=f"{', '.join(PATTERNS)}, or a regex. Rank files need it.")
@click.option("--special", "specials", multiple=True, metavar="NAME=ID", help="A special token; may be repeated.")
@click.option("-o", "--output", required=True, metavar="FILE", type=_FILE, help="The map.")
@AS_JSON_OPTION
def build(*, source: Path, id: str, pattern: str | None, specials: Sequence[str], output: Path, as_json: bool) -> None:
    """Build a map from a tokenizer's file. The same input gives the same bytes and the same digest.

    \b
    leafgate maps build --from cl100k_base.tiktoken --id openai/cl100k_base --pattern cl100k \\
        --special '<|endoftext|>=100257' -o cl100k_base.json
    leafgate maps build --from tokenizer.json --id me/mine -o mine.json
    """
    check_map_id(id)
    raw = read_bounded(source, MAX_MAP_BYTES)
    read = read_tokenizer_json if raw.lstrip()[:1] == b"{" else read_rank_file
    parts = with_choices(read(raw, where=str(source)), pattern=_pattern(pattern), specials=_specials(specials))
    if parts.kind == "byte_level" and parts.pattern is None:
        raise ConfigError(f"{source} has no split pattern; --pattern takes {', '.join(PATTERNS)} or a regex")
    raw = write_map(parts, id=id)
    with _busy("Testing"):
        make_encoder(read_map(raw, where=str(source)))
    try:
        output.write_bytes(raw)
    except OSError as error:
        raise ConfigError(f"{output}: {error.strerror}") from None
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


def _problem(entry: MapEntry) -> str | None:
    """Return why a map cannot be loaded; None if it can."""
    try:
        load_entry(entry)
    except LeafgateError as error:
        return str(error)
    return None


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
        loads = "-" if row["ok"] is None else row["problem"] or "yes"
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
        click.echo(f"{name:15} {_format(value)}")


def _format(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and "differences" in value:
        return f"{value['differences']} differences on {value['texts']} texts with {value['against']}"
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
