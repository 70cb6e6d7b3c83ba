"""Intake of foreign definitions: the tools, resources and prompts that a server lists become catalog items.

Definitions are JSON of any shape; their prose is cleaned. The report says which were accepted, flagged or left out, and
why. The input is never changed, and no definition, however hostile, raises out of `intake`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final

from leafgate.catalog.schema_trust import ARRAYS, LEAVES, NAME_MAPS, OBJECTS, SchemaLimits, check_schema
from leafgate.model.errors import CatalogError
from leafgate.model.tool import (
    Kind,
    SelectableItem,
    parse_primitive_id,
    prompt_id_for,
    resolve_collisions,
    resource_id_for,
    tool_id_for,
    usable_version,
)

MAX_TEXT: Final = 16_384  # characters of a description that are read; cleaning the rest would only cost time
MAX_NAME: Final = 4_096  # characters of a usable name or uri
MAX_COPY_DEPTH: Final = 64  # deeper definitions are cut; schema_trust flags such schemas at half of it

SAFETY_TAGS: Final = ("destructive", "read-only")
_TAG: Final = re.compile(r"\w[\w .+#-]{0,23}")
_PROSE: Final = frozenset({"title", "description", "$comment"})
_WITH_TEXT: Final = _PROSE | {"examples"}
_VALUES: Final = frozenset({"enum", "const", "default", "required", "pattern", "$ref", "$id", "$schema"})

Clean = Callable[[str], str]


def as_is(text: str) -> str:
    """Return the text unchanged: the cleaner for definitions that are trusted or already clean."""
    return text


@dataclass(frozen=True)
class IntakeFlag:
    """A problem of one definition, and whether the definition was left out because of it."""

    code: str
    message: str
    kind: Kind
    server: str
    name: str
    item_id: str = ""
    where: str = ""
    left_out: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"id" if each.name == "item_id" else each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True)
class IntakeReport:
    """The ids of the accepted definitions, and the problems of all."""

    taken: tuple[str, ...] = ()
    flags: tuple[IntakeFlag, ...] = ()

    @property
    def left_out(self) -> tuple[IntakeFlag, ...]:
        return tuple(flag for flag in self.flags if flag.left_out)

    def __add__(self, other: IntakeReport) -> IntakeReport:
        return IntakeReport(self.taken + other.taken, self.flags + other.flags)

    def as_json(self) -> dict[str, Any]:
        return {"taken": list(self.taken), "flags": [flag.as_json() for flag in self.flags]}


@dataclass(frozen=True)
class _Entry:
    """An item made from one definition, and the problems of the definition."""

    item: SelectableItem
    flags: tuple[IntakeFlag, ...]


class IntakeMemory:
    """The items of earlier definitions, so that an unchanged definition is not processed again.

    A memory belongs to one way of cleaning: a cleaner, or several as a tuple. Entries that an intake did not use are
    not passed on to the next one.
    """

    def __init__(self, clean: object, earlier: IntakeMemory | None = None) -> None:
        self._clean = clean if isinstance(clean, tuple) else (clean,)
        is_same = earlier is not None and [*map(id, earlier._clean)] == [*map(id, self._clean)]
        self._before = earlier._now if earlier is not None and is_same else {}
        self._now: dict[bytes, _Entry] = {}

    def recall(self, kind: Kind, server: str | None, raw: object, read: Callable[[Any], _Entry]) -> _Entry:
        """Return the entry of a definition, made by `read` if this definition is new."""
        try:
            # The text form, because equality is too weak: in Python, true equals 1.
            text = repr((kind, server, raw)).encode("utf-8", "surrogatepass")
        except RecursionError:
            return read(raw)
        name = hashlib.blake2b(text, digest_size=16).digest()
        entry = self._now[name] = self._before.get(name) or read(raw)
        return entry


def mcp_tool_to_selectable(
    tool: Mapping[str, Any],
    *,
    server: str | None = None,
    clean: Clean = as_is,
    limits: SchemaLimits = SchemaLimits(),  # noqa: B008  frozen
) -> SelectableItem:
    """Return one MCP tool definition as a catalog item, or raise CatalogError if it has no usable name."""
    return _read_tool(tool, server, clean, limits).item


def intake(
    tools: object = (),
    *,
    resources: object = (),
    prompts: object = (),
    server: str | None = None,
    clean: Clean = as_is,
    limits: SchemaLimits = SchemaLimits(),  # noqa: B008  frozen
    memory: IntakeMemory | None = None,
) -> tuple[list[SelectableItem], IntakeReport]:
    """Read everything one server lists, except definitions without a usable name and second ones of a name."""
    items: list[SelectableItem] = []
    flags: list[IntakeFlag] = []
    readers: tuple[tuple[Kind, object, Callable[[Any], _Entry]], ...] = (
        ("tool", tools, lambda raw: _read_tool(raw, server, clean, limits)),
        ("resource", resources, lambda raw: _read_resource(raw, server, clean)),
        ("prompt", prompts, lambda raw: _read_prompt(raw, server, clean)),
    )
    for kind, definitions, reader in readers:
        read = reader if memory is None else partial(memory.recall, kind, server, read=reader)
        new_items, new_flags = _read_all(kind, definitions, read, server or "")
        items += new_items
        flags += new_flags
    return items, IntakeReport(tuple(item.id for item in items), tuple(flags))


def _read_all(
    kind: Kind, definitions: object, read: Callable[[Any], _Entry], server: str
) -> tuple[list[SelectableItem], list[IntakeFlag]]:
    if isinstance(definitions, str | bytes | Mapping) or not isinstance(definitions, Iterable):
        return [], [IntakeFlag("not-a-list", f"the {kind}s are not a list", kind, server, "", left_out=True)]
    items: list[SelectableItem] = []
    flags: list[IntakeFlag] = []
    names: set[str] = set()
    for raw in definitions:
        try:
            entry = read(raw)
        except CatalogError as error:
            name = _excerpt(raw.get("name") if isinstance(raw, Mapping) else raw)
            flags.append(IntakeFlag("no-usable-name", str(error), kind, server, name, left_out=True))
            continue
        item = entry.item
        # Calls are dispatched by raw name: a second definition of a name could never be reached, so the first one wins.
        if item.upstream_name in names:
            text = "an earlier definition has this name"
            flags.append(IntakeFlag("duplicate-name", text, kind, server, item.name, item.id, left_out=True))
            continue
        names.add(item.upstream_name)
        items.append(item)
        flags += entry.flags
    if kind == "tool":
        return _drop_id_collisions(items, flags)
    keys = resolve_collisions([item.id for item in items])
    return [replace(item, id=key) for item, key in zip(items, keys, strict=True)], flags


def _drop_id_collisions(
    items: list[SelectableItem], flags: list[IntakeFlag]
) -> tuple[list[SelectableItem], list[IntakeFlag]]:
    """Drop tools whose id another name has: the hash collided, by chance or by design. The first one stays."""
    by_id: dict[str, SelectableItem] = {}
    for item in items:
        if item.id in by_id:
            text = f"{by_id[item.id].name!r} has the same id"
            flags = [*flags, IntakeFlag("id-collision", text, "tool", item.server, item.name, item.id, left_out=True)]
        else:
            by_id[item.id] = item
    return list(by_id.values()), flags


def _read_tool(raw: object, server: str | None, clean: Clean, limits: SchemaLimits) -> _Entry:
    tool = _definition(raw)
    upstream_name = _usable_name(tool.get("name"))
    meta, annotations = _mapping(tool.get("_meta")), _mapping(tool.get("annotations"))
    version = meta.get("version")
    args, output = tool.get("inputSchema"), tool.get("outputSchema")
    item_id = tool_id_for(upstream_name, args, server=server, version=version if usable_version(version) else None)
    namespace, name = _labels(item_id, upstream_name, clean)
    title = _line(tool.get("title"), clean) or _line(annotations.get("title"), clean)
    flag = partial(IntakeFlag, kind="tool", server=server or "", name=name, item_id=item_id)

    flags: list[IntakeFlag] = []
    if version is not None and not usable_version(version):
        flags.append(flag("version-unusable", "the declared version cannot stand in an id; the hash does"))
    if args is None:
        flags.append(flag("no-input-schema", "any arguments are passed on"))
    schema_flags = [
        flag(f"{side}-schema-{one.code}", one.message, where=one.where)
        for side, schema in (("input", args), ("output", output))
        if schema is not None
        for one in check_schema(schema, limits)
    ]
    flags += schema_flags

    args_schema = _copy_schema(args, clean) if isinstance(args, Mapping) else {}
    description = _text(tool.get("description"), clean)
    if not description:
        flags.append(flag("no-description", "described by its title, name and parameters instead"))
        description = _describe_by_name(title, upstream_name, args_schema, clean)
    read_only, destructive = annotations.get("readOnlyHint") is True, annotations.get("destructiveHint") is True
    tags = _tags(tool, meta, clean)
    tags |= {tag for tag, applies in zip(SAFETY_TAGS, (destructive, read_only), strict=True) if applies}

    metadata: dict[str, Any] = {"annotations": {**_copy(annotations, clean), "verified": False}}
    metadata |= _copy_members(tool, ("icons", "execution", "_meta"), clean)
    if schema_flags:
        metadata["schema_findings"] = [f"{one.code}: {one.message}" for one in schema_flags]
    item = SelectableItem(
        id=item_id,
        kind="tool",
        name=name,
        description=description,
        namespace=namespace,
        upstream_name=upstream_name,
        server=server or "",
        title=title,
        tags=tuple(sorted(tags)),
        args_schema=args_schema,
        output_schema=_copy_schema(output, clean) if isinstance(output, Mapping) else None,
        side_effects=destructive or not read_only,
        cost_hint=_cost(annotations.get("costHint")),
        metadata=metadata,
    )
    return _Entry(item, tuple(flags))


def _read_resource(raw: object, server: str | None, clean: Clean) -> _Entry:
    resource = _definition(raw)
    is_template = "uri" not in resource and "uriTemplate" in resource
    uri = _usable_name(resource.get("uriTemplate" if is_template else "uri"), "uri")
    declared = str(resource["name"]) if _is_usable(resource.get("name")) else ""
    item_id = resource_id_for(uri, declared, server)
    namespace, name = _labels(item_id, declared or uri, clean)
    title = _line(resource.get("title"), clean)
    mime = _line(resource.get("mimeType"), clean)
    description = _text(resource.get("description"), clean)
    flags: tuple[IntakeFlag, ...] = ()
    if not description:
        note = "described by its title or uri"
        flags = (IntakeFlag("no-description", note, "resource", server or "", name, item_id),)
        description = " ".join(part for part in (title or _line(uri, clean), f"({mime})" if mime else "") if part)
    metadata: dict[str, Any] = {"uriTemplate" if is_template else "uri": uri}
    metadata |= _copy_members(resource, ("mimeType", "size", "icons", "_meta"), clean)
    metadata["annotations"] = {**_copy(_mapping(resource.get("annotations")), clean), "verified": False}
    item = SelectableItem(
        id=item_id,
        kind="resource",
        name=name,
        description=description,
        namespace=namespace,
        upstream_name=uri,
        server=server or "",
        title=title,
        tags=tuple(sorted(_tags(resource, _mapping(resource.get("_meta")), clean))),
        side_effects=False,
        metadata=metadata,
    )
    return _Entry(item, flags)


def _read_prompt(raw: object, server: str | None, clean: Clean) -> _Entry:
    prompt = _definition(raw)
    upstream_name = _usable_name(prompt.get("name"))
    declared = prompt.get("arguments")
    arguments = [
        argument
        for argument in (declared if isinstance(declared, list | tuple) else ())
        if isinstance(argument, Mapping) and _is_usable(argument.get("name"))
    ]
    item_id = prompt_id_for(upstream_name, [argument["name"] for argument in arguments], server)
    namespace, name = _labels(item_id, upstream_name, clean)
    properties = {
        argument["name"]: {"type": "string", "description": _text(argument.get("description"), clean)}
        for argument in arguments
    }
    args_schema = {
        "type": "object",
        "properties": properties,
        "required": sorted({argument["name"] for argument in arguments if argument.get("required") is True}),
        "additionalProperties": False,
    }
    title = _line(prompt.get("title"), clean)
    description = _text(prompt.get("description"), clean)
    flags: tuple[IntakeFlag, ...] = ()
    if not description:
        note = "described by its title, name and arguments instead"
        flags = (IntakeFlag("no-description", note, "prompt", server or "", name, item_id),)
        description = _describe_by_name(title, upstream_name, args_schema, clean)
    item = SelectableItem(
        id=item_id,
        kind="prompt",
        name=name,
        description=description,
        namespace=namespace,
        upstream_name=upstream_name,
        server=server or "",
        title=title,
        tags=tuple(sorted(_tags(prompt, _mapping(prompt.get("_meta")), clean))),
        args_schema=args_schema if properties else {},
        side_effects=False,
        metadata={"annotations": {"verified": False}, **_copy_members(prompt, ("icons", "_meta"), clean)},
    )
    return _Entry(item, flags)


def _definition(raw: object) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise CatalogError(f"a definition is an object, not {type(raw).__name__}")
    return raw


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, OBJECTS) else {}


def _is_usable(name: object) -> bool:
    if not isinstance(name, str) or not name or len(name) > MAX_NAME:
        return False
    return name.isascii() or re.search("[\ud800-\udfff]", name) is None


def _usable_name(name: object, what: str = "name") -> str:
    if not _is_usable(name):
        raise CatalogError(
            f"its {what} is not a string of 1 to {MAX_NAME} characters that can be sent: {_excerpt(name)}"
        )
    assert isinstance(name, str)
    return name


def _labels(item_id: str, raw_name: str, clean: Clean) -> tuple[str, str]:
    """Return the namespace and the display name. If cleaning leaves nothing of a name, the id's form is used."""
    _, parts = parse_primitive_id(item_id)
    return parts.namespace, _line(raw_name, clean) or parts.name


