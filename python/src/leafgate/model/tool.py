"""Tools, resources and prompts as the catalog holds them: their ids (spec 1), their cards (spec 2), the meta-tools.

An id is the one key between browsing, hydrating and executing. Ids of a closed grammar are made from upstream names,
schemas, URIs and server names, which are all foreign; CatalogError where that fails. This file owns the bound that lets
every card fit: no id made here costs more than MAX_ID_WEIGHT tokens.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from leafgate.model.errors import CatalogError

Kind = Literal["tool", "agent", "skill", "internal", "resource", "prompt"]
JsonObject = Mapping[str, Any]


@dataclass(frozen=True)
class SelectableItem:
    """One entry of the catalog. Annotation-derived fields are the server's claims, never verified (spec 2).

    The definition is foreign text that intake has already cleaned. `upstream_name` is the raw name, kept for dispatch.
    """

    id: str
    kind: Kind
    name: str
    description: str
    namespace: str
    upstream_name: str
    server: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    args_schema: JsonObject = field(default_factory=dict)
    output_schema: JsonObject | None = None
    side_effects: bool = True
    cost_hint: float = 0.0
    metadata: JsonObject = field(default_factory=dict)

    @property
    def is_for_models(self) -> bool:
        """False for a tool that only the page of an app is to call (`_meta.ui.visibility` of MCP Apps)."""
        ui = (self.metadata.get("_meta") or {}).get("ui")
        visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
        return not isinstance(visibility, list) or "model" in visibility


@dataclass(frozen=True)
class HydrationResult:
    """A selected item with everything a caller needs to call it."""

    item: SelectableItem
    args_schema: JsonObject
    output_schema: JsonObject | None


Safety = Literal["", "read_only", "destructive"]


@dataclass(frozen=True)
class ChoiceCard:
    """The only form in which a model reads about an item before it asks for its schema (spec 2.1).

    Never carries a schema, an example, free-form metadata or a server's address."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...] = ()
    kind: Kind = "tool"
    namespace: str = ""
    has_schema: bool = False
    score: float | None = None
    cost_hint: float = 0.0
    side_effects: bool = False
    safety: Safety = ""

    def as_json(self) -> dict[str, Any]:
        """The JSON form: all fields, the score included."""
        return {**vars(self), "tags": list(self.tags)}

    def __bytes__(self) -> bytes:
        """The JSON form as canonical bytes: equal cards have equal bytes, in every process."""
        return json.dumps(self.as_json(), sort_keys=True, separators=(",", ":")).encode()


class ExposureMode(Enum):
    """How a gateway shows the tools behind it (spec 3.1).

    GATEWAY and TRANSPARENT give schemas by hydration only; PASSTHROUGH shows tools as their servers do.
    """

    GATEWAY = "gateway"
    TRANSPARENT = "transparent"
    PASSTHROUGH = "passthrough"


ALL_META_TOOLS: Final = (
    "tool_browse",
    "tool_hydrate",
    "tool_execute",
    "tool_view",
    "resource_browse",
    "resource_read",
    "prompt_browse",
    "prompt_get",
)

META_TOOLS: Final[Mapping[ExposureMode, tuple[str, ...]]] = {
    ExposureMode.GATEWAY: ALL_META_TOOLS,
    ExposureMode.TRANSPARENT: ("tool_hydrate", "tool_execute", "tool_view"),
    ExposureMode.PASSTHROUGH: ("tool_view",),
}


PrimitiveKind = Literal["tool", "resource", "prompt"]

MAX_ID_LENGTH: Final = 240
DEFAULT_NAMESPACE: Final = "mcp"

# Token bounds (spec 1.6). Namespace, name and version share MAX_ID_WEIGHT with the separators and the hash.
MAX_ID_WEIGHT: Final = 47
MAX_NAMESPACE_WEIGHT: Final = 16
MAX_VERSION_WEIGHT: Final = 10
HASH_WEIGHT: Final = 9  # "#" and eight hex digits

_NAMESPACE: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_VERSION: Final = re.compile(r"[A-Za-z0-9._-]{1,32}")
_HASH8: Final = re.compile(r"[0-9a-f]{8}")
_SHAPE: Final = re.compile(r"([^:@#]*):([^:@#]*)(?:@([^:@#]*))?(?:#([^:@#]*))?")
_KIND_TAG: Final = re.compile(r"(resource|prompt)::(.*)", re.DOTALL)

# Two neighbours of the first class always merge into one token of cl100k_base; of the others that is not certain.
_WEIGHED: Final = re.compile(r"([abcdehiklmnoprstuwy]+)|([0-9]+)|.", re.DOTALL)


@dataclass(frozen=True)
class ToolIdParts:
    """The fields of a tool id, each within its grammar once parsed or formatted."""

    namespace: str
    name: str
    version: str | None = None
    hash8: str | None = None


