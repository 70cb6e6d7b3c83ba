"""Offers as plain MCP clients know them, and resources and prompts, read natively or through the meta-tools.

Listed names fit the rules of model APIs (spec 3.11): a name that two servers share gets the server's name in front, on
both sides; one with other characters than letters, digits, `_` and `-`, or with too many, gets a hash at its end. URIs
of skills and app pages that servers share get a prefix too, because a host takes both for the URIs of one server.
Definitions are cleaned before a client sees them; other URIs are not changed by it. Native reads are cleaned but not
shortened: a plain client loses nothing. Through the meta-tools, reads are delivered like every tool result.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

from leafgate.catalog.catalog import Catalog
from leafgate.catalog.skills import DIRECTORY_READ, SKILLS, Skill, parents, read_skill
from leafgate.gateway.snapshot import Snapshot
from leafgate.model.envelope import Origin
from leafgate.model.errors import ErrorCode, GatewayError, UpstreamFailure
from leafgate.model.request import ClientChannel
from leafgate.model.tool import ALL_META_TOOLS, JsonObject, SelectableItem, normalize_namespace
from leafgate.ports import CacheHint, Offers, ToolListing, Upstream, read_cache_hint

# Of MCP Apps (SEP-1865): the extension, the scheme of its pages, and their media type.
APPS: Final = "io.modelcontextprotocol/ui"
APP_SCHEME: Final = "ui://"
APP_TYPE: Final = "text/html;profile=mcp-app"
OLD_PAGE_KEY: Final = "ui/resourceUri"
INVALID_PARAMS: Final = -32602  # of JSON-RPC

MAX_NAME: Final = 64
OWN_URI: Final = "leafgate:notice"  # of texts of the gateway among the contents of a resource
MAX_INSTRUCTIONS: Final = 8_000  # characters of one server's instructions
_FOREIGN_TO_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
# Hex digits at the end of a name: 0 as it is, 0 behind its server's name, and more for as long as names are equal.
_HASH_DIGITS: Final = (0, 0, 8, 16, 32)

Key = tuple[str, str]  # a server, and the name that it gave to a tool or prompt
Read = tuple[Origin, Mapping[str, Any]]  # a resource or prompt, in the shape of a tool's raw result
Address = tuple[str, str]  # a server, and a URI as that server knows it
CleanJson = Callable[[Any], Any]
NO_OTHERS: Final[Mapping[str, CleanJson]] = {}


@dataclass(frozen=True)
class NativeTool:
    """A tool under its public name."""

    item: SelectableItem
    definition: Mapping[str, Any]


@dataclass(frozen=True)
class NativePrompt:
    """A prompt under its public name."""

    server: str
    upstream_name: str
    definition: Mapping[str, Any]


@dataclass(frozen=True)
class NativeSkill:
    """A skill under its public URI."""

    server: str
    skill: Skill
    definition: Mapping[str, Any]


@dataclass(frozen=True)
class NativeOffers:
    """Everything, by the name that clients use for it.

    `addresses` has the app pages and the root directories of skills by their public URIs. `instructions` are those of
    all servers, under their names if they are several.
    """

    tools: Mapping[str, NativeTool]
    prompts: Mapping[str, NativePrompt]
    resources: Mapping[str, Mapping[str, Any]]
    templates: Mapping[str, Mapping[str, Any]]
    skills: Mapping[str, NativeSkill]
    addresses: Mapping[str, Address]
    instructions: str = ""

    def address_of(self, uri: str) -> Address | None:
        """Where an app page or a file of a skill is; None for other resources."""
        for parent in parents(uri):
            if parent in self.addresses:
                server, own = self.addresses[parent]
                return server, f"{own}{uri.removeprefix(parent)}"
        return None

    @cached_property
    def _publics(self) -> Mapping[Address, str]:
        return {address: public for public, address in self.addresses.items()}

    def write_uri(self, server: str, uri: str) -> str:
        """The public form of a URI of a server."""
        return _write_uri(self._publics, server, uri)


def native_offers(
    snapshot: Snapshot, clean_json: CleanJson, *, prefix: bool = False, clean_for: Mapping[str, CleanJson] = NO_OTHERS
) -> NativeOffers:
    """The native view of a snapshot. What intake left out is left out here too. `prefix`: see `public_names`.

    `clean_for` has the servers that are cleaned in another way.
    """

    def clean(server: str, value: Any) -> Any:
        return clean_for.get(server, clean_json)(value)

    def define(listing: ToolListing, key: str, public: str) -> dict[str, Any]:
        definition = clean(listing.server, listing.definition)
        return {**{name: value for name, value in definition.items() if value is not None}, key: public}

    def define_named(listing: ToolListing, name: str) -> dict[str, Any]:
        fields = define(listing, "name", name)
        if name != _name(listing) and "title" not in {**fields.get("annotations", {}), **fields}:
            fields["title"] = clean(listing.server, _name(listing))
        return fields

    def by_uri(listings: Iterable[ToolListing], key: str) -> dict[str, Mapping[str, Any]]:
        definitions: dict[str, Mapping[str, Any]] = {}
        for listing in listings:
            uri = str(listing.definition.get(key))
            public = _write_uri(publics, listing.server, uri)
            if (listing.server, uri) in resources and public not in definitions:
                definitions[public] = {"name": clean_json(uri), **define(listing, key, public)}
        return definitions

    def define_tool(listing: ToolListing, name: str) -> dict[str, Any]:
        fields, page = define_named(listing, name), _app_page(listing.definition)
        schema = fields.get("inputSchema")
        # Of the tasks of 2025-11-25, which the gateway waits for itself; a client would refuse to call such a tool.
        execution = {key: value for key, value in fields.pop("execution", {}).items() if key != "taskSupport"}
        fields |= {"execution": execution} if execution else {}
        fields["inputSchema"] = {**_portable(schema if isinstance(schema, Mapping) else {}), "type": "object"}
        if isinstance(fields.get("outputSchema"), Mapping):
            fields["outputSchema"] = _portable(fields["outputSchema"])
        if page is not None:
            meta, public = dict(fields["_meta"]), publics[listing.server, page]
            ui = {"ui": {**meta["ui"], "resourceUri": public}} if isinstance(meta.get("ui"), Mapping) else {}
            fields["_meta"] = meta | ui | ({OLD_PAGE_KEY: public} if OLD_PAGE_KEY in meta else {})
        return fields

    offers = snapshot.offers
    skills = _skills(offers.skills)
    publics = _public_uris(offers, skills)
    items, resources, prompts = (
        {(item.server, item.upstream_name): item for item in shelf.catalog} for shelf in snapshot.shelves
    )
    tools = _by_public_name((each for each in offers.tools if (each.server, _name(each)) in items), prefix=prefix)
    listed_prompts = (each for each in offers.prompts if (each.server, _name(each)) in prompts)
    return NativeOffers(
        tools={
            public: NativeTool(items[listing.server, _name(listing)], define_tool(listing, public))
            for public, listing in tools.items()
        },
        prompts={
            public: NativePrompt(listing.server, _name(listing), define_named(listing, public))
            for public, listing in _by_public_name(listed_prompts, prefix=prefix).items()
        },
        resources=by_uri(offers.resources, "uri"),
        templates=by_uri(offers.templates, "uriTemplate"),
        skills={
            write(skill.uri): NativeSkill(server, skill, skill.as_json(clean(server, skill.frontmatter), write))
            for server, skill in skills
            for write in [partial(_write_uri, publics, server)]
        },
        addresses={public: address for address, public in publics.items()},
        instructions=_join_instructions({server: clean(server, text) for server, text in offers.instructions.items()}),
    )


def _portable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of the same meaning that every client reads. Some want objects in place of true and false; and they look
    schemas up by their ids, among those of all servers."""
    copy = {key: value for key, value in schema.items() if key != "$id"}
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and not all(isinstance(each, Mapping) for each in properties.values()):
        copy["properties"] = {
            name: each if isinstance(each, Mapping) else {} if each else {"not": {}}
            for name, each in properties.items()
        }
    return copy


