"""Time that a client has on a connection. In: what is awaited of it. Out: the end of a connection without it.

Touches the connection. A request comes within a bounded time, and an answer is taken: what a client does not read stays
in memory, and no keep-alive ends a connection that still has something to say.
"""

from __future__ import annotations

import asyncio
from typing import Final

HEAD_SECONDS: Final = 20.0
BODY_SECONDS: Final = 60.0
# The kernel takes the first megabytes of an answer for a client, and further ones a megabyte at a time.
TAKE_SECONDS: Final = 60.0


class Deadlines(asyncio.Protocol):
    """To be mixed into one of uvicorn's protocols, which says what is awaited next."""

    transport: asyncio.Transport
    _late: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.expect_within(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self.expect_within(None)
        self._watch(None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._watch(None)
        super().resume_writing()

    def expect_within(self, seconds: float | None) -> None:
        """Sets the time by which the next part of a request is there; None while none is awaited."""
        if self._late is not None:
            self._late.cancel()
            self._late = None
        if seconds is not None:
            self._late = asyncio.get_running_loop().call_later(seconds, self.transport.close)

    def _watch(self, waiting: int | None) -> None:
        """Looks again how much is waiting to be taken; None where nothing is."""
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None
        if waiting is not None:
            self._taking = asyncio.get_running_loop().call_later(TAKE_SECONDS, self._look, waiting)

    def _look(self, before: int) -> None:
        waiting = self.transport.get_write_buffer_size()
        if waiting >= before:
            self.transport.abort()
        else:
            self._watch(waiting)
