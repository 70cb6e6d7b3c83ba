"""Room for large results: so many bytes of them are worked on at once. In: a size. Out: a turn, once there is room.

Touches only its own queue. Cleaning takes several times the memory of what is cleaned: without a bound, a few large
results at once take all there is. Whoever has no room waits, first come, first served; and servers are read no further
while more is waiting than there is room for, so that what waits is bounded too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

ROOM_BYTES: Final = 64 * 1024 * 1024
LARGE_FROM: Final = 1024 * 1024  # smaller ones need no turn: as many as there are calls fit beside the large ones


class Room:
    """How much is taken, and who waits. What is larger than the whole room gets its turn when it is empty."""

    def __init__(self, most: int = ROOM_BYTES) -> None:
        self._most = most
        self._taken = 0
        self._waiting: deque[tuple[int, anyio.Event]] = deque()
        self._less = anyio.Event()

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        """Inside this context so many bytes may be worked on."""
        if size < LARGE_FROM:
            yield
            return
        turn = size, anyio.Event()
        self._waiting.append(turn)
        self._let_in()
        try:
            await turn[1].wait()
            yield
        finally:
            if turn in self._waiting:  # its caller has gone
                self._waiting.remove(turn)
            else:
                self._taken -= size
            self._let_in()
            self._less.set()

    async def until_free(self) -> None:
        """Returns when more may come."""
        while self._taken + sum(size for size, _ in self._waiting) >= self._most:
            self._less = anyio.Event()
            await self._less.wait()

    def _let_in(self) -> None:
        while self._waiting and (not self._taken or self._taken + self._waiting[0][0] <= self._most):
            size, turn = self._waiting.popleft()
            self._taken += size
            turn.set()
