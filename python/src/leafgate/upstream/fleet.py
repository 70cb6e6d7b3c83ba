"""All configured servers as one Upstream. In: ServerSpecs. Out: their tools and answers, each under its server's name.

Touches the servers through supervise. All of them start at the same time; none of them can hold the others up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio

from leafgate.model.errors import UpstreamFailure
from leafgate.ports import ToolListing
from leafgate.upstream.server_spec import ServerSpec
from leafgate.upstream.supervise import Supervised

SETTLE_SECONDS: Final = 10.0


class Fleet:
    """The live upstreams of a gateway."""

    def __init__(self, specs: Iterable[ServerSpec]) -> None:
        self._listeners: list[Callable[[], None]] = []
        self._members = {spec.name: Supervised(spec, self._tell) for spec in specs}

    def on_change(self, listener: Callable[[], None]) -> None:
        """The listener is called whenever some server's tools changed."""
        self._listeners.append(listener)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Every server is being kept connected inside this context; at its end their processes are ended."""
        async with anyio.create_task_group() as group:
            for member in self._members.values():
                group.start_soon(member.run)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    def members(self) -> Sequence[Supervised]:
        return tuple(self._members.values())

    def listings(self) -> Sequence[ToolListing]:
        """Every tool of every server, as last listed."""
        return [ToolListing(m.spec.name, tool) for m in self._members.values() for tool in m.tools]

    async def list_tools(self) -> Sequence[ToolListing]:
        return self.listings()

    async def call_tool(self, server: str, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        member = self._members.get(server)
        if member is None:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"no server {server!r}")
        return await member.call_tool(name, args)

    async def settled(self) -> None:
        with anyio.move_on_after(SETTLE_SECONDS):
            for member in self._members.values():
                await member.first_try_over.wait()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
