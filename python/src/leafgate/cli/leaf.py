"""`leafgate leaf`: judge leaves, and put them on results. JSON lines on standard input and output (spec 5.8)."""

from __future__ import annotations

from typing import Any

import click

from leafgate.cli.json_lines import JSON_OPTION, field, serve_standard_streams
from leafgate.cli.tokens import MAP_OPTION
from leafgate.codec.read_leaf import CodecMetaEntry, read_codec_meta, strip_codec_meta
from leafgate.codec.verify_leaf import verify_codec_meta
from leafgate.codec.write_leaf import wrap_tool_call
from leafgate.model.errors import CodecMetaMapMismatchError, MapDigestError
from leafgate.model.leaf import LEVELS, Level, parse_digest
from leafgate.storage.map_files import MapFiles
from leafgate.tokens.verify import check as check_ids

LEVEL_OPTION = click.option(
    "--level", type=click.Choice(LEVELS), default="canonical", show_default=True, help="How much is proved (spec 5.7)."
)


@click.group()
def command() -> None:
    """Judge leaf tokenizations, and write, read or remove them, one JSON line in, one JSON line out.

    \b
    echo '{"text": "the cat", "ids": [261, 264]}' | leafgate leaf check --map toy
    """


@command.command()
@MAP_OPTION
@LEVEL_OPTION
@JSON_OPTION
def check(map_name: str, level: Level) -> None:
    """{"text", "ids", "map_id"?} -> {"verdict": "accept" | "reject", "reason"}."""
    encoder = MapFiles().load(map_name)

    def answer(line: dict[str, Any]) -> dict[str, Any]:
        text, ids = field(line, "text", str), field(line, "ids", list)
        return check_ids(encoder, text, ids, level=level, map_id=line.get("map_id")).as_json()

    serve_standard_streams(answer)


@command.command()
@MAP_OPTION
@JSON_OPTION
def wrap(map_name: str) -> None:
    """{"result", "minTextLength"?} -> {"result"}: a tool result with leaves on its text blocks."""
    encoder = MapFiles().load(map_name)

    def answer(line: dict[str, Any]) -> dict[str, Any]:
        least = field(line, "minTextLength", int) if "minTextLength" in line else 1
        return {"result": wrap_tool_call(field(line, "result", dict), encoder, min_text_length=least)}

    serve_standard_streams(answer)


@command.command()
@MAP_OPTION
@LEVEL_OPTION
@JSON_OPTION
def verify(map_name: str, level: Level) -> None:
    """{"result"} -> {"entries": [{"textIndex", "verdict", "reason"}]}."""
    encoder = MapFiles().load(map_name)

    def answer(line: dict[str, Any]) -> dict[str, Any]:
        found = verify_codec_meta(field(line, "result", dict), encoder, level=level)
        return {"entries": [{"textIndex": v.text_index, "verdict": v.verdict, "reason": v.reason} for v in found]}

    serve_standard_streams(answer)


@command.command()
@JSON_OPTION
def read() -> None:
    """{"result", "expectedMapHash"?} -> {"entries": [{"textIndex", "text", "ids", "mapId", "source"}]}."""

    def answer(line: dict[str, Any]) -> dict[str, Any]:
        result = field(line, "result", dict)
        try:
            entries = read_codec_meta(result, expected_map_hash=line.get("expectedMapHash"))
        except CodecMetaMapMismatchError as error:
            found = {"expected": error.expected, "found": error.found, "textIndex": error.text_index}
            return {"error": "map-mismatch", **found}
        except MapDigestError as error:
            return {"error": "bad-digest", "message": str(error)}
        return {"entries": [_entry_json(entry) for entry in entries]}

    serve_standard_streams(answer)


@command.command()
@JSON_OPTION
def strip() -> None:
    """{"result"} -> {"result"}: a tool result without leaves."""
    serve_standard_streams(lambda line: {"result": strip_codec_meta(field(line, "result", dict))})


@command.command()
@JSON_OPTION
def digest() -> None:
    """{"hash"} -> {"digest"}: the one emitted form of a map's digest."""

    def answer(line: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"digest": parse_digest(line.get("hash"))}
        except MapDigestError as error:
            return {"error": "bad-digest", "message": str(error)}

    serve_standard_streams(answer)


def _entry_json(entry: CodecMetaEntry) -> dict[str, Any]:
    return {
        "textIndex": entry.text_index,
        "text": entry.text,
        "ids": entry.ids,
        "mapId": entry.map_id,
        "source": entry.source,
    }
