"""`leafgate tokens`: encode, decode, and the facts of a map. JSON lines on standard input and output (spec 5.8)."""

from __future__ import annotations

import json
from typing import Any

import click

from leafgate.cli.completion import complete_map
from leafgate.cli.json_lines import JSON_OPTION, field, serve_standard_streams
from leafgate.model.errors import IdsError, TextError
from leafgate.storage.map_files import MapFiles
from leafgate.tokens.encoder import classify_ids

MAP_OPTION = click.option(
    "--map",
    "map_name",
    required=True,
    metavar="MAP",
    shell_complete=complete_map,
    help="A map's id, the part behind its slash, a digest or a file.",
)


@click.group()
def command() -> None:
    """Encode and decode with a tokenizer map, one JSON line in, one JSON line out.

    \b
    echo '{"text": "the cat"}' | leafgate tokens encode --map cl100k_base
    """


@command.command()
@MAP_OPTION
@JSON_OPTION
def encode(map_name: str) -> None:
    """{"text"} -> {"ids"}. Special tokens in the text are ordinary text."""
    encoder = MapFiles().load(map_name)

    def answer(line: dict[str, Any]) -> dict[str, Any]:
        return {"ids": encoder.encode(field(line, "text", str))}

    serve_standard_streams(answer)


@command.command()
@MAP_OPTION
@JSON_OPTION
def decode(map_name: str) -> None:
    """{"ids"} -> {"text"}. Unknown and special ids are refused, as are ids whose bytes are no UTF-8."""
    encoder = MapFiles().load(map_name)

    def answer(line: dict[str, Any]) -> dict[str, Any]:
        ids = field(line, "ids", list)
        reason = classify_ids(encoder.map, ids)
        if reason is not None:
            raise IdsError(reason, f"{reason} in ids for map {encoder.map.id}")
        try:
            return {"text": encoder.decode_bytes(ids).decode()}
        except UnicodeDecodeError:
            raise TextError("the bytes of these ids are no UTF-8") from None

    serve_standard_streams(answer)


@command.command()
@MAP_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(map_name: str, as_json: bool) -> None:
    """Print a map's facts: digest, kind, sizes, pattern, special tokens."""
    files = MapFiles()
    entry = files.find(map_name)
    token_map = files.load(map_name).map
    facts = {
        "id": token_map.id,
        "map_id": token_map.digest,
        "file": entry.path.name,
        "bytes": entry.bytes,
        "encoder": token_map.kind,
        "tokens": len(token_map.token_of_id),
        "special_tokens": dict(token_map.specials),
        "max_id": max([*token_map.token_of_id, *token_map.specials.values()]),
        "pattern": token_map.pattern,
        "source": entry.source,
        "licence": entry.licence,
        "warnings": list(token_map.warnings),
    }
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    for name, value in facts.items():
        click.echo(f"{name:15} {', '.join(value) if isinstance(value, list | dict) else value}")
