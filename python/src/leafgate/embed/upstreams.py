"""A program's upstreams as the gateway's `Upstream` port: the adapter from the documented methods, and several as one.

Programs hand over objects with `list_tools` and `call_tool`, or with `list_resources`, `read_resource`, `list_prompts`
and `get_prompt`. The bundled classes have these methods, and so may classes of the program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import anyio
from mcp.types import METHOD_NOT_FOUND

from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.model.request import ClientChannel
from leafgate.ports import OfferKind, ToolListing
from leafgate.upstream.library import UpstreamMethods
from leafgate.upstream.raw_session import Params, Result, classify, fits_template, server_of_uri

log = logging.getLogger("leafgate.upstream")

# The method that lists each kind of offers, and the key that identifies one of them.
_KINDS: Final[Mapping[OfferKind, tuple[str, str]]] = {
    "tools": ("list_tools", "name"),
    "resources": ("list_resources", "uri"),
    "templates": ("list_resource_templates", "uriTemplate"),
    "prompts": ("list_prompts", "name"),
}
# The capability that a server must declare to be sent a request, where it differs from the method's first word.
_CAPABILITIES: Final[Mapping[str, str]] = {"completion": "completions"}


class ToolSource(Protocol):
    """A program's object with tools. `settled`, which waits for the first start, is optional."""

    async def list_tools(self) -> Sequence[ToolListing]: ...

    async def call_tool(self, server: str, name: str, args: Mapping[str, Any], caller: Any = None) -> Result: ...


class PrimitiveSource(Protocol):
    """A program's object with resources and prompts.

    Optional are `list_resource_templates`, and the port's `request`, `watch`, `unwatch`, `servers_with` and
    `server_of_resource`.
    """

    async def list_resources(self) -> Sequence[ToolListing]: ...

    async def read_resource(self, server: str, uri: str, caller: Any = None) -> Result: ...

    async def list_prompts(self) -> Sequence[ToolListing]: ...

    async def get_prompt(self, server: str, name: str, args: Mapping[str, str], caller: Any = None) -> Result: ...


class ProgramUpstream(UpstreamMethods):
    """The adapter: an Upstream of an object with tools, and of one with resources and prompts."""

    def __init__(self, tools: ToolSource | None = None, primitives: PrimitiveSource | None = None) -> None:
        self._tools: Any = tools  # with or without the optional methods
        self._primitives: Any = primitives
        self._listings: dict[OfferKind, Sequence[ToolListing]] = {}

    async def list_kind(self, kind: OfferKind) -> Sequence[ToolListing]:
        source = self._tools if kind == "tools" else self._primitives
        name, _ = _KINDS[kind]
        if hasattr(source, name):
            self._listings[kind] = await self._invoke(source, name)
        return self._listings.get(kind, ())

    async def request(self, server: str, method: str, params: Params, client: ClientChannel | None = None) -> Result:
        source = self._primitives
        call: tuple[Any, ...] = ("request", server, method, params)
        if method == "tools/call":
            source, call = self._tools, ("call_tool", server, params["name"], params["arguments"])
        elif method == "resources/read":
            call = ("read_resource", server, params["uri"])
        elif method == "prompts/get":
            call = ("get_prompt", server, params["name"], params["arguments"])
        result: Result = await self._invoke(source, *call, client)
        return result

    async def watch(self, server: str, uri: str) -> None:
        await self._invoke(self._primitives, "watch", server, uri)

    async def unwatch(self, server: str, uri: str) -> None:
        await self._invoke(self._primitives, "unwatch", server, uri)

    def servers_with(self, capability: str) -> Sequence[str]:
        if hasattr(self._primitives, "servers_with"):
            return [*self._primitives.servers_with(capability)]
        kinds = ("resources", "templates") if capability == "resources" else (capability,)
        listings = [listing for kind, listed in self._listings.items() if kind in kinds for listing in listed]
        return [*dict.fromkeys(listing.server for listing in listings)]

    def server_of_resource(self, uri: str) -> str | None:
        if hasattr(self._primitives, "server_of_resource"):
            server: str | None = self._primitives.server_of_resource(uri)
            return server
        resources, templates = (
            [(listing.server, listing.definition) for listing in self._listings.get(kind, ())]
            for kind in ("resources", "templates")
        )
        return server_of_uri(uri, resources, templates, self.servers_with("resources"))

    async def wait_for_start(self) -> None:
        if hasattr(self._tools, "settled"):
            await self._invoke(self._tools, "settled")

    async def _invoke(self, source: object, name: str, *args: object) -> Any:
        """Call a method of the program's object, and classify what it raises."""
        method = getattr(source, name, None)
        if method is None:
            raise UpstreamFailure("UPSTREAM_ERROR", f"no upstream has {name}", rpc_code=METHOD_NOT_FOUND)
        try:
            return await method(*args)
        except GatewayError:
            raise
        except Exception as error:
            raise classify(error) from error


