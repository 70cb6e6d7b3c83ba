"""Several upstreams as one. In: upstreams, in order. Out: their offers without doubles, and answers of the right one.

Touches them, all at the same time. Where two offer the same (a tool's or prompt's raw name, a URI), the earlier one in
the list has it, whichever answered first, and after every refresh again. Within one upstream nothing is left out: it
knows its own servers apart.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import anyio

from leafgate.model.errors import UpstreamFailure
from leafgate.ports import Caller, NativeUpstream, ToolListing, Upstream
from leafgate.upstream.classify import classify
from leafgate.upstream.primitives import fits_template

log = logging.getLogger("leafgate.upstream")

Source = TypeVar("Source")

# The capability that a server must declare to be sent a request, where it is not called as the method begins.
_CAPABILITY: Final[Mapping[str, str]] = {"completion": "completions"}


class MultiplexUpstream:
    """The tools of several upstreams."""

    def __init__(self, sources: Iterable[Upstream]) -> None:
        self._sources = tuple(sources)
        self._tools = _Merged(self._sources, "name", lambda source: source.list_tools())

    async def list_tools(self) -> Sequence[ToolListing]:
        return await self._tools.list()

    async def call_tool(
        self, server: str, name: str, args: Mapping[str, Any], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        source = await self._tools.owner(server, name)
        if source is None:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"no upstream lists the tool {name!r} of {server!r}")
        try:
            return await source.call_tool(server, name, args, caller)
        except Exception as error:
            raise classify(error) from error

    async def settled(self) -> None:
        async with anyio.create_task_group() as group:
            for source in self._sources:
                group.start_soon(source.settled)


class MultiplexPrimitiveUpstream:
    """The resources and prompts of several upstreams."""

    def __init__(self, sources: Iterable[NativeUpstream]) -> None:
        self._sources = tuple(sources)
        self._resources = _Merged(self._sources, "uri", lambda source: source.list_resources())
        self._templates = _Merged(self._sources, "uriTemplate", lambda source: source.list_resource_templates())
        self._prompts = _Merged(self._sources, "name", lambda source: source.list_prompts())

    async def list_resources(self) -> Sequence[ToolListing]:
        return await self._resources.list()

    async def list_resource_templates(self) -> Sequence[ToolListing]:
        return await self._templates.list()

    async def list_prompts(self) -> Sequence[ToolListing]:
        return await self._prompts.list()

    async def read_resource(self, server: str, uri: str, caller: Caller | None = None) -> Mapping[str, Any]:
        return await self._holder(server, uri).read_resource(server, uri, caller)

    async def get_prompt(
        self, server: str, name: str, args: Mapping[str, str], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        source = await self._prompts.owner(server, name)
        if source is None:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"no upstream lists the prompt {name!r} of {server!r}")
        return await source.get_prompt(server, name, args, caller)

    async def request(
        self, server: str, method: str, params: Mapping[str, Any], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        """To the upstream that what it refers to belongs to; without such, to all that have a server of this name."""
        referred = await self._referred(server, params.get("ref"))
        area = method.partition("/")[0]
        capability = _CAPABILITY.get(area, area)
        able = [source for source in self._sources if server in source.servers_with(capability)]
        asked = able if referred is None else [referred]
        if not asked:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"no upstream has a server {server!r} for {method}")
        answers = [await source.request(server, method, params, caller) for source in asked]
        return answers[-1]

    def server_of_resource(self, uri: str) -> str | None:
        """By the lists, by the templates, or as the only server with resources."""
        found = self._found(uri)
        return None if found is None else found[1]

    def servers_with(self, capability: str) -> Sequence[str]:
        names = (name for source in self._sources for name in source.servers_with(capability))
        return [*dict.fromkeys(names)]

    async def watch(self, server: str, uri: str) -> None:
        await self._holder(server, uri).watch(server, uri)

    async def unwatch(self, server: str, uri: str) -> None:
        await self._holder(server, uri).unwatch(server, uri)

    async def _referred(self, server: str, ref: object) -> NativeUpstream | None:
        if not isinstance(ref, Mapping):
            return None
        if ref.get("type") == "ref/prompt":
            return await self._prompts.owner(server, str(ref.get("name")))
        return self._holder(server, str(ref.get("uri")))

    def _holder(self, server: str, uri: str) -> NativeUpstream:
        found = self._found(uri, server)
        if found is None:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"no upstream has the resource {uri!r} of {server!r}")
        return found[0]

    def _found(self, uri: str, server: str | None = None) -> tuple[NativeUpstream, str] | None:
        """The upstream that a URI belongs to, and its server; of this server, where one is named."""

        def fits(listed: object) -> bool:
            return listed == uri or fits_template(listed, uri)

        return (
            self._resources.first(lambda listed: listed == uri, server)
            or self._templates.first(fits, server)
            or self._only_one(server)
        )

    def _only_one(self, server: str | None) -> tuple[NativeUpstream, str] | None:
        able = [(source, name) for source in self._sources for name in source.servers_with("resources")]
        return able[0] if len(able) == 1 and server in (None, able[0][1]) else None


class _Merged(Generic[Source]):
    """One kind of offers of all sources: what each listed last, and whose each of them is."""

    def __init__(
        self, sources: Sequence[Source], key: str, ask: Callable[[Source], Awaitable[Sequence[ToolListing]]]
    ) -> None:
        self._sources = sources
        self._key = key
        self._ask = ask
        self._known: Mapping[int, Sequence[ToolListing]] = {}
        self._offered: Sequence[tuple[Source, ToolListing]] = ()
        self._owners: Mapping[tuple[str, str | None], Source] = {}

    async def list(self) -> Sequence[ToolListing]:
        """The offers of all. A source that cannot be listed keeps what it offered; if none can, its failure is raised.

        Nothing changes in that last case, and everything in one step otherwise.
        """
        answers: dict[int, Sequence[ToolListing] | UpstreamFailure] = {}
        async with anyio.create_task_group() as group:
            for place, source in enumerate(self._sources):
                group.start_soon(self._list_one, place, source, answers)
        failures = [answers[place] for place in sorted(answers) if isinstance(answers[place], UpstreamFailure)]
        for failure in failures:
            log.warning("an upstream cannot be listed; what it offered before stays: %s", failure)
        if failures and len(failures) == len(self._sources):
            assert isinstance(failures[0], UpstreamFailure)
            raise failures[0]
        fresh = {place: found for place, found in answers.items() if not isinstance(found, UpstreamFailure)}
        self._known = {**self._known, **fresh}
        self._offered = [*self._without_doubles()]
        self._owners = {(listing.server, self._value(listing)): source for source, listing in self._offered}
        return [listing for _, listing in self._offered]

    async def owner(self, server: str, value: str) -> Source | None:
        """Whose this is. A catalog that was registered without listing does not know yet: then it is listed here."""
        if not self._known:
            await self.list()
        return self._owners.get((server, value))

    def first(self, fits: Callable[[object], bool], server: str | None) -> tuple[Source, str] | None:
        """The first source with such an offer, and the server of it."""
        return next(
            (
                (source, listing.server)
                for source, listing in self._offered
                if server in (None, listing.server) and fits(self._value(listing))
            ),
            None,
        )

    async def _list_one(
        self, place: int, source: Source, answers: dict[int, Sequence[ToolListing] | UpstreamFailure]
    ) -> None:
        try:
            answers[place] = await self._ask(source)
        except Exception as error:
            answers[place] = classify(error)

    def _without_doubles(self) -> Iterable[tuple[Source, ToolListing]]:
        taken: set[str | None] = set()
        for place, source in enumerate(self._sources):
            own = self._known.get(place, ())
            yield from ((source, listing) for listing in own if self._value(listing) not in taken)
            taken |= {self._value(listing) for listing in own} - {None}

    def _value(self, listing: ToolListing) -> str | None:
        value = listing.definition.get(self._key)
        return value if isinstance(value, str) else None
