"""How requests are served: each is timed, traced, logged and reported exactly once."""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final, Self

from leafgate.clean.result import CleaningReport
from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.model.request import LOCAL, SERVING, Request, Served
from leafgate.ports import AuditLog, CallEnd, Recorder, Span, Tracer

# One line for each request, at the level info.
call_log = logging.getLogger("leafgate.calls")

_PLAIN_WORD: Final = re.compile(r"[\w.:/@#+-]{1,200}")


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
        reader_map=request.reader_map,
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
