"""The door for foreign definitions: tools, resources and prompts as a server lists them become catalog items.

In: parsed JSON of any shape, and the firewall's cleaner. Out: SelectableItems, and a report of what was taken, flagged
and why. Touches nothing and changes nothing it is given; no definition, however hostile, raises out of `intake`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from leafgate.catalog.schema_trust import NAME_MAPS, SchemaLimits, check_schema
from leafgate.model.errors import CatalogError
from leafgate.model.tool import Kind, SelectableItem
from leafgate.model.tool_id import (
    parse_primitive_id,
    prompt_id_for,
    resolve_collisions,
    resource_id_for,
    tool_id_for,
    usable_version,
)

MAX_TEXT: Final = 16_384  # characters of a description that are read; the rest would only cost cleaning
MAX_NAME: Final = 4_096  # characters of a usable name or uri
MAX_COPY_DEPTH: Final = 64  # below it a definition is cut; schema_trust has flagged such a schema long before

SAFETY_TAGS: Final = ("destructive", "read-only")
_TAG: Final = re.compile(r"\w[\w .+#-]{0,23}")
# Made once: a union of types written out in a call is made anew by every call, and a catalog has millions of values.
_OBJECT: Final = (dict, Mapping)
_ARRAY: Final = (list, tuple)
_LEAVES: Final = frozenset((str, int, bool, type(None)))
_PROSE: Final = frozenset({"title", "description", "$comment"})
_CLEANED: Final = _PROSE | {"examples"}
_VALUES: Final = frozenset({"enum", "const", "default", "required", "pattern", "$ref", "$id", "$schema"})

Clean = Callable[[str], str]


def as_is(text: str) -> str:
    """The cleaner that cleans nothing, for definitions that are trusted or already clean."""
    return text


@dataclass(frozen=True)
class IntakeFlag:
    """Something that was wrong with one definition, and whether it cost the definition its place."""

    code: str
    message: str
    kind: Kind
    server: str
    name: str
    item_id: str = ""
    where: str = ""
    left_out: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "kind": self.kind,
            "server": self.server,
            "name": self.name,
            "id": self.item_id,
            "where": self.where,
            "left_out": self.left_out,
        }


@dataclass(frozen=True)
class IntakeReport:
    """What came in, and how."""

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
class _Taken:
    """One definition on its way in."""

    item: SelectableItem
    flags: tuple[IntakeFlag, ...]


class IntakeMemory:
    """What was made of definitions, so that one that comes again just as it was is not worked on again.

    Belongs to one way of cleaning. What an intake did not use is not known to the next one.
    """

    def __init__(self, clean: Clean, earlier: IntakeMemory | None = None) -> None:
        self._clean = clean
        self._before = earlier._now if earlier is not None and earlier._clean is clean else {}
        self._now: dict[bytes, _Taken] = {}

    def taken(self, kind: Kind, server: str | None, raw: object, take: Callable[[Any], _Taken]) -> _Taken:
        try:
            # As it is written, and not what equals what: to Python true is 1.
            told = repr((kind, server, raw)).encode("utf-8", "surrogatepass")
        except RecursionError:
            return take(raw)
        name = hashlib.blake2b(told, digest_size=16).digest()
        made = self._now[name] = self._before.get(name) or take(raw)
        return made


def mcp_tool_to_selectable(
    tool: Mapping[str, Any],
    *,
    server: str | None = None,
    clean: Clean = as_is,
    limits: SchemaLimits = SchemaLimits(),  # noqa: B008  frozen
) -> SelectableItem:
    """One MCP tool definition as a catalog item; CatalogError only if it has no usable name."""
    return _take_tool(tool, server, clean, limits).item


def mcp_resource_to_selectable(
    resource: Mapping[str, Any], *, server: str | None = None, clean: Clean = as_is
) -> SelectableItem:
    """One MCP resource or resource template as a catalog item; CatalogError only if it has no usable uri."""
    return _take_resource(resource, server, clean).item


def mcp_prompt_to_selectable(
    prompt: Mapping[str, Any], *, server: str | None = None, clean: Clean = as_is
) -> SelectableItem:
    """One MCP prompt as a catalog item, its arguments as a schema; CatalogError only if it has no usable name."""
    return _take_prompt(prompt, server, clean).item


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
    """Everything one server lists. What has no usable name, and a second definition of a name, is left out."""
    items: list[SelectableItem] = []
    flags: list[IntakeFlag] = []
    takers: tuple[tuple[Kind, object, Callable[[Any], _Taken]], ...] = (
        ("tool", tools, lambda raw: _take_tool(raw, server, clean, limits)),
        ("resource", resources, lambda raw: _take_resource(raw, server, clean)),
        ("prompt", prompts, lambda raw: _take_prompt(raw, server, clean)),
    )
    for kind, definitions, make in takers:
        take = make if memory is None else partial(memory.taken, kind, server, take=make)
        taken, raised = _take_all(kind, definitions, take, server or "")
        items += taken
        flags += raised
    return items, IntakeReport(tuple(item.id for item in items), tuple(flags))


def _take_all(
    kind: Kind, definitions: object, take: Callable[[Any], _Taken], server: str
) -> tuple[list[SelectableItem], list[IntakeFlag]]:
    if isinstance(definitions, str | bytes | Mapping) or not isinstance(definitions, Iterable):
        return [], [IntakeFlag("not-a-list", f"the {kind}s are not a list", kind, server, "", left_out=True)]
    items: list[SelectableItem] = []
    flags: list[IntakeFlag] = []
    names: set[str] = set()
    for raw in definitions:
        try:
            taken = take(raw)
        except CatalogError as error:
            name = _shown(raw.get("name") if isinstance(raw, Mapping) else raw)
            flags.append(IntakeFlag("no-usable-name", str(error), kind, server, name, left_out=True))
            continue
        item = taken.item
        # Dispatch is by raw name: a second definition of it could never be reached, so the first one wins.
        if item.upstream_name in names:
            text = "an earlier definition has this name"
            flags.append(IntakeFlag("duplicate-name", text, kind, server, item.name, item.id, left_out=True))
            continue
        names.add(item.upstream_name)
        items.append(item)
        flags += taken.flags
    if kind == "tool":
        return _without_twins(items, flags)
    keys = resolve_collisions([item.id for item in items])
    return [replace(item, id=key) for item, key in zip(items, keys, strict=True)], flags


def _without_twins(
    items: list[SelectableItem], flags: list[IntakeFlag]
) -> tuple[list[SelectableItem], list[IntakeFlag]]:
    """Tools of different names and one id: the hash collided, by chance or by design. The first one stays."""
    kept: dict[str, SelectableItem] = {}
    for item in items:
        if item.id in kept:
            text = f"{kept[item.id].name!r} has the same id"
            flags = [*flags, IntakeFlag("id-collision", text, "tool", item.server, item.name, item.id, left_out=True)]
        else:
            kept[item.id] = item
    return list(kept.values()), flags


def _take_tool(raw: object, server: str | None, clean: Clean, limits: SchemaLimits) -> _Taken:
    tool = _definition(raw)
    upstream_name = _usable_name(tool.get("name"))
    meta, annotations = _mapping(tool.get("_meta")), _mapping(tool.get("annotations"))
    version = meta.get("version")
    args = tool.get("inputSchema")
    item_id = tool_id_for(upstream_name, args, server=server, version=version if usable_version(version) else None)
    namespace, name = _labels(item_id, upstream_name, clean)
    title = _line(tool.get("title"), clean) or _line(annotations.get("title"), clean)
    flag = _flagger("tool", server, name, item_id)

    flags: list[IntakeFlag] = []
    if version is not None and not usable_version(version):
        flags.append(flag("version-unusable", "the declared version cannot stand in an id; the hash does"))
    if args is None:
        flags.append(flag("no-input-schema", "any arguments are passed on"))
    else:
        flags += [flag(f"input-schema-{one.code}", one.message, one.where) for one in check_schema(args, limits)]
    output = tool.get("outputSchema")
    if output is not None:
        flags += [flag(f"output-schema-{one.code}", one.message, one.where) for one in check_schema(output, limits)]

    args_schema = _cleaned_schema(args, clean) if isinstance(args, Mapping) else {}
    description = _text(tool.get("description"), clean)
    if not description:
        flags.append(flag("no-description", "described by its title, name and parameters instead"))
        description = _described_by_name(title, upstream_name, args_schema, clean)
    read_only, destructive = annotations.get("readOnlyHint") is True, annotations.get("destructiveHint") is True
    tags = _tags(tool, meta, clean)
    tags |= {tag for tag, claimed in zip(SAFETY_TAGS, (destructive, read_only), strict=True) if claimed}

    metadata: dict[str, Any] = {"annotations": {**_copied(annotations, clean), "verified": False}}
    for key in ("icons", "execution", "_meta"):
        if tool.get(key):
            metadata[key] = _copied(tool[key], clean)
    schema_flags = [
        f"{one.code}: {one.message}" for one in flags if one.code.startswith(("input-schema-", "output-schema-"))
    ]
    if schema_flags:
        metadata["schema_findings"] = schema_flags
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
        output_schema=_cleaned_schema(output, clean) if isinstance(output, Mapping) else None,
        side_effects=destructive or not read_only,
        cost_hint=_cost(annotations.get("costHint")),
        metadata=metadata,
    )
    return _Taken(item, tuple(flags))


def _take_resource(raw: object, server: str | None, clean: Clean) -> _Taken:
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
        flags = (_flagger("resource", server, name, item_id)("no-description", "described by its title or uri"),)
        description = " ".join(part for part in (title or _line(uri, clean), f"({mime})" if mime else "") if part)
    metadata: dict[str, Any] = {"uriTemplate" if is_template else "uri": uri}
    for key in ("mimeType", "size", "icons", "_meta"):
        if resource.get(key):
            metadata[key] = _copied(resource[key], clean)
    metadata["annotations"] = {**_copied(_mapping(resource.get("annotations")), clean), "verified": False}
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
    return _Taken(item, flags)


def _take_prompt(raw: object, server: str | None, clean: Clean) -> _Taken:
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
        flags = (_flagger("prompt", server, name, item_id)("no-description", note),)
        description = _described_by_name(title, upstream_name, args_schema, clean)
    metadata: dict[str, Any] = {"annotations": {"verified": False}}
    for key in ("icons", "_meta"):
        if prompt.get(key):
            metadata[key] = _copied(prompt[key], clean)
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
        metadata=metadata,
    )
    return _Taken(item, flags)


def _flagger(kind: Kind, server: str | None, name: str, item_id: str) -> Callable[..., IntakeFlag]:
    def flag(code: str, message: str, where: str = "") -> IntakeFlag:
        return IntakeFlag(code, message, kind, server or "", name, item_id, where)

    return flag


def _definition(raw: object) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise CatalogError(f"a definition is an object, not {type(raw).__name__}")
    return raw


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, _OBJECT) else {}


def _is_usable(name: object) -> bool:
    if not isinstance(name, str) or not name or len(name) > MAX_NAME:
        return False
    return name.isascii() or re.search("[\ud800-\udfff]", name) is None


def _usable_name(name: object, what: str = "name") -> str:
    if not _is_usable(name):
        raise CatalogError(f"its {what} is not a string of 1 to {MAX_NAME} characters that can be sent: {_shown(name)}")
    assert isinstance(name, str)
    return name


def _labels(item_id: str, raw_name: str, clean: Clean) -> tuple[str, str]:
    """Namespace and display name. A name that cleaning leaves nothing of is shown as the id writes it."""
    _, parts = parse_primitive_id(item_id)
    return parts.namespace, _line(raw_name, clean) or parts.name


def _shown(value: object) -> str:
    return ascii(value[:60]) if isinstance(value, str) else type(value).__name__


def _text(value: object, clean: Clean) -> str:
    return clean(value[:MAX_TEXT]).strip() if isinstance(value, str) else ""


def _line(value: object, clean: Clean) -> str:
    return " ".join(_text(value, clean).split())


def _described_by_name(title: str, upstream_name: str, args_schema: Mapping[str, Any], clean: Clean) -> str:
    words = title or " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+", " ", _line(upstream_name, clean)).split())
    parameters = [_line(name, clean) for name in list(_mapping(args_schema.get("properties")))[:12]]
    return f"{words} ({', '.join(parameters)})" if parameters else words


def _tags(definition: Mapping[str, Any], meta: Mapping[str, Any], clean: Clean) -> set[str]:
    """Labels that a server gives its tools. The safety tags are kept for the annotations."""
    sources = (
        definition.get("tags"),
        meta.get("tags"),
        *(_mapping(meta.get(key)).get("tags") for key in ("fastmcp", "_fastmcp")),
    )
    found: set[str] = set()
    for source in sources:
        for tag in list(source)[:64] if isinstance(source, list | tuple) else ():
            label = _line(tag, clean).lower() if isinstance(tag, str) and len(tag) <= 64 else ""
            if _TAG.fullmatch(label) and label not in SAFETY_TAGS:
                found.add(label)
    return found


def _cost(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        cost = float(value)
    except OverflowError:
        return 0.0
    return cost if math.isfinite(cost) and cost > 0 else 0.0


def _cleaned_schema(schema: Mapping[str, Any], clean: Clean) -> dict[str, Any]:
    copied = _copied_schema(schema, clean, 0, names=False)
    assert isinstance(copied, dict)
    return copied


def _copied_schema(value: Any, clean: Clean, depth: int, *, names: bool) -> Any:
    """A copy whose prose is cleaned and whose values are not: an enum must stay what the server compares with."""
    if depth > MAX_COPY_DEPTH:
        return {}
    if isinstance(value, _OBJECT):
        copied: dict[str, Any] = {}
        for key, child in value.items():
            if not isinstance(key, str):
                continue
            if type(child) in _LEAVES and (names or key not in _CLEANED):
                copied[key] = child  # most are such, and not worth a call
            elif not names and key in _PROSE and isinstance(child, str):
                copied[key] = _text(child, clean)
            elif not names and key in _CLEANED:
                copied[key] = _copied(child, clean, depth + 1)
            elif not names and key in _VALUES:
                copied[key] = _copied(child, as_is, depth + 1)
            else:
                is_names = not names and key in NAME_MAPS
                copied[key] = _copied_schema(child, clean, depth + 1, names=is_names)
        return copied
    if isinstance(value, _ARRAY):
        return [_copied_schema(child, clean, depth + 1, names=False) for child in value]
    return _scalar(value)


def _copied(value: Any, clean: Clean, depth: int = 0) -> Any:
    """A plain copy of JSON, its strings cleaned, cut below MAX_COPY_DEPTH; what is no JSON is left out."""
    if isinstance(value, str):
        return value if clean is as_is else clean(value[:MAX_TEXT])
    if depth > MAX_COPY_DEPTH:
        return None
    if isinstance(value, _OBJECT):
        return {key: _copied(child, clean, depth + 1) for key, child in value.items() if isinstance(key, str)}
    if isinstance(value, _ARRAY):
        return [_copied(child, clean, depth + 1) for child in value]
    return _scalar(value)


def _scalar(value: object) -> Any:
    return value if value is None or isinstance(value, str | int | float) else None
