"""All configured servers as one Upstream. They start at the same time, and none of them delays the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from leafgate.codec.negotiate import LEAF_EXTENSION
from leafgate.model.errors import UpstreamFailure
from leafgate.model.request import ClientChannel
from leafgate.ports import CacheHint, Intake, OfferKind, Offers, ServerInstance, ToolListing
from leafgate.upstream import ServerSpec
from leafgate.upstream.raw_session import Params, Result, declares, server_of_uri
from leafgate.upstream.supervise import Extensions, Listeners, State, SupervisedServer

START_SECONDS: Final = 10.0


class Fleet:
    """The live upstreams of a gateway."""

    def __init__(
        self,
        specs: Iterable[ServerSpec],
        *,
        intake_of: Callable[[str], Intake] | None = None,
        extensions: Extensions = MappingProxyType({}),
        start_seconds: float = START_SECONDS,
    ) -> None:
        """`intake_of` returns the share of a server, which bounds what is read of it; without it, nothing does.
        `extensions` are declared to the servers. Requests wait for servers that are starting until `start_seconds`
        after the fleet's own start.
        """
        self._on_change: list[Callable[[], None]] = []
        self._on_update: list[Callable[[str], None]] = []
        self._listeners = Listeners(self._report_change, self._report_update, intake_of)
        self._make = partial(SupervisedServer, listeners=self._listeners, extensions=extensions)
        self._members = {spec.label: self._make(spec) for spec in specs}
        self._successors: dict[str, SupervisedServer] = {}
        self._group: TaskGroup | None = None
        self._start_seconds = start_seconds
        self._start_deadline = 0.0

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call the listener whenever the offers of a server have changed."""
        self._on_change.append(listener)

    def on_update(self, listener: Callable[[str], None]) -> None:
        """Call the listener with the URI of each watched resource that was updated."""
        self._on_update.append(listener)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep every server connected inside this context, and stop their processes at its end."""
        # One deadline for all requests: a separate one for each would add up.
        self._start_deadline = anyio.current_time() + self._start_seconds
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
        """Change to these servers. Returns at once, and no call under way is lost.

        A new server starts. One that is gone ends when its calls are answered. One with another command or URL is
        replaced once its successor is up: until then, or if that never happens, the old one goes on. Other settings
        apply to the connection that there is.
        """
        specs_by_label = {spec.label: spec for spec in specs}
        for label in [*self._successors]:
            if self._successors[label].spec != specs_by_label.get(label):
                self._start(self._successors.pop(label).retire)
        for label in [*self._members]:
            if label not in specs_by_label:
                self._start(self._members.pop(label).retire)
        for label, spec in specs_by_label.items():
            self._apply(label, spec)
        self._report_change()

    def _apply(self, label: str, spec: ServerSpec) -> None:
        member = self._members.get(label)
        if member is None:
            member = self._members[label] = self._make(spec)
            self._start(member.run)
        elif member.spec.reach == spec.reach:
            member.adopt(spec)
        elif label not in self._successors:
            successor = self._successors[label] = self._make(spec, watched_uris=member.watched_uris)
            self._start(successor.run)
            self._start(partial(self._replace, label, successor))

    async def _replace(self, label: str, successor: SupervisedServer) -> None:
        await successor.came_up.wait()
        if self._successors.get(label) is not successor:
            return
        del self._successors[label]
        earlier = self._members.get(label)
        self._members[label] = successor
        self._report_change()
        if earlier is not None:
            await earlier.retire()

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._group is not None, "servers come and go only while the fleet is running"
        self._group.start_soon(work)

    def members(self) -> Sequence[SupervisedServer]:
        return tuple(self._members.values())

    def states(self) -> dict[str, State]:
        """The state of each server, by its name."""
        return {member.spec.name: member.state for member in self._members.values()}

    async def list_offers(self) -> Offers:
        """Everything of every server, as last listed."""
        members = self._members.items()
        return Offers(
            tools=[ToolListing(label, tool) for label, m in members for tool in m.offers.tools],
            resources=[ToolListing(label, resource) for label, m in members for resource in m.offers.resources],
            templates=[ToolListing(label, template) for label, m in members for template in m.offers.templates],
            prompts=[ToolListing(label, prompt) for label, m in members for prompt in m.offers.prompts],
            skills=[ToolListing(label, skill) for label, m in members for skill in m.offers.skills],
            instructions={label: m.instructions for label, m in members if m.instructions},
        )

    def list_hint(self, kind: OfferKind) -> CacheHint | None:
        """The narrowest hint of the servers that have such a list; 0 while a server may come up with another one."""
        members = self._members.values()
        if self._successors or any(member.state != "up" for member in members):
            return CacheHint()
        hints = [hint for member in members if (hint := member.list_hint(kind)) is not None]
        return reduce(CacheHint.narrow, hints) if hints else None

    async def request(self, server: str, method: str, params: Params, client: ClientChannel | None = None) -> Result:
        return await self.member(server).request(method, params, client)

    def member(self, server: str) -> SupervisedServer:
        member = self._members.get(server)
        if member is None:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"no server {server!r}")
        return member

    def instance_of(self, server: str) -> ServerInstance:
        member = self._members.get(server)
        return ServerInstance() if member is None else member.instance

    async def missing(self) -> Sequence[SupervisedServer]:
        """The required servers that did not come up on their first try."""
        required = [member for member in self._members.values() if member.spec.required]
        for member in required:
            await member.first_try_over.wait()
        return [member for member in required if member.state != "up"]

    async def wait_for_start(self) -> None:
        trying = [member for member in self._members.values() if not member.first_try_over.is_set()]
        if not trying:  # the case of almost every request; entering a cancel scope would cost a turn of the event loop
            return
        with anyio.CancelScope(deadline=self._start_deadline):
            for member in trying:
                await member.first_try_over.wait()

    def server_of_resource(self, uri: str) -> str | None:
        members = self._members.items()
        resources = ((label, resource) for label, m in members for resource in m.offers.resources)
        templates = ((label, template) for label, m in members for template in m.offers.templates)
        return server_of_uri(uri, resources, templates, self.servers_with("resources"))

    def servers_with(self, capability: str) -> Sequence[str]:
        return [name for name, m in self._members.items() if self._has(m, capability)]

    def _has(self, member: SupervisedServer, capability: str) -> bool:
        """Whether a server declares it. One that has sent a leaf may follow a wish, whatever it declares."""
        shows_it = capability == LEAF_EXTENSION and member.has_shown_leaf
        return shows_it or declares(member.capabilities, capability)

    async def watch(self, server: str, uri: str) -> None:
        await self.member(server).watch(uri)

    async def unwatch(self, server: str, uri: str) -> None:
        await self.member(server).unwatch(uri)

    def _report_change(self) -> None:
        for listener in self._on_change:
            listener()

    def _report_update(self, uri: str) -> None:
        for listener in self._on_update:
            listener(uri)
