"""Retries and breakers, on clocks that are handed in; and on a real process that dies and comes back."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from leafgate.admission.retry import BreakerPolicy, RetryPolicy
from leafgate.gateway.dispatch import Breakers, Dispatcher, dispatch
from leafgate.model.errors import ErrorCode, GatewayError, UpstreamFailure
from leafgate.model.tool import SelectableItem
from leafgate.upstream import ServerSpec, StdioServer
from leafgate.upstream.fleet import Fleet
from leafgate.upstream.library import StubUpstream

pytestmark = pytest.mark.anyio

GOOD: Mapping[str, Any] = {"content": []}


class World:
    """A stub that fails with these codes, one a call, and then answers; a clock; and every sleep there was."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = list(codes)
        self.now = 0.0
        self.slept: list[float] = []
        self.upstream = StubUpstream([{"name": "read"}], answers={"read": self.answer}, server="disk")

    def answer(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.codes:
            raise UpstreamFailure(self.codes.pop(0), "password=hunter2")
        return GOOD

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float, /) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def how(self, retry: RetryPolicy | None = None, breaker: BreakerPolicy | None = None) -> Dispatcher:
        breakers = None if breaker is None else Breakers(breaker, clock=self.clock)
        return Dispatcher(retry or RetryPolicy(), breakers, self.sleep, lambda: 0.0)


def item(name: str = "read", server: str = "disk") -> SelectableItem:
    return SelectableItem(f"{server}:{name}#00000000", "tool", name, "", server, name, server=server)


THRICE = RetryPolicy(3, base_delay=1, jitter=0)


async def test_by_default_a_call_is_made_once() -> None:
    world = World("UPSTREAM_TIMEOUT")
    with pytest.raises(UpstreamFailure) as raised:
        await dispatch(world.upstream, item(), {})
    assert len(world.upstream.calls) == 1
    assert raised.value.details == {}


async def test_a_transport_failure_is_tried_again_after_a_pause() -> None:
    world = World("UPSTREAM_TIMEOUT", "UPSTREAM_UNAVAILABLE")
    answered = await dispatch(world.upstream, item(), {}, world.how(THRICE))
    assert answered.raw is GOOD
    assert answered.attempts == 3
    assert world.slept == [1, 2]


async def test_after_the_last_attempt_the_failure_says_how_many_there_were() -> None:
    world = World(*["UPSTREAM_TIMEOUT"] * 5)
    with pytest.raises(UpstreamFailure) as raised:
        await dispatch(world.upstream, item(), {}, world.how(THRICE))
    assert len(world.upstream.calls) == 3
    assert raised.value.details == {"attempts": 3}
    assert "after 3 attempts" in raised.value.detail


@pytest.mark.parametrize("code", ["UPSTREAM_ERROR", "AUTH_FAILED", "PERMISSION_DENIED", "RATE_LIMITED"])
async def test_other_failures_are_final(code: ErrorCode) -> None:
    world = World(code)
    with pytest.raises(UpstreamFailure):
        await dispatch(world.upstream, item(), {}, world.how(THRICE))
    assert len(world.upstream.calls) == 1


async def test_a_tools_own_error_is_an_answer() -> None:
    stub = StubUpstream([], answers={"read": {"isError": True, "content": []}})
    answered = await dispatch(stub, item(), {}, World().how(THRICE))
    assert answered.raw["isError"]
    assert len(stub.calls) == 1


class Broken(StubUpstream):
    def __init__(self, raised: Exception | None, answer: Any = None) -> None:
        super().__init__([])
        self.raised, self.answer = raised, answer

    async def request(self, *args: Any) -> Any:
        if self.raised is not None:
            raise self.raised
        return self.answer


@pytest.mark.parametrize("broken", [Broken(KeyError("x")), Broken(None, ["no object"]), Broken(None, None)])
async def test_an_adapter_that_breaks_its_promise_is_a_failure_of_the_upstream(broken: Broken) -> None:
    with pytest.raises(UpstreamFailure) as raised:
        await dispatch(broken, item(), {})
    assert raised.value.code == "UPSTREAM_ERROR"