def _join_instructions(texts: Mapping[str, str]) -> str:
    """The instructions of servers as one text; an overlong one is cut."""
    most = MAX_INSTRUCTIONS
    short = {server: text if len(text) <= most else f"{text[:most]}…" for server, text in texts.items()}
    if len(short) <= 1:
        return "".join(short.values())
    return "\n\n".join(f"## {server}\n{text}" for server, text in short.items())


def _skills(listings: Iterable[ToolListing]) -> list[tuple[str, Skill]]:
    """The skills that servers list. Of two with one URI at one server, the first counts."""
    skills = {
        (each.server, skill.uri): skill
        for each in reversed([*listings])
        if (skill := read_skill(each.definition)) is not None
    }
    return [(server, skill) for (server, _), skill in reversed(skills.items())]


def _app_page(definition: Mapping[str, Any]) -> str | None:
    """The URI of the page that a tool's results are shown in, also in its older form."""
    meta = definition.get("_meta")
    meta = meta if isinstance(meta, Mapping) else {}
    ui = meta.get("ui")
    uri = ui.get("resourceUri") if isinstance(ui, Mapping) else None
    uri = meta.get(OLD_PAGE_KEY) if uri is None else uri
    return uri if isinstance(uri, str) and uri.startswith(APP_SCHEME) else None


