"""Sends one admitted call to its server: past the breaker, and again where a retry may help.

Raises UpstreamFailure, or GatewayError while a breaker is open. The error of a tool is a result like any other, and is
not retried.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final

import anyio

from leafgate.admission.retry import TRANSIENT, Breaker, BreakerPolicy, End, RetryPolicy, admit_call, end_call
from leafgate.codec.negotiate import ACCEPT_META_KEY, LEAF_EXTENSION, IdsWish
from leafgate.gateway.deliver import Delivery, ServerCleaning, clean_text, clean_value
from leafgate.gateway.serving import end_of, set_server
from leafgate.gateway.workload import estimate_size
from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.model.request import SERVING, ClientChannel
from leafgate.model.tool import SelectableItem
from leafgate.ports import CallEnd, Clock, Sleep, Upstream

# The requests whose name is traced. The URI of a resource may hold what a client filled into a template.
_TRACED_BY_NAME: Final = ("tools/call", "prompts/get")
# Addresses that a person is sent to, and the bytes of images and sounds.
OPAQUE: Final = ("url", "uri", "data", "blob")
MAX_PROGRESS_CHARS: Final = 2_000
MAX_LOG_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class Answer:
    """A raw result, and the number of attempts that it took."""

    raw: Mapping[str, Any]
    attempts: int


class Breakers:
    """A breaker per server."""

    def __init__(self, policy: BreakerPolicy, *, clock: Clock = time.monotonic) -> None:
        self._policy = policy
        self._clock = clock
        self._states: dict[str, Breaker] = {}

    @contextmanager
    def guard(self, server: str) -> Iterator[None]:
        """Refuse a call, or let it through and note how it ends, also if its caller gives up."""
        turn = self._admit(server)
        end: End = "abandoned"
        try:
            yield
            end = "answered"
        except UpstreamFailure as failure:
            end = "unreachable" if failure.code in TRANSIENT else "answered"
            raise
        finally:
            state = self._states.get(server, Breaker())
            self._states[server] = end_call(state, self._policy, self._clock(), turn, end)

    def _admit(self, server: str) -> int:
        verdict = admit_call(self._states.get(server, Breaker()), self._policy, self._clock())
        self._states[server] = verdict.state
        if not verdict.may_run:
            details = {"retry_after": round(verdict.retry_after, 3)}
            message = "the server was not reachable several times in a row and is left alone for a while"
            raise GatewayError("UPSTREAM_UNAVAILABLE", message, details=details)
        return verdict.state.turn

    def phases(self) -> dict[str, str]:
        """The phase of every breaker that was used."""
        return {server: state.phase for server, state in sorted(self._states.items())}


@dataclass(frozen=True)
class Dispatcher:
    """How calls are sent. By default once, and without breakers."""

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
    client: ClientChannel | None = None,
    *,
    wish: IdsWish | None = None,
) -> Answer:
    """The server's answer, after as many attempts as the policy allows. A server with leaves is told the `wish`."""
    attempt = 1
    while True:
        try:
            with nullcontext() if how.breakers is None else how.breakers.guard(item.server):
                return Answer(await _call(upstream, item, args, client, wish), attempt)
        except UpstreamFailure as failure:
            delay = how.retry.delay_after(attempt, failure.code, how.chance())
            if delay is None:
                if attempt == 1:
                    raise
                detail, details = f"{failure.detail} (after {attempt} attempts)", {"attempts": attempt}
                raise UpstreamFailure(
                    failure.code,
                    detail,
                    message=failure.message,
                    details={**failure.details, **details},
                    pointers=failure.pointers,
                ) from failure
        await how.sleep(delay)
        attempt += 1


async def _call(
    upstream: Upstream,
    item: SelectableItem,
    args: Mapping[str, Any],
    client: ClientChannel | None,
    wish: IdsWish | None,
) -> Mapping[str, Any]:
    try:
        params: dict[str, Any] = {"name": item.upstream_name, "arguments": dict(args)}
        if wish is not None and item.server in upstream.servers_with(LEAF_EXTENSION):
            params["_meta"] = {ACCEPT_META_KEY: wish.as_json()}
        raw = await upstream.request(item.server, "tools/call", params, client)
    except (UpstreamFailure, GatewayError):
        raise
    except Exception as error:
        raise UpstreamFailure("UPSTREAM_ERROR", f"{type(error).__name__}: {error}") from error
    if not isinstance(raw, Mapping):
        raise UpstreamFailure("UPSTREAM_ERROR", f"the result is not an object but {type(raw).__name__}")
    return raw


class ObservedUpstream:
    """An Upstream around another. Results and failures pass unchanged."""

    def __init__(self, inner: Upstream, delivery: Delivery) -> None:
        self._inner = inner
        self._delivery = delivery
        self.list_offers = inner.list_offers
        self.list_hint = inner.list_hint
        self.watch = inner.watch
        self.unwatch = inner.unwatch
        self.servers_with = inner.servers_with
        self.server_of_resource = inner.server_of_resource
        self.wait_for_start = inner.wait_for_start
        self.instance_of = inner.instance_of

    async def request(
        self, server: str, method: str, params: Mapping[str, Any], client: ClientChannel | None = None
    ) -> Mapping[str, Any]:
        if client is not None:
            served = SERVING.get()
            reader_map = None if served is None else served.reader_map
            client = CleanClient(client, await self._delivery.cleaning_for(server, reader_map))
        target = str(params.get("name")) if method in _TRACED_BY_NAME else ""
        set_server(server)
        self._delivery.workload.note_call(server)
        started = perf_counter()
        end: CallEnd = None
        with self._delivery.tracer.stage("upstream", server=server, method=method, target=target) as span:
            try:
                raw = await self._inner.request(server, method, params, client)
                if method == "tools/call" and isinstance(raw, Mapping) and raw.get("isError") is True:
                    end = "tool_error"
                    span.fail(end)
                return raw
            except BaseException as error:
                end = end_of(error)
                span.fail(str(end))
                raise
            finally:
                self._delivery.recorder.upstream(server, end, perf_counter() - started)


class OuterChannel:
    """A ClientChannel around another, of which it has the attributes. What passes is up to its subclasses."""

    def __init__(self, inner: ClientChannel) -> None:
        self._inner = inner
        self.owner = inner.owner
        self.user = inner.user
        self.takes_input_requests = inner.takes_input_requests
        self.takes_any_json = inner.takes_any_json
        self.resume = inner.resume
        self.capabilities = inner.capabilities
        self.log_level = inner.log_level
        self.meta = inner.meta


class CleanClient(OuterChannel):
    """A ClientChannel around another, to which only cleaned texts of a server are passed on.

    The text of a progress message, and a log line, that is very long is left out: a server may send many of them.
    """

    def __init__(self, inner: ClientChannel, cleaning: ServerCleaning) -> None:
        super().__init__(inner)
        self._cleaning = cleaning

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        if message is not None:
            is_long = len(message) > MAX_PROGRESS_CHARS
            message = None if is_long else await clean_text(message, self._cleaning)
        await self._inner.progress(progress, total, message)

    async def log(self, params: Mapping[str, Any]) -> None:
        if estimate_size(params, limit=MAX_LOG_BYTES) < MAX_LOG_BYTES:
            await self._inner.log(await clean_value(params, self._cleaning))

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            question: Mapping[str, Any] = await clean_value(params, self._cleaning, keep=OPAQUE)
        except UpstreamFailure as failure:
            raise GatewayError(failure.code, failure.message) from failure
        if self._cleaning.check_question is not None:
            question = await self._cleaning.check_question(method, question)
        return await self._inner.ask(method, question)
