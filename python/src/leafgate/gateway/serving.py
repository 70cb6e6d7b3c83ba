"""How requests are served: each is timed, traced and reported exactly once, and work on large results is bounded.

Cleaning takes several times the memory of what is cleaned: without a bound, a few large results at once take all there
is. Work that has no space waits, first come, first served; and servers are read no further while more waits than there
is space for, so that what waits is bounded too. Large work is done in threads.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from sys import maxsize
from time import perf_counter
from typing import Any, Final, Self, TypeVar

import anyio
from anyio import to_thread

from leafgate.clean.result import CleaningReport
from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.model.request import LOCAL, SERVING, Request, Served
from leafgate.ports import AuditLog, CallEnd, Recorder, Span, Tracer

# One line for each request, at the level info.
call_log = logging.getLogger("leafgate.calls")

# In bytes: so many are cleaned and tokenized in some 5 ms, and the loop may be blocked for 20 ms at most.
THREAD_FROM: Final = 8_192
WORKLOAD_BYTES: Final = 64 * 1024 * 1024
LARGE_FROM: Final = 1024 * 1024  # smaller results wait for nothing: all calls' small ones fit beside the large ones

_PLAIN: Final = frozenset((int, float, bool, type(None)))
_PLAIN_WORD: Final = re.compile(r"[\w.:/@#+-]{1,200}")

Value = TypeVar("Value")


class Workload:
    """The bytes of large results that are worked on. One larger than `limit` is worked on alone."""

    def __init__(self, limit: int = WORKLOAD_BYTES) -> None:
        self.is_full = False
        self._limit = limit
        self._bytes = 0
        self._demand = 0  # with what waits in the queue
        self._queue: deque[tuple[int, anyio.Event]] = deque()
        self._less = anyio.Event()

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
        """Return when another result may be read from a server."""
        while self.is_full:
            self._less = anyio.Event()
            await self._less.wait()

    def _add_demand(self, size: int) -> None:
        self._demand += size
        self.is_full = self._demand >= self._limit

    def _start_next(self) -> None:
        while self._queue and (not self._bytes or self._bytes + self._queue[0][0] <= self._limit):
            size, turn = self._queue.popleft()
            self._bytes += size
            turn.set()


async def run_sized(size: int, work: Callable[[], Value]) -> Value:
    """Run large work in a thread, so that other clients do not wait for it; small work at once."""
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


class _Untraced:
    """The tracer that draws nothing, and each of its stages: one object for all, so that being off costs nothing."""

    def stage(self, name: str, **facts: str | int) -> Self:
        return self

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None

    def note(self, name: str, fact: str | int) -> None:
        return None

    def fail(self, code: str) -> None:
        return None


UNTRACED: Final[Tracer] = _Untraced()


@dataclass
class Outcome:
    """How a request ended. Code that turns an error into an answer, or passes on a tool's error, sets `error`."""

    correlation_id: str
    error: CallEnd = None


def note(**facts: Any) -> None:
    """Set fields of the current request's Served: its log lines and its report say so."""
    current = SERVING.get()
    if current is not None:
        SERVING.set(replace(current, **facts))


def set_server(server: str) -> None:
    """The current request goes to this server."""
    current = SERVING.get()
    if current is not None and current.server != server:
        SERVING.set(replace(current, server=server))


def note_tokens_out(tokens: int) -> None:
    """The answer to the current request has so many ids more."""
    current = SERVING.get()
    if current is not None:
        SERVING.set(replace(current, tokens_out=(current.tokens_out or 0) + tokens))


def note_cleaning(report: CleaningReport) -> None:
    """Cleaning changed or flagged this in what the current request is answered with."""
    current = SERVING.get()
    if current is not None and (report.removed or report.redacted or report.flagged):
        sums = CleaningReport(current.removed, current.redacted, current.flagged) + report
        SERVING.set(replace(current, removed=sums.removed, redacted=sums.redacted, flagged=sums.flagged))


def end_of(error: BaseException) -> CallEnd:
    """How a request ended that raised this."""
    if isinstance(error, GatewayError | UpstreamFailure):
        return error.code
    return "INTERNAL_ERROR" if isinstance(error, Exception) else "cancelled"


@contextmanager
def observe(
    operation: str, recorder: Recorder, tracer: Tracer, *, request: Request = LOCAL, audit: AuditLog | None = None
) -> Iterator[Outcome]:
    """Everything inside this context is one request: it is counted, traced, logged and audited once."""
    current = Served(
        secrets.token_hex(4),
        operation,
        principal=request.principal,
        client_name=request.client_name,
        tokens_in=request.argument_tokens,
        reader_map=request.known_map,
    )
    outcome = Outcome(current.correlation_id)
    before = SERVING.set(current)
    started = perf_counter()
    with tracer.stage(operation, correlation_id=current.correlation_id) as span:
        try:
            yield outcome
        except BaseException as error:
            outcome.error = end_of(error)
            raise
        finally:
            current, seconds = SERVING.get() or current, perf_counter() - started  # `note` may have set more of it
            _log_call(current, outcome.error, seconds)
            SERVING.reset(before)
            recorder.call(current, outcome.error, seconds)
            if audit is not None:
                audit.call(current, outcome.error, seconds)
            if current.server:
                span.note("server", current.server)
            if current.tool:
                span.note("tool", current.tool)
            if outcome.error is not None:
                span.fail(outcome.error)


def _log_call(served: Served, end: CallEnd, seconds: float) -> None:
    """Write the one line of a request. The JSON form gets the fields by themselves."""
    if not call_log.isEnabledFor(logging.INFO):
        return
    fields: dict[str, Any] = {"outcome": end or "ok", "ms": round(1000 * seconds, 1)}
    fields |= {} if served.tokens_in is None else {"tokens_in": served.tokens_in}
    fields |= {} if served.tokens_out is None else {"tokens_out": served.tokens_out}
    about = {"principal": served.principal, "server": served.server, "tool": served.tool, **fields}
    words = " ".join(f"{name}={_word(value)}" for name, value in about.items() if value not in (None, ""))
    call_log.info("%s %s", served.operation, words, extra={"fields": fields})


def _word(value: object) -> str:
    """A value as one word: a name with spaces or signs in it, which could pass for other fields, is quoted."""
    text = str(value)
    return text if _PLAIN_WORD.fullmatch(text) else json.dumps(text)