def parse_tool_id(text: str) -> ToolIdParts:
    """Split a canonical tool id; CatalogError on anything else."""
    if not isinstance(text, str):
        raise CatalogError("a tool id is a string")
    shape = _SHAPE.fullmatch(_check_length(text))
    if shape is None:
        raise CatalogError(f"not a tool id (namespace:name[@version][#hash8]): {text!r}")
    return _check_parts(ToolIdParts(*shape.groups()))


def format_tool_id(parts: ToolIdParts) -> str:
    """The inverse of parse_tool_id; CatalogError if a field breaks its grammar."""
    _check_parts(parts)
    version = "" if parts.version is None else f"@{parts.version}"
    hash8 = "" if parts.hash8 is None else f"#{parts.hash8}"
    return _check_length(f"{parts.namespace}:{parts.name}{version}{hash8}")


def _check_length(id: str) -> str:
    if len(id) > MAX_ID_LENGTH:
        raise CatalogError(f"a tool id has at most {MAX_ID_LENGTH} characters, this one has {len(id)}")
    return id


def _check_parts(parts: ToolIdParts) -> ToolIdParts:
    for part, grammar in {"namespace": _NAMESPACE, "name": _NAME, "version": _VERSION, "hash8": _HASH8}.items():
        value = getattr(parts, part)
        if value is None and part in ("version", "hash8"):
            continue
        if not isinstance(value, str) or grammar.fullmatch(value) is None:
            raise CatalogError(f"the {part} of a tool id does not match {grammar.pattern}: {value!r}")
    return parts


def parse_primitive_id(text: str) -> tuple[PrimitiveKind, ToolIdParts]:
    """The kind and the fields of a tool, resource or prompt id. `~N` keys are opaque and refused."""
    tagged = _KIND_TAG.fullmatch(text) if isinstance(text, str) else None
    if tagged is None:
        return "tool", parse_tool_id(text)
    return ("resource" if tagged[1] == "resource" else "prompt"), parse_tool_id(tagged[2])


def format_primitive_id(kind: PrimitiveKind, parts: ToolIdParts) -> str:
    """The inverse of parse_primitive_id: tools keep the bare form."""
    if kind == "tool":
        return format_tool_id(parts)
    if kind not in ("resource", "prompt"):
        raise CatalogError(f"no kind of primitive: {kind!r}")
    return f"{kind}::{format_tool_id(parts)}"


def infer_namespace(tool_name: str) -> str:
    """The namespace a bare tool name suggests: `github.x`, `fs/x` and `slack_x_y` have one, the rest is `mcp`."""
    return _derive(tool_name)[0]


def _derive(tool_name: str) -> tuple[str, str]:
    """Namespace and remaining name (spec 1.4)."""
    separated = re.match(r"([^./]+)[./](.+)", tool_name, re.DOTALL)
    if separated:
        return normalize_namespace(separated[1]), separated[2]
    segments = tool_name.split("_")
    if len(segments) >= 3 and segments[0]:
        return normalize_namespace(segments[0]), tool_name
    return DEFAULT_NAMESPACE, tool_name


def normalize_namespace(server: str) -> str:
    """A server's name within the namespace grammar. Deterministic, not injective: see clashing_namespaces."""
    if _NAMESPACE.fullmatch(server) and id_weight(server) <= MAX_NAMESPACE_WEIGHT:
        return server
    digest = _sha256_hex(server)  # first: lone surrogates are refused whether or not the digest is needed
    lowered = re.sub(r"[A-Z]", lambda match: match[0].lower(), server)
    plain = re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9_-]", "-", lowered)).strip("-")
    if not re.match(r"[a-z]", plain):
        plain = f"x-{plain}"
    if plain == "x-" or len(plain) > 64 or id_weight(plain) > MAX_NAMESPACE_WEIGHT:
        # Six hex digits of the whole name make up for what the cut loses.
        plain = f"{_cut_to_weight(plain, MAX_NAMESPACE_WEIGHT - 7).rstrip('-_')}-{digest[:6]}"
    return plain


def clashing_namespaces(servers: Iterable[str]) -> dict[str, list[str]]:
    """Namespaces that several of these server names share, with those names in order."""
    by_namespace: dict[str, list[str]] = {}
    for server in dict.fromkeys(servers):
        by_namespace.setdefault(normalize_namespace(server), []).append(server)
    return {namespace: names for namespace, names in sorted(by_namespace.items()) if len(names) > 1}


def canonical_shape(input_schema: object) -> str:
    """The part of an input schema that an id depends on: top-level property names and `required`, as ASCII JSON."""
    schema = input_schema if isinstance(input_schema, Mapping) else {}
    properties = schema.get("properties")
    required = schema.get("required")
    names = [name for name in properties if isinstance(name, str)] if isinstance(properties, Mapping) else []
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list | tuple) else []
    return _canonical_json({"properties": sorted(names), "required": sorted(needed)})


