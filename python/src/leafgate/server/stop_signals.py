"""When a gateway is to stop. In: SIGINT and SIGTERM. Out: word of the first, and of a later one.

Touches the process's signals. They are heard from before the servers behind a gateway are started until after they were
ended: a signal that ended the process in between would leave them running.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio

SAME_KEYPRESS_SECONDS: Final = 1


@dataclass(frozen=True)
class Stopping:
    """`asked`: calls under way may end. `urged`: nor is there time for those."""

    asked: anyio.Event = field(default_factory=anyio.Event)
    urged: anyio.Event = field(default_factory=anyio.Event)


@asynccontextmanager
async def stop_signals() -> AsyncIterator[Stopping]:
    """Inside this context a signal is word to stop, and nothing more."""
    stopping = Stopping()
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:

        async def hear() -> None:
            first: float | None = None
            async for _ in signals:
                first = first or anyio.current_time()
                stopping.asked.set()
                if anyio.current_time() - first > SAME_KEYPRESS_SECONDS:  # Ctrl-C often arrives twice at once
                    stopping.urged.set()

        async with anyio.create_task_group() as group:
            group.start_soon(hear)
            yield stopping
            group.cancel_scope.cancel()
