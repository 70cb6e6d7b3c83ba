"""What the gateway holds of each server's answers, and how much it works on at once (spec 10).

Every server has its own share, so that a server that is slow, large or hostile uses up nothing but its own. A share
counts the bytes that are being received, that wait, and that are worked on. Cleaning takes several times the memory of
what is cleaned: work that has no space waits, first come, first served; and a server is read no further while more of
its results wait than there is space for, so that what waits is bounded too. Large work is done in threads, of which a
server has a few.

A share is also one of time. All requests share one interpreter, so what a server sends without being asked, and what it
sends in large, is paid for with an allowance that grows with time. A server that has used up its allowance is read no
further until it has grown again, as long as other servers are busy too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from sys import maxsize
from time import monotonic, thread_time
from typing import Any, Final, TypeVar

import anyio
from anyio import to_thread

# In bytes: so many are cleaned and tokenized in some 5 ms, and the loop may be blocked for 20 ms at most.
THREAD_FROM: Final = 8_192
SHARE_BYTES: Final = 64 * 1024 * 1024
LARGE_FROM: Final = 1024 * 1024  # smaller results wait for nothing: all calls' small ones fit beside the large ones
THREADS: Final = 4  # of one server; anyio has 40 for everything else
# The time of the interpreter that one server may use: so much of every second, so many seconds at once after a rest,
# and how long it is not read at most. A log line takes 0.5 ms, a result of 1 MB 3 ms. With
# three times the share and pauses of 5 s, the p99 of calls beside seven hostile servers was 1.7 times as long.
TIME_SHARE: Final = 0.01
TIME_AT_ONCE: Final = 0.1
LONGEST_PAUSE: Final = 20.0
# A step that holds the event loop for longer than this delays all requests that come meanwhile: its cost grows with the
# square of its length.
SHORT_STEP: Final = 0.002
BUSY_CALLS: Final = 10  # of other servers within a second; while there are fewer, no server waits for time

_PLAIN: Final = frozenset((int, float, bool, type(None)))

Value = TypeVar("Value")


class TimeAllowance:
    """How much of the interpreter's time one server may still use. Grows with time, and may be overdrawn."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._left = TIME_AT_ONCE
        self._at = clock()

    @property
    def is_overdrawn(self) -> bool:
        return self._left < 0

    def spend(self, seconds: float) -> None:
        self._grow()
        self._left = max(self._left - seconds, -LONGEST_PAUSE * TIME_SHARE)

    def pause(self) -> float:
        """The seconds until it is no longer overdrawn."""
        self._grow()
        return max(0.0, -self._left / TIME_SHARE)

    def _grow(self) -> None:
        now = self._clock()
        self._left = min(TIME_AT_ONCE, self._left + (now - self._at) * TIME_SHARE)
        self._at = now


class Receipt:
    """The part of one message that has been received. A server may send several messages at once over HTTP."""

    def __init__(self, share: ServerShare) -> None:
        self._share = share
        self.size = 0

    def count(self, size: int) -> None:
        """So many bytes more were received."""
        self.size += size
        self._share.add_received(size)

    def clear(self) -> None:
        """The message is complete, or given up."""
        self._share.add_received(-self.size)
        self.size = 0

    def spend(self, seconds: float) -> None:
        """A step of the event loop, for the message, took so long."""
        self._share.spend(seconds)

    async def wait_for_turn(self) -> None:
        """Return when more may be received. The oldest message may always go on, or none would ever be complete."""
        await self._share.wait_for_time()
        await self._share.wait_until(lambda: self._share.held < self._share.limit or self._share.oldest() is self)