def _public_uris(offers: Offers, skills: Iterable[tuple[str, Skill]]) -> dict[Address, str]:
    """The public URIs of app pages and of the directories of skills.

    A URI gets its server's name as its first segment where a URI of another server is the same, or is above or below
    it, or where it begins with another server's name: no server can answer for the files of another one.
    """
    pages = [(each.server, _app_page(each.definition)) for each in offers.tools]
    pages += [(each.server, each.definition.get("uri")) for each in offers.resources]
    addresses: list[Address] = [(server, str(uri)) for server, uri in pages if str(uri).startswith(APP_SCHEME)]
    addresses += [(server, skill.root) for server, skill in skills]
    servers_at: defaultdict[str, set[str]] = defaultdict(set)
    for server, uri in addresses:
        servers_at[uri].add(server)
    prefixes = {server: normalize_namespace(server) for server, _ in addresses}
    shared: set[Address] = set()
    for server, uri in addresses:
        for parent in parents(uri):
            others = servers_at.get(parent, set()) - {server}
            shared |= {(other, parent) for other in others} | ({(server, uri)} if others else set())
        first = uri.partition("://")[2].partition("/")[0]
        if first != prefixes[server] and first in prefixes.values():
            shared.add((server, uri))

    def write(server: str, uri: str) -> str:
        is_shared = any((server, parent) in shared for parent in parents(uri))  # a skill may contain another one
        return uri.replace("://", f"://{prefixes[server]}/", 1) if is_shared else uri

    return {address: write(*address) for address in addresses}


def _write_uri(publics: Mapping[Address, str], server: str, uri: str) -> str:
    """The public form of a URI: itself, or below the public form of a directory above it."""
    for parent in parents(uri):
        if (server, parent) in publics:
            return f"{publics[server, parent]}{uri.removeprefix(parent)}"
    return uri


def _name(listing: ToolListing) -> str:
    name = listing.definition.get("name")
    return name if isinstance(name, str) else ""


def _by_public_name(listings: Iterable[ToolListing], *, prefix: bool) -> dict[str, ToolListing]:
    """Within a server the first listing of a name counts."""
    own: dict[Key, ToolListing] = {}
    for listing in listings:
        if _name(listing):
            own.setdefault((listing.server, _name(listing)), listing)
    return {name: own[key] for key, name in public_names(own, prefix=prefix).items()}