def _excerpt(value: object) -> str:
    return ascii(value[:60]) if isinstance(value, str) else type(value).__name__


def _text(value: object, clean: Clean) -> str:
    return clean(value[:MAX_TEXT]).strip() if isinstance(value, str) else ""


def _line(value: object, clean: Clean) -> str:
    """Return the text as one line; blanks are taken out before cleaning, as they can hide a marker."""
    return clean(" ".join(value[:MAX_TEXT].split())).strip() if isinstance(value, str) else ""


def _describe_by_name(title: str, upstream_name: str, args_schema: Mapping[str, Any], clean: Clean) -> str:
    words = title or " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+", " ", _line(upstream_name, clean)).split())
    parameters = [_line(name, clean) for name in list(_mapping(args_schema.get("properties")))[:12]]
    return f"{words} ({', '.join(parameters)})" if parameters else words


def _tags(definition: Mapping[str, Any], meta: Mapping[str, Any], clean: Clean) -> set[str]:
    """Return the labels that a server gives a definition, except the safety tags, which come from annotations."""
    sources = (
        definition.get("tags"),
        meta.get("tags"),
        *(_mapping(meta.get(key)).get("tags") for key in ("fastmcp", "_fastmcp")),
    )
    tags: set[str] = set()
    for source in sources:
        for tag in list(source)[:64] if isinstance(source, list | tuple) else ():
            label = _line(tag, clean).lower() if isinstance(tag, str) and len(tag) <= 64 else ""
            if _TAG.fullmatch(label) and label not in SAFETY_TAGS:
                tags.add(label)
    return tags