class MultiplexUpstream(UpstreamMethods):
    """The tools of several sources as one.

    Where two sources offer the same (a tool's or prompt's name, a URI), the earlier one has it, whichever answered
    first, and after every refresh again. Within one source nothing is left out: it keeps its own servers apart.
    """

    def __init__(self, sources: Iterable[ToolSource]) -> None:
        self._take([ProgramUpstream(tools=source) for source in sources])

    def _take(self, sources: Sequence[ProgramUpstream]) -> None:
        self._sources = sources
        self._lists: Mapping[OfferKind, _MergedList] = {kind: _MergedList(sources, kind) for kind in _KINDS}

    async def list_kind(self, kind: OfferKind) -> Sequence[ToolListing]:
        return await self._lists[kind].refresh()

    async def request(self, server: str, method: str, params: Params, client: ClientChannel | None = None) -> Result:
        """Send to the source that has what the request is for; without such, to all with a server of this name."""
        able: Sequence[ProgramUpstream]
        if method in ("tools/call", "prompts/get"):
            kind: OfferKind = "tools" if method == "tools/call" else "prompts"
            owner = await self._lists[kind].owner(server, params["name"])
            if owner is None:
                detail = f"no upstream lists the {kind.removesuffix('s')} {params['name']!r} of {server!r}"
                raise UpstreamFailure("UPSTREAM_UNAVAILABLE", detail)
            able = [owner]
        elif method == "resources/read":
            able = [self._holder(server, params["uri"])]
        else:
            able = await self._able_sources(server, method, params.get("ref"))
        return [await source.request(server, method, params, client) for source in able][-1]

    async def _able_sources(self, server: str, method: str, ref: object) -> Sequence[ProgramUpstream]:
        if isinstance(ref, Mapping) and ref.get("type") != "ref/prompt":
            return [self._holder(server, str(ref.get("uri")))]
        if isinstance(ref, Mapping) and (owner := await self._lists["prompts"].owner(server, str(ref.get("name")))):
            return [owner]
        area = method.partition("/")[0]
        able = [source for source in self._sources if server in source.servers_with(_CAPABILITIES.get(area, area))]
        if not able:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"no upstream has a server {server!r} for {method}")
        return able

    def server_of_resource(self, uri: str) -> str | None:
        match = self._find_resource(uri)
        return None if match is None else match[1]

    def servers_with(self, capability: str) -> Sequence[str]:
        return [*dict.fromkeys(name for source in self._sources for name in source.servers_with(capability))]

    async def watch(self, server: str, uri: str) -> None:
        await self._holder(server, uri).watch(server, uri)

    async def unwatch(self, server: str, uri: str) -> None:
        await self._holder(server, uri).unwatch(server, uri)

    async def wait_for_start(self) -> None:
        async with anyio.create_task_group() as group:
            for source in self._sources:
                group.start_soon(source.wait_for_start)

    def _holder(self, server: str, uri: str) -> ProgramUpstream:
        match = self._find_resource(uri, server)
        if match is None:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"no upstream has the resource {uri!r} of {server!r}")
        return match[0]

    def _find_resource(self, uri: str, server: str | None = None) -> tuple[ProgramUpstream, str] | None:
        """The source that a URI belongs to, and its server; of this server, where one is named."""
        match = self._lists["resources"].first(lambda listed: listed == uri, server) or self._lists["templates"].first(
            lambda listed: listed == uri or fits_template(listed, uri), server
        )
        if match is not None:
            return match
        able = [(source, name) for source in self._sources for name in source.servers_with("resources")]
        return able[0] if len(able) == 1 and server in (None, able[0][1]) else None


class MultiplexPrimitiveUpstream(MultiplexUpstream):
    """The resources and prompts of several sources as one."""

    def __init__(self, sources: Iterable[PrimitiveSource]) -> None:
        self._take([ProgramUpstream(primitives=source) for source in sources])


class _MergedList:
    """One kind of offers: what each source listed last, and which source has each offer."""

    def __init__(self, sources: Sequence[ProgramUpstream], kind: OfferKind) -> None:
        self._sources = sources
        self._kind = kind
        self._key = _KINDS[kind][1]
        self._listings: Mapping[int, Sequence[ToolListing]] = {}
        self._offers: Sequence[tuple[ProgramUpstream, ToolListing]] = ()
        self._owners: Mapping[tuple[str, str | None], ProgramUpstream] = {}

    async def refresh(self) -> Sequence[ToolListing]:
        """List all sources. One that cannot be listed keeps what it offered; if none can, the first failure is raised.
        Nothing changes in that last case, and everything in one step otherwise."""
        listings: dict[int, Sequence[ToolListing]] = {}
        failures: dict[int, UpstreamFailure] = {}

        async def list_source(place: int, source: ProgramUpstream) -> None:
            try:
                listings[place] = await source.list_kind(self._kind)
            except Exception as error:
                failures[place] = classify(error)
                log.warning("an upstream cannot be listed; what it offered before stays: %s", failures[place])

        async with anyio.create_task_group() as group:
            for place, source in enumerate(self._sources):
                group.start_soon(list_source, place, source)
        if failures and not listings:
            raise failures[min(failures)]
        self._listings = {**self._listings, **listings}
        offers: list[tuple[ProgramUpstream, ToolListing]] = []
        earlier: set[str | None] = set()
        for place, source in enumerate(self._sources):
            own = self._listings.get(place, ())
            offers += [(source, listing) for listing in own if self._value(listing) not in earlier]
            earlier |= {self._value(listing) for listing in own} - {None}
        self._offers = offers
        self._owners = {(listing.server, self._value(listing)): source for source, listing in self._offers}
        return [listing for _, listing in self._offers]

    async def owner(self, server: str, value: str) -> ProgramUpstream | None:
        """The source with this offer. A catalog that was registered without listing is listed here first."""
        if not self._listings:
            await self.refresh()
        return self._owners.get((server, value))

    def first(self, fits: Callable[[object], bool], server: str | None) -> tuple[ProgramUpstream, str] | None:
        """The first source with such an offer, and the server of it."""
        for source, listing in self._offers:
            if server in (None, listing.server) and fits(self._value(listing)):
                return source, listing.server
        return None

    def _value(self, listing: ToolListing) -> str | None:
        value = listing.definition.get(self._key)
        return value if isinstance(value, str) else None