class ServerShare:
    """One server's share: implements Intake. A result larger than `limit` is worked on alone."""

    def __init__(self, limit: int = SHARE_BYTES, are_others_busy: Callable[[], bool] = lambda: True) -> None:
        self.limit = limit
        self._are_others_busy = are_others_busy
        self.time = TimeAllowance()
        self.dropped: Counter[str] = Counter()  # by kind: notifications that were not passed on
        self._threads: anyio.CapacityLimiter | None = None
        self._receipts: dict[Receipt, None] = {}  # in the order of their beginning
        self._received = 0
        self._bytes = 0
        self._demand = 0  # with what waits in the queue
        self._queue: deque[tuple[int, anyio.Event]] = deque()
        self._less = anyio.Event()

    @property
    def is_full(self) -> bool:
        """Whether no further message of the server is read."""
        return self._demand >= self.limit or self.time.is_overdrawn

    def spend(self, seconds: float) -> None:
        """One step of the event loop, for what the server sent, took so long."""
        self.time.spend(seconds * max(1.0, seconds / SHORT_STEP))

    @property
    def held(self) -> int:
        """The bytes of answers that are received, wait, or are worked on now."""
        return self._received + self._demand

    @contextmanager
    def receive(self) -> Iterator[Receipt]:
        """Inside this context messages are received one after another."""
        receipt = Receipt(self)
        self._receipts[receipt] = None
        try:
            yield receipt
        finally:
            receipt.clear()
            del self._receipts[receipt]

    def oldest(self) -> Receipt | None:
        """The message that has been received for longest and is not complete."""
        return next((receipt for receipt in self._receipts if receipt.size), None)

    def add_received(self, size: int) -> None:
        self._received += size
        if size < 0:
            self._less.set()

    def note_dropped(self, kind: str) -> None:
        self.dropped[kind] += 1

    @asynccontextmanager
    async def reserve(self, raw: Mapping[str, Any]) -> AsyncIterator[None]:
        """Wait for the turn of a raw result. Inside this context it may be worked on."""
        size = estimate_size(raw, limit=LARGE_FROM)
        if size >= LARGE_FROM:
            size = await to_thread.run_sync(partial(estimate_size, raw, limit=maxsize))
        async with self.reserve_bytes(size):
            yield

    @asynccontextmanager
    async def reserve_bytes(self, size: int) -> AsyncIterator[None]:
        """The same for so many bytes."""
        if size < LARGE_FROM:
            yield
            return
        turn = size, anyio.Event()
        self._queue.append(turn)
        self._add_demand(size)
        self._start_next()
        try:
            await turn[1].wait()
            yield
        finally:
            if turn in self._queue:  # its caller has gone
                self._queue.remove(turn)
            else:
                self._bytes -= size
            self._add_demand(-size)
            self._start_next()
            self._less.set()

    async def wait_for_space(self) -> None:
        """Return when another message may be read from the server."""
        await self.wait_for_time()
        await self.wait_until(lambda: self._demand < self.limit)

    async def wait_for_time(self) -> None:
        """Return when the server's allowance of time is no longer overdrawn, at once if no other server is busy."""
        if self.time.is_overdrawn and self._are_others_busy():
            await anyio.sleep(self.time.pause())

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Return when this holds; it is looked at whenever less is held."""
        while not holds():
            if self._less.is_set():
                self._less = anyio.Event()
            await self._less.wait()

    async def run(self, size: int, work: Callable[[], Value]) -> Value:
        """Run large work in a thread of this server, so that other clients do not wait for it; small work at once.

        The time that the thread is busy counts as the server's.
        """
        if size < THREAD_FROM:
            return work()
        if self._threads is None:  # a limiter belongs to an event loop, and a share may be made before there is one
            self._threads = anyio.CapacityLimiter(THREADS)
        value, seconds = await to_thread.run_sync(_measure, work, limiter=self._threads)
        self.time.spend(seconds)
        return value

    def _add_demand(self, size: int) -> None:
        self._demand += size

    def _start_next(self) -> None:
        while self._queue and (not self._bytes or self._bytes + self._queue[0][0] <= self.limit):
            size, turn = self._queue.popleft()
            self._bytes += size
            turn.set()


class Workload:
    """The shares of all servers, by their names."""

    def __init__(self, limit: int = SHARE_BYTES) -> None:
        self._limit = limit
        self._shares: dict[str, ServerShare] = {}
        self._calls: dict[str, deque[float]] = {}  # by server: when its latest calls were made

    def share_of(self, server: str) -> ServerShare:
        """The share of a server; made when it is first asked for."""
        share = self._shares.get(server)
        if share is None:
            share = self._shares[server] = ServerShare(self._limit, partial(self._are_others_busy, server))
        return share

    def note_call(self, server: str) -> None:
        """A request is sent to this server."""
        self._calls.setdefault(server, deque(maxlen=BUSY_CALLS)).append(monotonic())

    def _are_others_busy(self, server: str) -> bool:
        since = monotonic() - 1
        calls = (at for name, times in self._calls.items() if name != server for at in times)
        return sum(at > since for at in calls) >= BUSY_CALLS

    def held(self) -> dict[str, int]:
        """By server: the bytes of answers that the gateway holds now."""
        return {server: share.held for server, share in self._shares.items()}

    def dropped(self) -> dict[tuple[str, str], int]:
        """By server and kind: the notifications that were not passed on."""
        return {(name, kind): times for name, share in self._shares.items() for kind, times in share.dropped.items()}


def _measure(work: Callable[[], Value]) -> tuple[Value, float]:
    started = thread_time()
    return work(), thread_time() - started


async def run_sized(size: int, work: Callable[[], Value]) -> Value:
    """Run large work of the gateway's own in a thread, so that other clients do not wait for it; small work at once."""
    return work() if size < THREAD_FROM else await to_thread.run_sync(work)


def estimate_size(*values: Any, limit: int = THREAD_FROM) -> int:
    """The bytes of these values, at least roughly; what is beyond `limit` is not looked at."""
    size = 0
    rest: list[Any] = [*values]
    while rest and size < limit:
        value = rest.pop()
        if isinstance(value, str):
            size += max_bytes(value)
        elif isinstance(value, dict | Mapping):
            size += 16 + len(value)
            for inside in value.values():  # texts at once: most results are decided by them
                if isinstance(inside, str):
                    size += max_bytes(inside)
                else:
                    rest.append(inside)
        elif isinstance(value, list):
            size += 16 + len(value)
            if size < limit and not _PLAIN.issuperset(map(type, value)):  # ids and vectors are many, and hold nothing
                rest += value
    return size


def max_bytes(text: str) -> int:
    """The most bytes that a text may take."""
    return len(text) if text.isascii() else 4 * len(text)
