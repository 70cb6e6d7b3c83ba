"""One request as its operator sees it: an id, a span, a report. In: an operation. Out: all three, exactly once.

Awaits nothing. Touches chance for the id and the clock for the duration, and the ports Recorder and Tracer.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Final, Self

from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.model.served import SERVING, Served
from leafgate.ports import CallEnd, Recorder, Span, Tracer


class Outcome:
    """How a request ended; whoever turns an error into an answer says so here."""

    def __init__(self, correlation_id: str) -> None:
        self.correlation_id = correlation_id
        self.error: CallEnd = None


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


def goes_to(server: str) -> None:
    """From here to its end, the request that is being served is one to this server: logs and its report say so."""
    served = SERVING.get()
    if served is not None:
        SERVING.set(replace(served, server=server))


def end_of(error: BaseException) -> CallEnd:
    """How a request ended that raised this."""
    if isinstance(error, GatewayError | UpstreamFailure):
        return error.code
    return "INTERNAL_ERROR" if isinstance(error, Exception) else "cancelled"


@contextmanager
def serving(operation: str, recorder: Recorder, tracer: Tracer) -> Iterator[Outcome]:
    """Everything inside this context is one request."""
    served = Served(secrets.token_hex(4), operation)
    outcome = Outcome(served.correlation_id)
    before = SERVING.set(served)
    started = perf_counter()
    with tracer.stage(operation, correlation_id=served.correlation_id) as span:
        try:
            yield outcome
        except BaseException as error:
            outcome.error = end_of(error)
            raise
        finally:
            served = SERVING.get() or served  # by now it may be known which server it went to
            SERVING.reset(before)
            recorder.call(served, outcome.error, perf_counter() - started)
            if served.server:
                span.note("server", served.server)
            if outcome.error is not None:
                span.fail(outcome.error)
