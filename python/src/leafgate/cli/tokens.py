"""`leafgate tokens`: encode, decode and describe a map. `leafgate leaf`: check, write, read and remove leaves.
`leafgate bench`: compare leaves with ids that the gateway makes.

The first two read JSON lines on standard input and answer on standard output (spec 5.8).
"""

from __future__ import annotations

import functools
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from leafgate.cli.json_lines import Line, answers_lines, field
from leafgate.codec.leaf import (
    MAX_TEXT_LENGTH,
    read_codec_meta,
    strip_codec_meta,
    verify_codec_meta,
    wrap_tool_call,
)
from leafgate.maps.files import MapEntry, MapFiles
from leafgate.model.errors import CodecMetaMapMismatchError, IdsError, LeafgateError, TextError
from leafgate.model.leaf import LEVELS, Level, parse_digest
from leafgate.tokens.encoder import Encoder, classify_ids
from leafgate.tokens.token_map import TokenMap
from leafgate.tokens.verify import check as check_ids


def complete_map(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of the installed maps; none if they cannot be read."""
    try:
        return [CompletionItem(entry.id) for entry in MapFiles().list() if entry.id.startswith(incomplete)]
    except LeafgateError:
        return []


_map_option = functools.partial(click.option, "--map", required=True, metavar="MAP", shell_complete=complete_map,
                                help="A map's id, the part after its slash, a digest or a file.")  # fmt: skip
ENCODER_OPTION = _map_option("encoder", callback=lambda ctx, param, name: MapFiles().load(name))


@click.group()
def tokens() -> None:
    """Encode and decode with a tokenizer map, one JSON line in, one JSON line out.

    \b
    echo '{"text": "the cat"}' | leafgate tokens encode --map cl100k_base
    """


@tokens.command()
@ENCODER_OPTION
@answers_lines
def encode(line: Line, encoder: Encoder) -> Line:
    """{"text"} -> {"ids"}. Special tokens in the text are ordinary text."""
    return {"ids": encoder.encode(field(line, "text", str))}


@tokens.command()
@ENCODER_OPTION
@answers_lines
def decode(line: Line, encoder: Encoder) -> Line:
    """{"ids"} -> {"text"}. Unknown and special ids are refused, and so are ids whose bytes are not UTF-8."""
    ids = field(line, "ids", list)
    reason = classify_ids(encoder.map, ids)
    if reason is not None:
        raise IdsError(reason, f"{reason} in ids for map {encoder.map.id}")
    try:
        return {"text": encoder.decode_bytes(ids).decode()}
    except UnicodeDecodeError:
        raise TextError("the bytes of these ids are not UTF-8") from None


def map_facts(entry: MapEntry, token_map: TokenMap) -> dict[str, Any]:
    """Return the facts of a map that `tokens info` and `maps check` show."""
    return {
        "id": token_map.id,
        "map_id": token_map.digest,
        "file": entry.path.name,
        "bytes": entry.bytes,
        "encoder": token_map.kind,
        "tokens": len(token_map.token_of_id),
        "special_tokens": dict(token_map.specials),
        "max_id": max([*token_map.token_of_id, *token_map.specials.values()]),
        "pattern": token_map.pattern or list(token_map.patterns),
        "normalizer": token_map.normalizer,
        "warnings": list(token_map.warnings),
    }


@tokens.command()
@_map_option("map_name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(map_name: str, as_json: bool) -> None:
    """Print a map's facts: digest, kind, sizes, pattern, special tokens."""
    files = MapFiles()
    entry = files.find(map_name)
    facts = map_facts(entry, files.load(map_name).map)
    facts |= {"source": entry.source, "licence": entry.licence, "warnings": facts.pop("warnings")}
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    for name, value in facts.items():
        click.echo(f"{name:15} {', '.join(value) if isinstance(value, list | dict) else value}")


LEVEL_OPTION = click.option("--level", type=click.Choice(LEVELS), default="canonical", show_default=True,
                            help="How strictly ids are checked (spec 5.7).")  # fmt: skip


@click.group()
def leaf() -> None:
    """Check leaf tokenizations, and write, read or remove them, one JSON line in, one JSON line out.

    \b
    echo '{"text": "the cat", "ids": [261, 264]}' | leafgate leaf check --map toy
    """


@leaf.command()
@ENCODER_OPTION
@LEVEL_OPTION
@answers_lines
def check(line: Line, encoder: Encoder, level: Level) -> Line:
    """{"text", "ids", "map_id"?} -> {"verdict": "accept" | "reject", "reason"}."""
    text, ids = field(line, "text", str), field(line, "ids", list)
    return check_ids(encoder, text, ids, level=level, map_id=line.get("map_id")).as_json()


@leaf.command()
@ENCODER_OPTION
@answers_lines
def wrap(line: Line, encoder: Encoder) -> Line:
    """{"result", "minTextLength"?, "maxTextLength"?, "requestMeta"?} -> {"result"}: a tool result with leaves."""
    lengths = {"min_text_length": ("minTextLength", 1), "max_text_length": ("maxTextLength", MAX_TEXT_LENGTH)}
    options = {name: field(line, key, int) if key in line else default for name, (key, default) in lengths.items()}
    result, meta = field(line, "result", dict), line.get("requestMeta")
    return {"result": wrap_tool_call(result, encoder, request_meta=meta, **options)}


@leaf.command()
@ENCODER_OPTION
@LEVEL_OPTION
@answers_lines
def verify(line: Line, encoder: Encoder, level: Level) -> Line:
    """{"result"} -> {"entries": [{"textIndex", "verdict", "reason"}]}."""
    verdicts = verify_codec_meta(field(line, "result", dict), encoder, level=level)
    return {"entries": [{"textIndex": v.text_index, "verdict": v.verdict, "reason": v.reason} for v in verdicts]}


@leaf.command()
@answers_lines
def read(line: Line) -> Line:
    """{"result", "expectedMapHash"?} -> {"entries": [{"textIndex", "text", "ids", "mapId", "source"}]}."""
    result = field(line, "result", dict)
    try:
        entries = read_codec_meta(result, expected_map_hash=line.get("expectedMapHash"))
    except CodecMetaMapMismatchError as error:
        details = {"expected": error.expected, "found": error.found, "textIndex": error.text_index}
        return {"error": "map-mismatch", **details}
    return {
        "entries": [
            {"textIndex": e.text_index, "text": e.text, "ids": e.ids, "mapId": e.map_id, "source": e.source}
            for e in entries
        ]
    }


@leaf.command()
@answers_lines
def strip(line: Line) -> Line:
    """{"result"} -> {"result"}: a tool result without leaves."""
    return {"result": strip_codec_meta(field(line, "result", dict))}


@leaf.command()
@answers_lines
def digest(line: Line) -> Line:
    """{"hash"} -> {"digest"}: the canonical form of a map's digest."""
    return {"digest": parse_digest(line.get("hash"))}


# The benchmark starts the Node server of a checkout, so it is in the checkout's bench/leaf and not in the package.
BENCHMARKS: Final = Path(__file__).resolve().parents[4] / "bench"
LARGEST: Final = 4 * 1024 * 1024


@click.group()
def bench() -> None:
    """Measure the gateway against itself, through real processes. Needs a checkout and Node.js."""


@bench.command("leaf")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--quick", is_flag=True, help="Three sizes, and at most three rounds: for a first look.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to write to; else bench/results.")
@click.option("--size", "sizes", type=click.IntRange(1, LARGEST), multiple=True, help="Bytes of a text; repeatable.")
@click.option("--rounds", type=click.IntRange(1, 100), help="Maximum number of rounds; fewer if time runs out.")
def bench_leaf(as_json: bool, quick: bool, out: Path | None, sizes: tuple[int, ...], rounds: int | None) -> None:
    """Compare ids that a tool's server makes (leaf) with ids that the gateway makes (shim).

    Writes leaf-DATE.json, leaf.md with the tables, and three charts.
    """
    if not (BENCHMARKS / "leaf" / "run.py").is_file():
        raise LeafgateError(
            "the benchmark is part of leafgate's source, not of the installed package; "
            "get a checkout of leafgate and run `just bench-leaf` there"
        )
    sys.path.insert(0, str(BENCHMARKS))
    import_module("leaf.run").main(as_json=as_json, quick=quick, out=out, sizes=sizes, rounds=rounds)
