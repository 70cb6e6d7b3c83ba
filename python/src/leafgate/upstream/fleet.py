"""All configured servers as one Upstream. In: ServerSpecs. Out: their offers and answers, each under its server's name.

Touches the servers through supervise. All of them start at the same time; none of them can hold the others up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from leafgate.model.errors import UpstreamFailure
from leafgate.ports import Caller, Offers, ToolListing
from leafgate.upstream.listing import Definitions, Listed
from leafgate.upstream.primitives import fits_template
from leafgate.upstream.server_spec import ServerSpec
from leafgate.upstream.supervise import Listeners, Supervised

SETTLE_SECONDS: Final = 10.0


async def always() -> None:
    """For a fleet whose answers nobody gathers."""


class Fleet:
    """The live upstreams of a gateway."""

    def __init__(self, specs: Iterable[ServerSpec], *, ready: Callable[[], Awaitable[None]] = always) -> None:
        """`ready` is waited for before a further message of any server is read."""
        self._changed: list[Callable[[], None]] = []
        self._updated: list[Callable[[str], None]] = []
        self._listeners = Listeners(self._tell_changed, self._tell_updated, ready)
        self._members = {spec.label: Supervised(spec, self._listeners) for spec in specs}
        self._successors: dict[str, Supervised] = {}
        self._group: TaskGroup | None = None
        self._settle_until = 0.0

    def on_change(self, listener: Callable[[], None]) -> None:
        """The listener is called whenever what some server offers changed."""
        self._changed.append(listener)

    def on_update(self, listener: Callable[[str], None]) -> None:
        """The listener is called with the URI of a watched resource that was updated."""
        self._updated.append(listener)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Every server is being kept connected inside this context; at its end their processes are ended."""
        # One deadline for all requests: each of them waiting for itself would add up.
        self._settle_until = anyio.current_time() + SETTLE_SECONDS
        async with anyio.create_task_group() as group:
            for member in self._members.values():
                group.start_soon(member.run)
            self._group = group
            try:
                yield
            finally:
                self._group = None
                group.cancel_scope.cancel()

    def reconcile(self, specs: Iterable[ServerSpec]) -> None:
        """From now on these servers. Returns at once, and no call under way is lost.

        A new server starts. One that is gone ends when its calls are answered. One that is reached in another way is
        replaced once its successor is up: until then, or if that never happens, the old one goes on. Other settings
        take hold where the connection is.
        """
        wanted = {spec.label: spec for spec in specs}
        for label in [*self._successors]:
            if self._successors[label].spec != wanted.get(label):
                self._start(self._successors.pop(label).retire)
        for label in [*self._members]:
            if label not in wanted:
                self._start(self._members.pop(label).retire)
        for label, spec in wanted.items():
            self._bring_to(label, spec)
        self._tell_changed()

    def _bring_to(self, label: str, spec: ServerSpec) -> None:
        member = self._members.get(label)
        if member is None:
            member = self._members[label] = Supervised(spec, self._listeners)
            self._start(member.run)
        elif member.spec.reach == spec.reach:
            member.adopt(spec)
        elif label not in self._successors:
            successor = self._successors[label] = Supervised(spec, self._listeners, watched=member.watched)
            self._start(successor.run)
            self._start(partial(self._replace, label, successor))

    async def _replace(self, label: str, successor: Supervised) -> None:
        await successor.came_up.wait()
        if self._successors.get(label) is not successor:
            return
        del self._successors[label]
        earlier = self._members.get(label)
        self._members[label] = successor
        self._tell_changed()
        if earlier is not None:
            await earlier.retire()

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._group is not None, "servers come and go only while the fleet is running"
        self._group.start_soon(work)

    def members(self) -> Sequence[Supervised]:
        return tuple(self._members.values())

    def offers(self) -> Offers:
        """Everything of every server, as last listed."""
        return Offers(
            tools=self._all(lambda listed: listed.tools),
            resources=self._all(lambda listed: listed.resources),
            templates=self._all(lambda listed: listed.templates),
            prompts=self._all(lambda listed: listed.prompts),
        )

    async def list_tools(self) -> Sequence[ToolListing]:
        return self._all(lambda listed: listed.tools)

    async def list_resources(self) -> Sequence[ToolListing]:
        return self._all(lambda listed: listed.resources)

    async def list_resource_templates(self) -> Sequence[ToolListing]:
        return self._all(lambda listed: listed.templates)

    async def list_prompts(self) -> Sequence[ToolListing]:
        return self._all(lambda listed: listed.prompts)

    async def read_resource(self, server: str, uri: str, caller: Caller | None = None) -> Mapping[str, Any]:
        return await self.request(server, "resources/read", {"uri": uri}, caller)

    async def get_prompt(
        self, server: str, name: str, args: Mapping[str, str], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        return await self.request(server, "prompts/get", {"name": name, "arguments": dict(args)}, caller)

    async def call_tool(
        self, server: str, name: str, args: Mapping[str, Any], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        return await self.request(server, "tools/call", {"name": name, "arguments": dict(args)}, caller)

    async def request(
        self, server: str, method: str, params: Mapping[str, Any], caller: Caller | None = None
    ) -> dict[str, Any]:
        """Any MCP request to one server."""
        return await self.member(server).request(method, params, caller)

    def member(self, server: str) -> Supervised:
        found = self._members.get(server)
        if found is None:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"no server {server!r}")
        return found

    async def missing(self) -> Sequence[Supervised]:
        """The required servers that did not come up on their first try."""
        required = [member for member in self._members.values() if member.spec.required]
        for member in required:
            await member.first_try_over.wait()
        return [member for member in required if member.state != "up"]

    async def settled(self) -> None:
        trying = [member for member in self._members.values() if not member.first_try_over.is_set()]
        if not trying:  # every request comes by here, and to wait for what has happened is a turn of the loop each
            return
        with anyio.CancelScope(deadline=self._settle_until):
            for member in trying:
                await member.first_try_over.wait()

    def server_of_resource(self, uri: str) -> str | None:
        """By its list, by a template, or as the only server with resources."""
        for member in self._members.values():
            if any(resource.get("uri") == uri for resource in member.offers.resources):
                return member.spec.label
        for member in self._members.values():
            if any(fits_template(template.get("uriTemplate"), uri) for template in member.offers.templates):
                return member.spec.label
        able = self.servers_with("resources")
        return able[0] if len(able) == 1 else None

    def servers_with(self, capability: str) -> Sequence[str]:
        return [name for name, m in self._members.items() if getattr(m.capabilities, capability, None) is not None]

    async def watch(self, server: str, uri: str) -> None:
        await self.member(server).watch(uri)

    async def unwatch(self, server: str, uri: str) -> None:
        await self.member(server).unwatch(uri)

    def _all(self, part: Callable[[Listed], Definitions]) -> Sequence[ToolListing]:
        return [ToolListing(m.spec.label, found) for m in self._members.values() for found in part(m.offers)]

    def _tell_changed(self) -> None:
        for listener in self._changed:
            listener()

    def _tell_updated(self, uri: str) -> None:
        for listener in self._updated:
            listener(uri)