TWO = BreakerPolicy(failures=2, open_seconds=10)


async def failing(world: World, how: Dispatcher, times: int) -> None:
    for _ in range(times):
        with pytest.raises(UpstreamFailure):
            await dispatch(world.upstream, item(), {}, how)


async def test_an_open_breaker_fails_fast_and_lets_a_probe_through_later() -> None:
    world = World(*["UPSTREAM_UNAVAILABLE"] * 2)
    how = world.how(breaker=TWO)
    await failing(world, how, 2)
    world.now = 4
    with pytest.raises(GatewayError) as raised:
        await dispatch(world.upstream, item(), {}, how)
    assert raised.value.code == "UPSTREAM_UNAVAILABLE"
    assert raised.value.body.details == {"retry_after": 6}
    assert len(world.upstream.calls) == 2
    world.now = 10
    assert (await dispatch(world.upstream, item(), {}, how)).raw is GOOD
    assert how.breakers is not None
    assert how.breakers.phases() == {"disk": "closed"}


async def test_servers_have_breakers_of_their_own() -> None:
    world = World(*["UPSTREAM_UNAVAILABLE"] * 2)
    how = world.how(breaker=TWO)
    await failing(world, how, 2)
    assert (await dispatch(world.upstream, item(server="other"), {}, how)).raw is GOOD


async def test_errors_that_are_answers_do_not_open_a_breaker() -> None:
    world = World(*["UPSTREAM_ERROR", "AUTH_FAILED", "RATE_LIMITED"] * 3)  # type: ignore[arg-type]
    how = world.how(breaker=TWO)
    await failing(world, how, 9)
    assert (await dispatch(world.upstream, item(), {}, how)).raw is GOOD


async def test_a_breaker_that_opens_ends_the_retries() -> None:
    world = World(*["UPSTREAM_UNAVAILABLE"] * 9)
    with pytest.raises(GatewayError) as raised:
        await dispatch(world.upstream, item(), {}, world.how(RetryPolicy(9, base_delay=1, jitter=0), TWO))
    assert raised.value.code == "UPSTREAM_UNAVAILABLE"
    assert len(world.upstream.calls) == 2


class Hanging(StubUpstream):
    async def request(self, *args: Any) -> Any:
        await anyio.sleep_forever()


async def test_a_probe_that_is_cancelled_does_not_block_the_next() -> None:
    world = World(*["UPSTREAM_UNAVAILABLE"] * 2)
    how = world.how(breaker=TWO)
    await failing(world, how, 2)
    world.now = 10
    async with anyio.create_task_group() as group:
        group.start_soon(dispatch, Hanging([]), item(), {}, how)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert (await dispatch(world.upstream, item(), {}, how)).raw is GOOD


async def test_a_real_server_that_dies_is_asked_again_when_it_is_back() -> None:
    server = Path(__file__).parents[1] / "servers" / "moody.py"
    fleet = Fleet([ServerSpec("moody", StdioServer(sys.executable, (str(server),)), timeout=20)])
    (member,) = fleet.members()

    async def until_up(seconds: float, /) -> None:
        with anyio.fail_after(30):
            while member.state != "up":  # noqa: ASYNC110  the child is another process; there is no event to wait for
                await anyio.sleep(0.05)

    async with fleet.running():
        await fleet.wait_for_start()
        with pytest.raises(UpstreamFailure) as raised:
            await dispatch(fleet, item("die", "moody"), {})
        assert raised.value.code == "UPSTREAM_UNAVAILABLE"
        with anyio.fail_after(30):
            while member.state == "up":  # noqa: ASYNC110  likewise
                await anyio.sleep(0.01)
        # The first attempt meets a server that is down; the pause lasts until it is back.
        how = Dispatcher(RetryPolicy(2), sleep=until_up)
        answered = await dispatch(fleet, item("echo", "moody"), {"text": "again"}, how)
        assert answered.attempts == 2
        assert answered.raw["content"][0]["text"] == "again"
