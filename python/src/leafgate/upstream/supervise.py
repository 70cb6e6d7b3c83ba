"""Keeps one server connected. In: a ServerSpec. Out: its tools, its answers, and word whenever its tools change.

Touches processes and the network through upstream/connect. A server that ends or fails is started again, with backoff;
meanwhile calls fail fast, and the tools that it had stay known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import anyio
from mcp import Client, ClientSession, MCPError
from mcp.types import ServerNotification, ToolListChangedNotification

from leafgate.model.errors import UpstreamFailure
from leafgate.upstream.classify import classify
from leafgate.upstream.connect import open_streams
from leafgate.upstream.raw_session import raw_request
from leafgate.upstream.server_spec import ServerSpec

log = logging.getLogger("leafgate.upstream")

FIRST_BACKOFF: Final = 0.5
LONGEST_BACKOFF: Final = 30.0
MAX_PAGES: Final = 1000

State = Literal["starting", "up", "down"]


class Supervised:
    """One server of the fleet. `run` lives in a task of its own, for as long as the gateway does."""

    def __init__(self, spec: ServerSpec, changed: Callable[[], None]) -> None:
        self.spec = spec
        self.state: State = "starting"
        self.tools: Sequence[Mapping[str, Any]] = ()
        self.last_failure: str | None = None
        self._changed = changed
        self._session: ClientSession | None = None
        self._listing = anyio.Event()
        self.first_try_over = anyio.Event()

    async def run(self) -> None:
        """Connects, and connects again, until cancelled."""
        backoff = FIRST_BACKOFF
        while True:
            was_up = await self._connect_once()
            backoff = FIRST_BACKOFF if was_up else min(backoff * 2, LONGEST_BACKOFF)
            log.warning("[%s] down (%s); next try in %.1f s", self.spec.name, self.last_failure, backoff)
            await anyio.sleep(backoff)

    async def call_tool(self, name: str, args: Mapping[str, Any]) -> dict[str, Any]:
        """The raw result of a call. Raises UpstreamFailure only."""
        session = self._session
        if session is None:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"{self.spec.name} is {self.state}: {self.last_failure}")
        params = {"name": name, "arguments": dict(args)}
        try:
            return await raw_request(session, "tools/call", params, seconds=self.spec.timeout)
        except Exception as error:
            raise classify(error) from error

    async def _connect_once(self) -> bool:
        """One connection from beginning to end. Whether it ever came up."""
        ended = anyio.Event()
        came_up = False
        try:
            transport = open_streams(self.spec, ended)
            client = Client(transport, message_handler=self._on_message, cache=None)
            with anyio.fail_after(self.spec.start_timeout) as starting:
                async with client:
                    starting.deadline = float("inf")
                    self._session = client.session
                    await self._list()
                    came_up = True
                    self._set_state("up")
                    await self._serve(ended)
            self.last_failure = "the server ended the connection"
        except Exception as error:
            self.last_failure = str(classify(error))
        finally:
            self._session = None
            self._set_state("down")
        return came_up

    async def _serve(self, ended: anyio.Event) -> None:
        """Refreshes the list whenever the server says that it changed, until the connection is over."""
        async with anyio.create_task_group() as group:

            async def refresh_on_change() -> None:
                while True:
                    await self._listing.wait()
                    self._listing = anyio.Event()
                    await self._refresh()

            group.start_soon(refresh_on_change)
            await ended.wait()
            group.cancel_scope.cancel()

    async def _refresh(self) -> None:
        try:
            await self._list()
        except (MCPError, UpstreamFailure) as error:
            log.warning("[%s] its tools changed, but cannot be listed: %s; the old list stays", self.spec.name, error)

    async def _list(self) -> None:
        """All pages, or none: the known list changes only when the last page is there."""
        assert self._session is not None
        found: list[Mapping[str, Any]] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = {} if cursor is None else {"cursor": cursor}
            page = await raw_request(self._session, "tools/list", params, seconds=self.spec.timeout)
            tools = page.get("tools")
            found += [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                self._adopt(tuple(found))
                return
        raise UpstreamFailure("UPSTREAM_ERROR", f"{self.spec.name} lists tools on more than {MAX_PAGES} pages")

    async def _on_message(self, message: ServerNotification | Exception) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._listing.set()

    def _adopt(self, tools: Sequence[Mapping[str, Any]]) -> None:
        if tools != self.tools:
            self.tools = tools
            self._changed()

    def _set_state(self, state: State) -> None:
        """The listener has seen the tools before anybody who waits for the first try goes on."""
        self.state = state
        self.first_try_over.set()