def public_names(keys: Iterable[Key], *, prefix: bool = False) -> dict[Key, str]:
    """A name for each key that no other key has, and that matches `[A-Za-z0-9_-]{1,64}` (spec 3.11).

    A name that several servers have, or that is one of the gateway's own, gets its server's name in front; with
    `prefix` every name does. Where names are equal even so, each gets a hash of its key at its end.
    """
    steps = dict.fromkeys(keys, int(prefix))
    while True:
        names = {key: _write_name(key, step) for key, step in steps.items()}
        uses = Counter([*names.values(), *ALL_META_TOOLS])
        equals = [key for key, name in names.items() if uses[name] > 1]
        if not equals:
            return names
        for key in equals:
            steps[key] += 1


def _write_name(key: Key, step: int) -> str:
    server, name = key
    full = f"{normalize_namespace(server)}__{name}" if step else name
    plain = _FOREIGN_TO_NAMES.sub("_", full)
    digits = _HASH_DIGITS[step]
    if not digits and (plain != full or len(plain) > MAX_NAME):  # it could be another name's plain form too
        digits = 8
    if not digits:
        return plain
    digest = hashlib.sha256(json.dumps([server, name]).encode()).hexdigest()[:digits]
    return f"{plain[: MAX_NAME - 1 - digits]}_{digest}"


def shows_apps(client: ClientChannel | None) -> bool:
    """Whether a client shows the pages of apps, and so can be trusted to keep them and their tools from its model."""
    extensions = None if client is None else client.capabilities.get("extensions")
    return isinstance(extensions, Mapping) and APPS in extensions


def is_app_page(uri: str, raw: Mapping[str, Any]) -> bool:
    """Whether the contents of a resource are the page of an app, and nothing else."""
    contents = raw.get("contents")
    parts = [each for each in contents if isinstance(each, Mapping)] if isinstance(contents, list) else []
    types = {str(each.get("mimeType")).replace(" ", "").lower() for each in parts}
    return uri.startswith(APP_SCHEME) and types == {APP_TYPE}


def rename_contents(result: dict[str, Any], own_uri: str, uri: str) -> dict[str, Any]:
    """The contents of a resource under its public URI."""
    contents = result.get("contents")
    if own_uri == uri or not isinstance(contents, list):
        return result
    return {**result, "contents": [_rename(each, own_uri, uri) for each in contents]}


def _rename(part: Any, own_uri: str, uri: str) -> Any:
    return {**part, "uri": uri} if isinstance(part, Mapping) and part.get("uri") == own_uri else part


def own_contents(text: str) -> dict[str, Any]:
    """A text of the gateway among the contents of a resource."""
    return {"uri": OWN_URI, "mimeType": "text/plain", "text": text}


def own_message(text: str) -> dict[str, Any]:
    """A text of the gateway among the messages of a prompt."""
    return {"role": "user", "content": {"type": "text", "text": text}}


async def get_skill(
    offers: NativeOffers, upstream: Upstream, uri: str, client: ClientChannel | None, *, is_whole: bool
) -> tuple[str, Skill, CacheHint]:
    """A skill, its server and the server's hint.

    For a caller who sees everything, every server is asked for a skill that no list has.
    """
    address = offers.address_of(uri)
    addresses = [] if address is None else [address]
    if address is None and is_whole:
        addresses = [(server, uri) for server in upstream.servers_with(SKILLS)]
    skills: list[tuple[str, Skill, CacheHint]] = []
    for server, own_uri in addresses:
        try:
            raw = await upstream.request(server, "skills/get", {"uri": own_uri}, client)
        except UpstreamFailure as failure:
            if failure.rpc_code != INVALID_PARAMS:
                raise
        else:
            skill = read_skill(raw.get("skill"))
            skills += [] if skill is None or skill.uri != own_uri else [(server, skill, read_cache_hint(raw))]
    if len(skills) != 1:
        message = "several servers have this skill" if skills else "no server has this skill"
        raise GatewayError("RESOURCE_NOT_FOUND", message, path=uri[:240])
    return skills[0]


