"""Whether the validators of clients can compile a schema.

Clients compile the output schemas of all tools when they list them. The validator of the TypeScript SDK (ajv, by the
rules of draft 07) raises on many schemas that are valid elsewhere, and one of them makes the whole list fail, with the
tools of all servers in it. Its schemas also share one table of ids: a server could name its schema as another's.

The check is conservative: what is not known to compile is reported, and left out of lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs

from leafgate.catalog.schema_trust import ARRAYS, NAME_MAPS, OBJECTS, check_schema

_DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"
# Keywords whose values are not schemas: nothing in them is compiled or has an id.
_VALUES: Final = frozenset({"enum", "const", "default", "required", "examples"})
_APPLICATORS: Final = frozenset(
    {"items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"}
    | {"allOf", "anyOf", "oneOf"}
)
# Ids are looked up among the schemas of all tools; ajv refuses the others.
_REFUSED: Final = (
    "$id", "id", "$anchor", "$dynamicAnchor", "$async",
    "formatMinimum", "formatMaximum", "formatExclusiveMinimum", "formatExclusiveMaximum",
)  # fmt: skip
_PLAIN_REFERENCE: Final = re.compile(r"#(?:/[A-Za-z0-9_.$~-]+)*")


def find_obstacle(schema: Mapping[str, Any]) -> str:
    """Why clients may fail to compile a schema; empty if they do not. An id of the whole schema is not looked at:
    lists leave it out."""
    findings = check_schema(schema)
    if findings:
        return findings[0].message
    pointers: set[str] = set()
    references: list[str] = []
    schema = {key: value for key, value in schema.items() if key != "$id"}
    for pointer, inner, is_checked in _schemas(schema):
        pointers |= {pointer} if is_checked else set()
        obstacle = _own_obstacle(inner)
        if obstacle:
            return obstacle
        if "$ref" in inner:
            references.append(inner["$ref"])
    if not all(_PLAIN_REFERENCE.fullmatch(each) and each[1:] in pointers for each in references):
        return "a reference leads to nothing in the schema"
    try:
        jsonschema_rs.meta.validate({**_as_draft_7(schema), "$schema": _DRAFT_7})
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError):
        return "not a schema of draft 07"
    return ""


def _schemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Every object that may be a schema, with its JSON Pointer; and whether the meta-schema checks it, which it does
    not below unknown keywords."""
    stack: list[tuple[str, Any, bool, bool]] = [("", schema, False, True)]
    while stack:
        pointer, value, is_names, is_checked = stack.pop()
        if isinstance(value, ARRAYS):
            stack += ((f"{pointer}/{index}", each, False, is_checked) for index, each in enumerate(value))
        elif isinstance(value, OBJECTS):
            if not is_names:
                yield pointer, value, is_checked
            for key, each in value.items():
                if is_names or key not in _VALUES:
                    name = key.replace("~", "~0").replace("/", "~1")
                    maps_names = not is_names and key in NAME_MAPS
                    is_known = is_names or maps_names or key in _APPLICATORS
                    stack.append((f"{pointer}/{name}", each, maps_names, is_checked and is_known))


def _own_obstacle(schema: Mapping[str, Any]) -> str:
    """What is wrong with one schema, without those inside it."""
    for key in _REFUSED:
        if key in schema:
            return f"{key} cannot be used in lists"
    if "nullable" in schema and (schema["nullable"] is not True or "type" not in schema):
        return "nullable without a type"
    if schema.get("enum") == []:
        return "enum without values"
    if not isinstance(schema.get("$ref", ""), str):
        return "$ref is not a text"
    named = schema.get("patternProperties")
    patterns = [schema.get("pattern"), *(named if isinstance(named, OBJECTS) else ())]
    if not all(is_script_pattern(each) for each in patterns if isinstance(each, str)):
        return "a pattern that is not one of JavaScript"
    return ""


