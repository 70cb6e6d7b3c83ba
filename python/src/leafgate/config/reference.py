"""The configuration described for people and editors, from the models: docs/configuration.md and the JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final

from pydantic_core import to_jsonable_python

from leafgate.config.document import suggest
from leafgate.config.kinds import Key, ListOf, MapOf, Section, keys_of, kind_of
from leafgate.config.models import CHAPTERS, ConfigFile
from leafgate.config.variables import VARIABLE

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


# The page


def reference_text() -> str:
    """Returns docs/configuration.md: the prose of reference.md, and a table of the keys of each chapter."""
    head = files("leafgate.config").joinpath("reference.md").read_text(encoding="utf-8")
    described: set[type[Section]] = set()
    chapters: dict[str, list[str]] = {}
    for section in CHAPTERS:
        rows = [row for key in keys_of(section).values() for row in _rows(key, key.name, described)]
        chapters.setdefault(section.chapter, []).extend(rows)
    table = ("| key | value | without it | meaning |", "|---|---|---|---|")
    return "\n".join((head, *("\n".join((f"## {title}", "", *table, *rows, "")) for title, rows in chapters.items())))


def _rows(key: Key, path: str, described: set[type[Section]]) -> Iterator[str]:
    default = f"`{json.dumps(to_jsonable_python(key.default))}`" if _has_default(key) else "needed" * key.required
    yield f"| `{path}` | {_cell(_value(key.kind, key.entry))} | {default} | {_cell(key.doc)} |"
    inner, section = _innermost(key.kind, key.entry, path)
    if isinstance(section, type) and section not in described:  # a section that several keys share is described once
        described.add(section)
        for each in keys_of(section).values():
            yield from _rows(each, f"{inner}.{each.name}", described)


def _has_default(key: Key) -> bool:
    return key.default not in (None, {}) and not isinstance(key.default, Section)


def _innermost(kind: Any, entry: Any, path: str) -> tuple[str, Any]:
    """The kind of the entries of lists and objects, and their path in words; else the kind itself."""
    while isinstance(kind, MapOf | ListOf):
        path = f"{path}.<{kind.keys}>" if isinstance(kind, MapOf) else f"{path}[]"
        kind, entry = kind_of(entry)
    return path, kind


def _value(kind: Any, entry: Any) -> str:
    choices = getattr(kind, "choices", ())
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    if isinstance(kind, ListOf) and getattr(kind_of(entry)[0], "choices", None):
        return f"a list of {_value(*kind_of(entry))}"
    return str(kind.hint)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text.replace("|", "\\|")


# Which key was meant


def suggest_key(name: str, section: type[Section]) -> str:
    """What may have been meant by an unknown key: the section that has such a key, or a similar key of this one."""
    for path, each in _sections(ConfigFile):
        if each is not section and name in keys_of(each):
            return f"; it belongs in {path or 'the top of the file'}"
    return suggest(name, [*keys_of(section)])


def _sections(section: type[Section], path: str = "") -> Iterator[tuple[str, type[Section]]]:
    """Every section, with its path in words."""
    yield path, section
    for key in keys_of(section).values():
        inner, kind = _innermost(key.kind, key.entry, f"{path}.{key.name}" if path else key.name)
        if isinstance(kind, type):
            yield from _sections(kind, inner)


# The JSON Schema


def schema_text() -> str:
    """Returns the schema as the repository holds it."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


def config_schema() -> dict[str, Any]:
    """Returns the JSON Schema (2020-12) of a whole file."""
    variable = {"type": "string", "pattern": VARIABLE, "description": "A text with ${NAME}, filled in at the start."}
    sections = {section.__name__: section for _, section in _sections(ConfigFile) if section != ConfigFile}
    return {
        "$schema": DIALECT,
        "title": "leafgate configuration",
        **_object(ConfigFile),
        "$defs": {"variable": variable, **{name: _object(section) for name, section in sections.items()}},
    }


def _object(section: type[Section]) -> dict[str, Any]:
    keys = keys_of(section)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _property(key) for name, key in keys.items()},
        "additionalProperties": False,
    }
    required = [name for name, key in keys.items() if key.required]
    if required:
        schema["required"] = required
    if section.exactly_one:
        not_null = {"not": {"type": "null"}}
        schema["oneOf"] = [{"required": [name], "properties": {name: not_null}} for name in section.exactly_one]
    if section.needs_a_key:
        schema["minProperties"] = 1
    if section.any_of:
        filled = {"minProperties": 1, "minItems": 1, "minLength": 1}
        schema["anyOf"] = [{"required": [name], "properties": {name: filled}} for name in section.any_of]
    return schema


def _property(key: Key) -> dict[str, Any]:
    schema = _schema(key.kind, key.entry)
    default = {"default": to_jsonable_python(key.default)} if _has_default(key) else {}
    return {**(_or_null(schema) if key.nullable else schema), "description": key.doc, **default}


def _schema(kind: Any, entry: Any) -> dict[str, Any]:
    if isinstance(kind, type):
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if isinstance(kind, MapOf):
        value = _schema(*kind_of(entry))
        value = _or_null(value) if kind.drop_null else value
        if kind.switched_off:
            off = {"required": [kind.switched_off], "properties": {kind.switched_off: {"const": True}}}
            value = {"if": {"type": "object", **off}, "else": value}
        return {"type": "object", "propertyNames": {"minLength": 1}, "additionalProperties": value}
    if isinstance(kind, ListOf):
        items = _schema(*kind_of(entry))
        entries = {"type": "array", "items": items, **({"minItems": kind.least} if kind.least else {})}
        return {"anyOf": [items, entries]} if kind.or_one else entries
    exact = {**kind.schema, **({"description": kind.hint} if "pattern" in kind.schema else {})}
    return exact if kind.is_text else {"anyOf": [exact, {"$ref": "#/$defs/variable"}]}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}