def _cost(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        cost = float(value)
    except OverflowError:
        return 0.0
    return cost if math.isfinite(cost) and cost > 0 else 0.0


def _copy_schema(value: Any, clean: Clean, depth: int = 0, *, names: bool = False) -> Any:
    """Copy a schema with clean prose and unchanged values: the server compares arguments with its enum values."""
    if depth > MAX_COPY_DEPTH:
        return {}
    if isinstance(value, OBJECTS):
        copy: dict[str, Any] = {}
        for key, child in value.items():
            if not isinstance(key, str):
                continue
            if type(child) in LEAVES and (names or key not in _WITH_TEXT):
                copy[key] = child  # most values are leaves, and a call would cost more
            elif not names and key in _PROSE and isinstance(child, str):
                copy[key] = _text(child, clean)
            elif not names and key in _WITH_TEXT:
                copy[key] = _copy(child, clean, depth + 1)
            elif not names and key in _VALUES:
                copy[key] = _copy(child, as_is, depth + 1)
            else:
                copy[key] = _copy_schema(child, clean, depth + 1, names=not names and key in NAME_MAPS)
        return copy
    if isinstance(value, ARRAYS):
        return [_copy_schema(child, clean, depth + 1) for child in value]
    return _scalar(value)


def _copy(value: Any, clean: Clean, depth: int = 0) -> Any:
    """Copy JSON with clean strings, cut below MAX_COPY_DEPTH, without values that are not JSON."""
    if isinstance(value, str):
        return value if clean is as_is else clean(value[:MAX_TEXT])
    if depth > MAX_COPY_DEPTH:
        return None
    if isinstance(value, OBJECTS):
        return {key: _copy(child, clean, depth + 1) for key, child in value.items() if isinstance(key, str)}
    if isinstance(value, ARRAYS):
        return [_copy(child, clean, depth + 1) for child in value]
    return _scalar(value)


_MEMBER_TYPES: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("execution", "_meta"), OBJECTS),
    **{"icons": ARRAYS, "mimeType": str, "size": int},
}


def _copy_members(definition: Mapping[str, Any], keys: Iterable[str], clean: Clean) -> dict[str, Any]:
    """Copy those of the members that there are, except what is not of a member's type: readers rely on it."""
    members = ((key, definition.get(key)) for key in keys)
    return {key: _copy(value, clean) for key, value in members if value and isinstance(value, _MEMBER_TYPES[key])}


def _scalar(value: object) -> Any:
    return value if value is None or isinstance(value, str | int | float) else None