def _as_draft_7(value: Any) -> Any:
    """The schema with `$defs` under the name that draft 07 has for it, so that what is in them is checked too."""
    if isinstance(value, OBJECTS):
        copy = {key: _as_draft_7(each) for key, each in value.items()}
        for newer, older in (("$defs", "definitions"), ("dependentSchemas", "dependencies")):
            if isinstance(copy.get(newer), OBJECTS):
                copy[older] = {**copy.pop(newer), **copy.get(older, {})}
        return copy
    return [_as_draft_7(each) for each in value] if isinstance(value, ARRAYS) else value


# The grammar of patterns with the flag u (ECMA-262, 22.2.1).

_ATOM_ESCAPE: Final = (
    r"\\(?:[dDwWsSfnrtv^$\\.*+?()\[\]{}|/]|0(?![0-9])|c[A-Za-z]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}"
    r"|u\{0*(?:10|[0-9A-Fa-f])?[0-9A-Fa-f]{1,4}\}|[pP]\{(?:L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?|C[cfnos]?)\})"
)
_TOKEN: Final = re.compile(
    rf"(?P<atom>[^\\^$.*+?()\[\]{{}}|]|\.|{_ATOM_ESCAPE}|\[\^?(?P<members>(?:[^\\\]]|\\.)*)\])"
    r"|(?P<edge>[\^$]|\\[bB])"
    r"|(?P<open>\((?:\?:|\?<?[=!]|\?<(?P<name>[A-Za-z_$][\w$]*)>|(?!\?)))"
    r"|(?P<close>\))|(?P<or>\|)"
    r"|(?P<times>(?:[*+?]|\{(?P<least>[0-9]{1,6})(?:,(?P<most>[0-9]{0,6}))?\})\??)",
    re.DOTALL | re.ASCII,
)
_MEMBER: Final = re.compile(rf"{_ATOM_ESCAPE}|\\[-b]|[^\\]", re.DOTALL | re.ASCII)
_CLASSES: Final = frozenset(rf"\{letter}" for letter in "dDwWsSpP")
_CONTROLS: Final = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "b": "\b", "0": "\0"}
_MAX_PATTERN: Final = 4_096


def is_script_pattern(pattern: str) -> bool:
    """Whether JavaScript compiles a pattern with the flag u. Some rare forms that it compiles are not recognized."""
    if len(pattern) > _MAX_PATTERN:
        return False
    groups: list[bool] = []  # the open ones, and whether each may be repeated: one that only looks may not
    names: set[str] = set()
    may_repeat = False
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return False
        at = token.end()
        kind, name = token.lastgroup, token["name"]
        is_wrong = (
            (kind == "times" and not (may_repeat and _is_in_order(token["least"], token["most"])))
            or (kind == "close" and not groups)
            or (token["members"] is not None and not _are_members(token["members"]))
            or name in names
        )
        if is_wrong:
            return False
        names |= {name} if name is not None else set()
        may_repeat = kind == "atom" or (kind == "close" and groups.pop())
        if kind == "open":
            groups.append(not re.match(r"\(\?<?[=!]", token[0]))
    return not groups


def _is_in_order(least: str | None, most: str | None) -> bool:
    return not least or not most or int(least) <= int(most)


def _are_members(members: str) -> bool:
    """Whether this can stand between brackets: ranges go from one sign to a later one."""
    signs: list[str] = []
    at = 0
    while at < len(members):
        member = _MEMBER.match(members, at)
        if member is None:
            return False
        at = member.end()
        signs.append(member[0])
    place = 0
    while place + 2 < len(signs):
        first, dash, last = signs[place : place + 3]
        if dash != "-":
            place += 1
        elif first[:2] in _CLASSES or last[:2] in _CLASSES or _code_point(first) > _code_point(last):
            return False
        else:
            place += 3
    return True


def _code_point(sign: str) -> int:
    if len(sign) == 1:
        return ord(sign)
    if sign[1] in "xu":
        return int(sign[2:].strip("{}"), 16)
    return ord(sign[2]) % 32 if sign[1] == "c" else ord(_CONTROLS.get(sign[1], sign[1]))
