"""`leafgate tool-id`: make and parse ids (spec 1), as JSON lines on standard input and output (spec 5.8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Final

import click

from leafgate.cli.json_lines import BadLine, Line, answers_lines, field
from leafgate.model.errors import CatalogError
from leafgate.model.tool import (
    canonical_hash8,
    canonical_shape,
    infer_namespace,
    normalize_namespace,
    parse_primitive_id,
    parse_tool_id,
    prompt_id_for,
    resolve_collisions,
    resource_id_for,
    tool_id_for,
)


@click.command()
@answers_lines
def command(line: Line) -> Line:
    """Make and parse the ids of tools, resources and prompts, one JSON line in, one JSON line out.

    \b
    {"ask": "parse-tool-id", "id"}                            -> {"namespace", "name", "version", "hash8"}
    {"ask": "parse-primitive-id", "id"}                       -> the same, and "kind"
    {"ask": "hash8", "name", "input_schema"?}                 -> {"shape", "hash8"}
    {"ask": "infer-namespace", "name"}                        -> {"namespace"}
    {"ask": "normalize-namespace", "server"}                  -> {"namespace"}
    {"ask": "tool-id", "name", "input_schema"?, "server"?, "version"?} -> {"id"}
    {"ask": "resource-id", "uri", "name", "server"?}          -> {"id"}
    {"ask": "prompt-id", "name", "arguments", "server"?}      -> {"id"}
    {"ask": "resolve-collisions", "ids"}                      -> {"keys"}

    An invalid id is answered with {"error": "not-a-tool-id", "message"}, a name that cannot have one with
    {"error": "no-usable-name", "message"}.

    \b
    echo '{"ask": "tool-id", "name": "read_file", "server": "fs"}' | leafgate tool-id
    """
    ask = field(line, "ask", str)
    if ask not in _QUESTIONS:
        raise BadLine(f"`ask` is not one of {', '.join(_QUESTIONS)}")
    try:
        return _QUESTIONS[ask](line)
    except CatalogError as error:
        return {"error": "not-a-tool-id" if ask.startswith("parse-") else "no-usable-name", "message": str(error)}


def _parse_primitive_id(line: Line) -> Line:
    kind, parts = parse_primitive_id(field(line, "id", str))
    return {"kind": kind, **asdict(parts)}


def _resolve_collisions(line: Line) -> Line:
    ids = field(line, "ids", list)
    if not all(isinstance(item, str) for item in ids):
        raise BadLine("`ids` is not a list of strings")
    return {"keys": resolve_collisions(ids)}


def _hash8(line: Line) -> Line:
    name, schema = _name(line), line.get("input_schema")
    return {"shape": canonical_shape(schema), "hash8": canonical_hash8(name, schema)}


def _name(line: Line) -> str:
    return str(field(line, "name", str))


def _server(line: Line) -> str | None:
    return None if line.get("server") is None else str(field(line, "server", str))


_QUESTIONS: Final[dict[str, Callable[[Line], Line]]] = {
    "parse-tool-id": lambda line: asdict(parse_tool_id(field(line, "id", str))),
    "parse-primitive-id": _parse_primitive_id,
    "hash8": _hash8,
    "infer-namespace": lambda line: {"namespace": infer_namespace(_name(line))},
    "normalize-namespace": lambda line: {"namespace": normalize_namespace(field(line, "server", str))},
    "tool-id": lambda line: {
        "id": tool_id_for(_name(line), line.get("input_schema"), server=_server(line), version=line.get("version"))
    },
    "resource-id": lambda line: {"id": resource_id_for(field(line, "uri", str), _name(line), _server(line))},
    "prompt-id": lambda line: {"id": prompt_id_for(_name(line), field(line, "arguments", list), _server(line))},
    "resolve-collisions": _resolve_collisions,
}
