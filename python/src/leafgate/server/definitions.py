"""The listed form of definitions: what of a foreign definition fits the types that the SDK writes lists with.

The SDK refuses a whole list, with those of all servers in it, for one field of a wrong type, and so do clients. Each
definition is therefore checked by itself, against the SDK's own types of both eras, before it gets into a list.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any, Final, get_args

import pydantic_core
from mcp.types.methods import SERVER_RESULTS
from mcp.types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import TypeAdapter, ValidationError

from leafgate.catalog.client_schemas import find_obstacle
from leafgate.catalog.intake import MAX_COPY_DEPTH
from leafgate.ports import ListedForm, OfferKind

MAX_BYTES: Final = 1024 * 1024  # of one definition; some clients refuse messages over 10 MiB
MAX_ROUNDS: Final = 64  # each removes at least one field
MAX_REMOVED: Final = 100  # fields of one definition that are reported by name

Place = tuple[str | int, ...]  # the keys and indices that lead to a value
Problems = dict[Place, str]  # by place: what is wrong there

# The method of each list, and the field of its result's model.
_LISTS: Final[Mapping[OfferKind, tuple[str, str]]] = {
    "tools": ("tools/list", "tools"),
    "resources": ("resources/list", "resources"),
    "templates": ("resources/templates/list", "resource_templates"),
    "prompts": ("prompts/list", "prompts"),
}


def _entry_type(kind: OfferKind, version: str) -> TypeAdapter[Any]:
    method, key = _LISTS[kind]
    (entry,) = get_args(SERVER_RESULTS[method, version].model_fields[key].annotation)  # type: ignore[union-attr]
    return TypeAdapter(entry)


_STATELESS, _HANDSHAKE = (
    {kind: _entry_type(kind, version) for kind in _LISTS}
    for version in (LATEST_MODERN_VERSION, LATEST_HANDSHAKE_VERSION)
)
# Clients take times of this form only, and refuse the whole list for another one.
_TIME: Final = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?"
    r"(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_ICON_ADDRESS: Final = re.compile(r"https?://|data:image/", re.IGNORECASE)


def fit_for_lists(kind: OfferKind, definition: Mapping[str, Any]) -> ListedForm:
    """Remove the fields that do not fit their type; if the rest does not fit either, there is no listed form.

    The definition is the same object if nothing is wrong with it. A missing name of a resource, and a missing or wrong
    type of an input schema, are not wrong here: lists fill them in.
    """
    removed: Problems = {}
    for _ in range(MAX_ROUNDS):
        problems = {_last_place(definition, place): reason for place, reason in _problems(kind, definition).items()}
        if not problems:
            return ListedForm(definition, tuple((_pointer(place), reason) for place, reason in removed.items()))
        removed |= dict([*problems.items()][: MAX_REMOVED - len(removed)])
        if () in problems:
            return ListedForm(None, (("", problems[()]),))
        definition = _without(definition, {*problems})
    return ListedForm(None, (("", "too many fields do not fit their types"),))


def _problems(kind: OfferKind, definition: Mapping[str, Any]) -> Problems:
    """What keeps a definition out of lists: first what JSON cannot carry, then what the types of MCP do not allow."""
    problems = {place: reason for place, value in _walk(definition) if (reason := _unsendable(place, value))}
    if problems:
        return problems
    entry = _fill_in(kind, definition)
    raw = _write(entry)
    if len(raw) > MAX_BYTES:
        largest = max(definition, key=lambda key: len(_write(definition[key])))
        return {(largest,): f"the definition has more than {MAX_BYTES} bytes"}
    problems = _misfits(_STATELESS[kind], raw)
    output = entry.get("outputSchema")
    if isinstance(output, Mapping) and output.get("type") != "object":
        # Valid in the stateless era only; clients of the handshake era do not get it.
        raw = _write({key: value for key, value in entry.items() if key != "outputSchema"})
    problems |= _misfits(_HANDSHAKE[kind], raw)
    problems |= _unreadable_for_clients(definition)
    icons = entry.get("icons")
    for index, icon in enumerate(icons if isinstance(icons, list) else ()):
        address = icon.get("src") if isinstance(icon, Mapping) else None
        if isinstance(address, str) and not _ICON_ADDRESS.match(address):
            problems["icons", index] = "an icon is at an http(s) address, or inline"
    return problems


def _unreadable_for_clients(definition: Mapping[str, Any]) -> Problems:
    """What fits the types of MCP, and makes clients refuse a list all the same."""
    problems: Problems = {}
    annotations, output = definition.get("annotations"), definition.get("outputSchema")
    time = annotations.get("lastModified") if isinstance(annotations, Mapping) else None
    if isinstance(time, str) and not _is_time(time):
        problems["annotations", "lastModified"] = "not a time with an offset, as in RFC 3339"
    obstacle = find_obstacle(output) if isinstance(output, Mapping) else ""
    if obstacle:
        problems["outputSchema",] = f"clients may fail to compile it: {obstacle}"
    return problems


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        date.fromisoformat(text[:10])
    except ValueError:
        return False
    return True


def _fill_in(kind: OfferKind, definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition as far as lists complete it: see gateway/native."""
    if kind == "tools":
        schema = definition.get("inputSchema", {})
        return {**definition, "inputSchema": {**schema, "type": "object"} if isinstance(schema, Mapping) else schema}
    return definition if kind == "prompts" or "name" in definition else {**definition, "name": ""}