def canonical_hash8(upstream_name: str, input_schema: object) -> str:
    """Eight hex digits over the raw upstream name and the canonical shape (spec 1.3)."""
    return _sha256_hex(f"{upstream_name}\n{canonical_shape(input_schema)}")[:8]


def tool_id_for(
    upstream_name: str, input_schema: object, *, server: str | None = None, version: str | None = None
) -> str:
    """The id of an upstream tool. A known server is the namespace; otherwise the name suggests one."""
    hash8 = canonical_hash8(_usable(upstream_name), input_schema)
    return format_tool_id(_parts_for(upstream_name, hash8, server, version))


def resource_id_for(uri: str, name: str, server: str | None = None) -> str:
    """The id of a resource: its uri is its identity, its name only makes the id readable."""
    hash8 = _sha256_hex(f"resource\n{_usable(uri)}")[:8]
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", uri)
    readable = name or re.sub(r"^.*/(?=.)", "", uri)
    namespace = server or (scheme[1] if scheme else DEFAULT_NAMESPACE)
    return format_primitive_id("resource", _parts_for(readable, hash8, namespace))


def prompt_id_for(name: str, argument_names: Sequence[str], server: str | None = None) -> str:
    """The id of a prompt: its name and the set of its argument names."""
    shape = _canonical_json(sorted({argument for argument in argument_names if isinstance(argument, str)}))
    hash8 = _sha256_hex(f"prompt\n{_usable(name)}\n{shape}")[:8]
    return format_primitive_id("prompt", _parts_for(name, hash8, server))


def _parts_for(raw_name: str, hash8: str, server: str | None, version: str | None = None) -> ToolIdParts:
    namespace, name = (normalize_namespace(server), raw_name) if server else _derive(raw_name)
    if version is not None and not usable_version(version):
        version = None
    room = MAX_ID_WEIGHT - id_weight(namespace) - 1 - HASH_WEIGHT
    if version is not None:
        room -= 1 + id_weight(version)
    if _NAME.fullmatch(name) and id_weight(name) <= room:
        return ToolIdParts(namespace, name, version, hash8 if version is None else None)
    # An escaped name is not unique by itself, so its id carries the hash of the raw name even beside a version.
    return ToolIdParts(namespace, escape_name(name, room), version, hash8)


def escape_name(raw_name: str, room: int = MAX_ID_WEIGHT) -> str:
    """A readable name within the grammar and within `room` tokens; hash8 distinguishes names that become equal."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", raw_name[:1024])
    if not re.match(r"[A-Za-z_]", plain):
        plain = f"_{plain}"
    return _cut_to_weight(plain, room)[:128]


def usable_version(version: object) -> bool:
    """Whether a declared version can stand in an id; one that cannot counts as not declared."""
    return isinstance(version, str) and bool(_VERSION.fullmatch(version)) and id_weight(version) <= MAX_VERSION_WEIGHT


def resolve_collisions(ids: Sequence[str]) -> list[str]:
    """Catalog keys for a list of ids: the first of equals keeps its id, later ones become `id~2`, `id~3`, ..."""
    keys_in_use = set(ids)
    counts: dict[str, int] = {}
    keys: list[str] = []
    for item in ids:
        count = counts.get(item, 0) + 1
        key = item if count == 1 else f"{item}~{count}"
        while count > 1 and key in keys_in_use:
            count += 1
            key = f"{item}~{count}"
        counts[item] = count
        keys_in_use.add(key)
        keys.append(key)
    return keys


def id_weight(text: str) -> int:
    """An upper bound on the cl100k_base tokens of a text of the id alphabet, without a tokenizer (spec 1.6)."""
    weight = 0
    for run in _WEIGHED.finditer(text):
        if run[1]:
            weight += (2 * len(run[1]) + 1) // 3
        elif run[2]:
            weight += (len(run[2]) + 2) // 3
        else:
            weight += 1
    return weight


def _cut_to_weight(text: str, room: int) -> str:
    """The longest beginning that weighs at most `room`."""
    for run in _WEIGHED.finditer(text):
        # How much of this run what is left has room for: the inverse of its weight.
        fitting = (3 * room + 1) // 2 if run[1] else 3 * room if run[2] else room
        if fitting < len(run[0]):
            return text[: run.start() + fitting]
        room -= id_weight(run[0])
    return text


def _usable(text: str) -> str:
    if not isinstance(text, str) or not text:
        raise CatalogError("a name is a string that is not empty")
    return text


def _canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _sha256_hex(text: str) -> str:
    try:
        return hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:
        raise CatalogError("a name with lone surrogates cannot be sent to its server") from None