async def read_directory(
    offers: NativeOffers, upstream: Upstream, uri: str, params: JsonObject, client: ClientChannel | None
) -> tuple[str, dict[str, Any]]:
    """A server, and the children of a directory of its skill: asked for, or from the files that the skill lists."""
    server, own_uri = offers.address_of(uri) or ("", uri)
    if server in upstream.servers_with(DIRECTORY_READ):
        raw = await upstream.request(server, "resources/directory/read", {**params, "uri": own_uri}, client)
    else:
        skills = (each.skill for each in offers.skills.values() if each.server == server)
        files = {child["uri"]: child for skill in skills for child in skill.children(own_uri)}
        if not files:
            raise GatewayError("RESOURCE_NOT_FOUND", "no server has this directory", path=uri[:240])
        raw = {"resources": [*files.values()]}
    entries = [each for each in raw.get("resources") or () if isinstance(each, Mapping)]
    listed = [{**each, "uri": offers.write_uri(server, str(each.get("uri")))} for each in entries]
    return server, {**raw, "resources": listed}


async def read_resource(snapshot: Snapshot, upstream: Upstream, args: JsonObject, client: ClientChannel | None) -> Read:
    """The raw contents of a resource that a card named, as a tool result would carry them."""
    item = _item(snapshot.resources.catalog, args, "resource_id", "RESOURCE_NOT_FOUND")
    raw = await upstream.request(item.server, "resources/read", {"uri": item.upstream_name}, client)
    return _as_result(item, raw.get("contents"), _resource_block)


async def get_prompt(snapshot: Snapshot, upstream: Upstream, args: JsonObject, client: ClientChannel | None) -> Read:
    """A rendered prompt that a card named: each message a block, with its role in front of its text."""
    item = _item(snapshot.prompts.catalog, args, "prompt_id", "PROMPT_NOT_FOUND")
    params = {"name": item.upstream_name, "arguments": _prompt_args(item, args.get("args"))}
    raw = await upstream.request(item.server, "prompts/get", params, client)
    return _as_result(item, raw.get("messages"), _message_block)


def _as_result(item: SelectableItem, parts: object, make_block: Callable[[JsonObject], JsonObject]) -> Read:
    parts = parts if isinstance(parts, Sequence) and not isinstance(parts, str) else ()
    blocks = [make_block(part) for part in parts if isinstance(part, Mapping)]
    return Origin(item.server, item.upstream_name), {"content": blocks}


def _item(catalog: Catalog, args: JsonObject, argument: str, code: ErrorCode) -> SelectableItem:
    id = args.get(argument)
    if not isinstance(id, str):
        raise GatewayError("ARGS_INVALID", f"{argument} is a text")
    item = catalog.get(id)
    if item is None:
        raise GatewayError(code, "nothing has this id; browse for the ids there are", path=id[:240])
    return item


def _prompt_args(item: SelectableItem, args: object) -> dict[str, str]:
    """Prompt arguments are texts; which ones there are, the prompt has declared."""
    args = {} if args is None else args
    if not isinstance(args, Mapping) or not all(isinstance(value, str) for value in args.values()):
        raise GatewayError("ARGS_INVALID", "the arguments of a prompt are texts, by name", path=item.id)
    declared = item.args_schema.get("properties") or {}
    missing = sorted(name for name in item.args_schema.get("required") or () if name not in args)
    unknown = sorted(name for name in args if name not in declared)
    violations = [{"pointer": "", "message": f'"{name}" is a required argument'} for name in missing]
    violations += [{"pointer": f"/{name}", "message": "the prompt has no such argument"} for name in unknown]
    if violations:
        details = {"violations": violations}
        raise GatewayError("ARGS_INVALID", "the arguments do not fit the prompt", path=item.id, details=details)
    return {str(name): str(value) for name, value in args.items()}


def _resource_block(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    return {"type": "resource", "resource": dict(part)}


def _message_block(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    if not isinstance(content, Mapping):
        return {"type": "text", "text": ""}
    if content.get("type") == "text" and isinstance(content.get("text"), str):
        return {**content, "text": f"{message.get('role')}: {content['text']}"}
    return content