def _write(value: Any) -> bytes:
    """JSON of a value, for the check only: half a pair of surrogates, which cleaning replaces later, becomes `?`."""
    try:
        return pydantic_core.to_json(value)
    except ValueError:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _misfits(expected: TypeAdapter[Any], raw: bytes) -> Problems:
    try:
        expected.validate_json(raw, strict=True, by_name=False)
    except ValidationError as error:
        return {each["loc"]: each["msg"] for each in error.errors(include_url=False, include_input=False)}
    return {}


def _unsendable(place: Place, value: Any) -> str:
    """Why a value cannot stand in a message that every client can read; empty if it can."""
    if len(place) > MAX_COPY_DEPTH:
        return f"nested deeper than {MAX_COPY_DEPTH} levels"
    if isinstance(value, float) and not math.isfinite(value):
        return "not a number of JSON"
    if isinstance(value, int) and value.bit_length() > 1_023:
        return "a number that is too large"
    return ""


def _walk(definition: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Every value of a definition with its place, down to one level below the deepest that is sent."""
    rest: list[tuple[Place, Any]] = [((), definition)]
    while rest:
        place, value = rest.pop()
        yield place, value
        if len(place) > MAX_COPY_DEPTH:
            continue
        if isinstance(value, Mapping):
            rest += (((*place, key), each) for key, each in value.items())
        elif isinstance(value, list | tuple):
            rest += (((*place, index), each) for index, each in enumerate(value))


def _last_place(definition: Mapping[str, Any], place: Place) -> Place:
    """The longest part of a place that the definition has: a missing field is a problem of the object around it."""
    value: Any = definition
    for depth, key in enumerate(place):
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return place[:depth]
    return place


def _without(value: Any, places: set[Place]) -> Any:
    """A copy of the value without what is at these places."""
    inner: dict[str | int, set[Place]] = {}
    for place in places:
        inner.setdefault(place[0], set()).add(place[1:])

    def reduce(key: str | int, each: Any) -> Any:
        return _without(each, inner[key]) if key in inner else each

    is_left: Callable[[str | int], bool] = lambda key: () not in inner.get(key, ())  # noqa: E731
    if isinstance(value, Mapping):
        return {key: reduce(key, each) for key, each in value.items() if is_left(key)}
    return [reduce(index, each) for index, each in enumerate(value) if is_left(index)]


def _pointer(place: Place) -> str:
    """The place as a JSON Pointer, cut to a length that fits a line of the log."""
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in place)[:240]
