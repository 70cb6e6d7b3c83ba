"""One admitted call, sent to its server: past the breaker, and again where that may help. In: a call. Out: its answer.

Awaits the Upstream port, and sleeps through the function it is given. Raises UpstreamFailure, or GatewayError while a
breaker is open; a tool's own error is an answer like any other, and is never asked for twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from leafgate.admission.breaker import Breaker, BreakerPolicy, End, ask_breaker, tell_breaker
from leafgate.admission.retry import TRANSIENT, RetryPolicy
from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.model.tool import SelectableItem
from leafgate.ports import Caller, Clock, Sleep, Upstream


@dataclass(frozen=True)
class Answered:
    """A raw result, and after how many attempts it came."""

    raw: Mapping[str, Any]
    attempts: int


class Breakers:
    """A breaker per server."""

    def __init__(self, policy: BreakerPolicy, *, clock: Clock = time.monotonic) -> None:
        self._policy = policy
        self._clock = clock
        self._states: dict[str, Breaker] = {}

    def admit(self, server: str) -> int:
        """Lets a call through and gives its turn, or refuses it."""
        verdict = ask_breaker(self._states.get(server, Breaker()), self._policy, self._clock())
        self._states[server] = verdict.state
        if not verdict.may_go:
            details = {"retry_after": round(verdict.retry_after, 3)}
            message = "the server was not reachable several times in a row and is left alone for a while"
            raise GatewayError("UPSTREAM_UNAVAILABLE", message, details=details)
        return verdict.state.turn

    def tell(self, server: str, turn: int, end: End) -> None:
        """How a call that was let through ended."""
        state = self._states.get(server, Breaker())
        self._states[server] = tell_breaker(state, self._policy, self._clock(), turn, end)

    def phases(self) -> dict[str, str]:
        """For the operator: every breaker that was used, and its phase."""
        return {server: state.phase for server, state in sorted(self._states.items())}


@dataclass(frozen=True)
class Dispatcher:
    """How calls are sent. By default once, and to whatever server."""

    retry: RetryPolicy = RetryPolicy()  # noqa: RUF009  frozen
    breakers: Breakers | None = None
    sleep: Sleep = field(default=anyio.sleep)
    chance: Callable[[], float] = field(default=random.random)


SEND_ONCE: Final = Dispatcher()


async def dispatch(
    upstream: Upstream,
    item: SelectableItem,
    args: Mapping[str, Any],
    how: Dispatcher = SEND_ONCE,
    client: Caller | None = None,
) -> Answered:
    """The server's answer, after as many attempts as the policy allows."""

    async def call() -> Mapping[str, Any]:
        return await _call(upstream, item, args, client)

    attempt = 1
    while True:
        try:
            return Answered(await _past_breaker(how.breakers, item.server, call), attempt)
        except UpstreamFailure as failure:
            delay = how.retry.delay_after(attempt, failure.code, how.chance())
            if delay is None:
                raise _counted(failure, attempt) from failure
        await how.sleep(delay)
        attempt += 1


async def _past_breaker(
    breakers: Breakers | None, server: str, call: Callable[[], Awaitable[Mapping[str, Any]]]
) -> Mapping[str, Any]:
    """One attempt. The breaker hears of its end, whichever that is, also if the caller gives up."""
    if breakers is None:
        return await call()
    turn = breakers.admit(server)
    end: End = "abandoned"
    try:
        raw = await call()
        end = "answered"
        return raw
    except UpstreamFailure as failure:
        end = "unreachable" if failure.code in TRANSIENT else "answered"
        raise
    finally:
        breakers.tell(server, turn, end)


async def _call(
    upstream: Upstream, item: SelectableItem, args: Mapping[str, Any], client: Caller | None
) -> Mapping[str, Any]:
    try:
        raw = await upstream.call_tool(item.server, item.upstream_name, args, client)
    except (UpstreamFailure, GatewayError):
        raise
    except Exception as error:
        raise UpstreamFailure("UPSTREAM_ERROR", f"{type(error).__name__}: {error}") from error
    if not isinstance(raw, Mapping):
        raise UpstreamFailure("UPSTREAM_ERROR", f"the result is no object but {type(raw).__name__}")
    return raw


def _counted(failure: UpstreamFailure, attempts: int) -> UpstreamFailure:
    if attempts == 1:
        return failure
    return UpstreamFailure(
        failure.code,
        f"{failure.detail} (after {attempts} attempts)",
        message=failure.message,
        details={**failure.details, "attempts": attempts},
    )
