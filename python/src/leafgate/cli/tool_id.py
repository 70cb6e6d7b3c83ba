"""`leafgate tool-id`: make and parse ids (spec 1). JSON lines on standard input and output (spec 5.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from leafgate.cli.json_lines import JSON_OPTION, BadLine, field, serve_standard_streams
from leafgate.model.errors import CatalogError
from leafgate.model.tool_id import (
    ToolIdParts,
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

Line = dict[str, Any]


@click.command()
@JSON_OPTION
def command() -> None:
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

    What is no id is answered with {"error": "not-a-tool-id", "message"}, a name that has none with
    {"error": "no-usable-name", "message"}.

    \b
    echo '{"ask": "tool-id", "name": "read_file", "server": "fs"}' | leafgate tool-id
    """
    serve_standard_streams(_answer)


def _answer(line: Line) -> Line:
    ask = field(line, "ask", str)
    if ask not in _QUESTIONS:
        raise BadLine(f"`ask` is none of {', '.join(_QUESTIONS)}")
    try:
        return _QUESTIONS[ask](line)
    except CatalogError as error:
        return {"error": "not-a-tool-id" if ask.startswith("parse-") else "no-usable-name", "message": str(error)}


def _parse_primitive_id(line: Line) -> Line:
    kind, parts = parse_primitive_id(field(line, "id", str))
    return {"kind": kind, **_fields(parts)}


def _hash8(line: Line) -> Line:
    name, schema = field(line, "name", str), line.get("input_schema")
    return {"shape": canonical_shape(schema), "hash8": canonical_hash8(name, schema)}


def _tool_id(line: Line) -> Line:
    name, schema = field(line, "name", str), line.get("input_schema")
    return {"id": tool_id_for(name, schema, server=_server(line), version=line.get("version"))}


def _resource_id(line: Line) -> Line:
    return {"id": resource_id_for(field(line, "uri", str), field(line, "name", str), _server(line))}


def _prompt_id(line: Line) -> Line:
    return {"id": prompt_id_for(field(line, "name", str), field(line, "arguments", list), _server(line))}


def _resolve_collisions(line: Line) -> Line:
    ids = field(line, "ids", list)
    if not all(isinstance(item, str) for item in ids):
        raise BadLine("`ids` holds what is not a string")
    return {"keys": resolve_collisions(ids)}


def _server(line: Line) -> str | None:
    server: str | None = None if line.get("server") is None else field(line, "server", str)
    return server


def _fields(parts: ToolIdParts) -> Line:
    return {"namespace": parts.namespace, "name": parts.name, "version": parts.version, "hash8": parts.hash8}


_QUESTIONS: Final[dict[str, Callable[[Line], Line]]] = {
    "parse-tool-id": lambda line: _fields(parse_tool_id(field(line, "id", str))),
    "parse-primitive-id": _parse_primitive_id,
    "hash8": _hash8,
    "infer-namespace": lambda line: {"namespace": infer_namespace(field(line, "name", str))},
    "normalize-namespace": lambda line: {"namespace": normalize_namespace(field(line, "server", str))},
    "tool-id": _tool_id,
    "resource-id": _resource_id,
    "prompt-id": _prompt_id,
    "resolve-collisions": _resolve_collisions,
}
