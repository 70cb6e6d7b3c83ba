"""The store in memory: whose an artifact is, how long it lives, and that memory stays bounded."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from redis_server import RedisServer
from warm_python import PYTHON

from leafgate.admission.policy import Limit, RateLimits
from leafgate.compose.plan import make_state
from leafgate.model.envelope import HANDLE_CHARS, Artifact, Origin
from leafgate.model.errors import ConfigError
from leafgate.state.memory import MemoryArtifactStore, MemoryBrowseStates, MemoryState, RateLimiter, ToolResultCache
from leafgate.state.records import ENTRY_COST, RESULT_COST, ArtifactLimits, CacheBounds, State
from leafgate.state.redis import RedisState
from leafgate.state.sqlite import SqliteState, UserState

pytestmark = pytest.mark.anyio

KB = 10 * ENTRY_COST


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def artifact(size: int, mark: bytes = b"x") -> Artifact:
    return Artifact(mark * size, "text/plain", "")


async def test_only_the_owner_gets_it_back() -> None:
    store = MemoryArtifactStore()
    kept = Artifact(b"\x89PNG", "image/png", "shot", Origin("web", "screenshot"), is_text=False)
    handle = await store.put("me", kept)
    assert handle is not None
    assert await store.get("me", handle) == kept
    assert await store.get("you", handle) is None
    assert await store.get("me", handle + "0") is None


async def test_two_owners_never_share_a_handle_but_content_is_held_once() -> None:
    store = MemoryArtifactStore()
    handles = [await store.put(f"owner {n}", artifact(100 * KB)) for n in range(50)]
    assert len(set(handles)) == 50
    assert store.used == 100 * KB + 50 * ENTRY_COST


async def test_the_same_owner_gets_the_same_handle_for_the_same_content_of_the_same_tool() -> None:
    store = MemoryArtifactStore()
    one, again, other = Origin("a", "x"), Origin("a", "x"), Origin("b", "x")
    handles = [await store.put("me", Artifact(b"data", "text/plain", "", origin)) for origin in (one, again, other)]
    assert handles[0] == handles[1] != handles[2]


async def test_handles_are_long_and_random() -> None:
    store = MemoryArtifactStore()
    handles = {await store.put("me", artifact(1, secrets.token_bytes(8))) for _ in range(200)}
    assert len(handles) == 200
    assert all(handle is not None and len(handle) == HANDLE_CHARS for handle in handles)


async def test_when_full_the_least_recently_used_goes_first() -> None:
    store = MemoryArtifactStore(ArtifactLimits(capacity=10 * KB))
    first, second = await store.put("me", artifact(4 * KB, b"1")), await store.put("me", artifact(4 * KB, b"2"))
    assert await store.get("me", first or "")
    third = await store.put("me", artifact(4 * KB, b"3"))
    assert await store.get("me", second or "") is None
    assert await store.get("me", first or "")
    assert await store.get("me", third or "")


async def test_an_owner_over_its_quota_loses_its_own_only() -> None:
    store = MemoryArtifactStore(ArtifactLimits(capacity=100 * KB, quota=10 * KB))
    theirs = await store.put("you", artifact(5 * KB, b"y"))
    mine = [await store.put("me", artifact(5 * KB, bytes([n]))) for n in range(5)]
    assert await store.get("you", theirs or "")
    assert [await store.get("me", handle or "") is not None for handle in mine] == [False, False, False, False, True]


async def test_one_larger_than_the_quota_is_kept_alone_and_one_larger_than_the_store_is_not() -> None:
    store = MemoryArtifactStore(ArtifactLimits(capacity=100 * KB, quota=10 * KB))
    small, large = await store.put("me", artifact(KB)), await store.put("me", artifact(50 * KB))
    assert await store.get("me", small or "") is None
    assert await store.get("me", large or "")
    assert await store.put("me", artifact(101 * KB)) is None
    assert await store.get("me", large or "")


async def test_artifacts_expire_and_a_new_put_renews() -> None:
    clock = Clock()
    store = MemoryArtifactStore(ArtifactLimits(ttl=60), clock=clock)
    first, second = await store.put("me", artifact(10, b"1")), await store.put("me", artifact(10, b"2"))
    clock.now = 50
    assert await store.put("me", artifact(10, b"1")) == first
    clock.now = 61
    assert await store.get("me", second or "") is None
    assert await store.get("me", first or "")
    clock.now = 111
    assert await store.get("me", first or "") is None
    assert store.used == 0


async def test_many_small_ones_are_bounded_too() -> None:
    store = MemoryArtifactStore(ArtifactLimits(capacity=100 * ENTRY_COST))
    for n in range(1000):
        await store.put(f"owner {n}", artifact(1, str(n).encode()))
    assert store.used <= 100 * ENTRY_COST


async def test_the_owner_longest_not_heard_of_is_forgotten() -> None:
    states = MemoryBrowseStates(max_owners=2)
    for owner in ("ann", "ben", "ann", "cid"):
        await states.save(owner, {owner: None})
    assert [await states.load(owner) for owner in ("ann", "ben", "cid")] == [{"ann": None}, {}, {"cid": None}]


TOOL = "disk:read#00000000"


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def limiter(time: Time | None = None, **more: int) -> RateLimiter:
    limits = RateLimits({"tool_execute": Limit(3, 5)}, {"disk:*": Limit(2)})
    return RateLimiter(limits, clock=time or Time(), **more)


async def test_owners_do_not_share() -> None:
    quotas = limiter()
    for owner in ("ann", "bob"):
        assert [await quotas.take(owner, ["tool_execute"]) is None for _ in range(4)] == [True, True, True, False]


async def test_a_refused_call_counts_nowhere() -> None:
    time = Time()
    quotas = limiter(time)
    assert [await quotas.take("ann", ["tool_execute", TOOL]) is None for _ in range(3)] == [True, True, False]
    found = await quotas.take("ann", ["tool_execute", TOOL])
    assert found is not None
    assert found.scope == TOOL
    # The meta-tool still has the one place that the refused calls did not take.
    assert await quotas.take("ann", ["tool_execute"]) is None
    assert await quotas.take("ann", ["tool_execute"]) is not None


async def test_the_minute_passes_and_the_session_does_not() -> None:
    time = Time()
    quotas = limiter(time)
    answers = []
    for minute in range(3):
        time.now = minute * 60.0
        answers += [await quotas.take("ann", ["tool_execute"]) for _ in range(3)]
    assert [answer is None for answer in answers] == [True] * 5 + [False] * 4
    assert answers[-1] is not None
    assert answers[-1].limit == "max_calls_per_session"


async def test_looking_takes_nothing() -> None:
    quotas = limiter()
    for _ in range(10):
        assert await quotas.peek("ann", ["tool_execute", TOOL]) is None
    assert await quotas.take("ann", ["tool_execute", TOOL]) is None


async def test_many_at_once_cannot_share_the_last_place() -> None:
    quotas = limiter()
    through: list[bool] = []

    async def call() -> None:
        through.append(await quotas.take("ann", ["tool_execute", TOOL]) is None)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(call)
    assert sum(through) == 2


async def test_scopes_without_a_limit_are_free_and_cost_no_memory() -> None:
    quotas = limiter()
    for n in range(100):
        assert await quotas.take(f"owner {n}", ["tool_browse", "mail:send#00000000"]) is None
    assert not quotas._usage


async def test_counters_are_bounded() -> None:
    quotas = limiter(max_counters=10)
    for n in range(100):
        await quotas.take(f"owner {n}", ["tool_execute"])
    assert len(quotas._usage) == 10


def result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


async def test_what_is_kept_comes_back_equal_and_separate() -> None:
    cache = ToolResultCache()
    given = result("hello")
    await cache.put("k", given, cache.epoch())
    given["content"][0]["text"] = "changed"
    first = await cache.get("k")
    assert first == result("hello")
    first["content"].clear()  # type: ignore[union-attr,index]
    assert await cache.get("k") == result("hello")
    assert await cache.get("other") is None


async def test_an_entry_ages() -> None:
    time = Time()
    cache = ToolResultCache(ttl=10, clock=time)
    await cache.put("k", result("x"), cache.epoch())
    time.now = 9.9
    assert await cache.get("k") is not None
    time.now = 10
    assert await cache.get("k") is None


async def test_the_least_recently_used_goes_first() -> None:
    cache = ToolResultCache(max_entries=2)
    for key in "ab":
        await cache.put(key, result(key), cache.epoch())
    await cache.get("a")
    await cache.put("c", result("c"), cache.epoch())
    assert [await cache.get(key) is not None for key in "abc"] == [True, False, True]


async def test_bytes_are_bounded() -> None:
    cache = ToolResultCache(max_bytes=3 * (RESULT_COST + 150))
    for key in "abcd":
        await cache.put(key, result(key * 100), cache.epoch())
    assert [await cache.get(key) is not None for key in "abcd"] == [False, True, True, True]
    await cache.put("big", result("x" * 10_000), cache.epoch())
    assert await cache.get("big") is None
    assert await cache.get("d") is not None


async def test_the_same_key_twice_is_one_entry() -> None:
    cache = ToolResultCache(max_bytes=2 * (RESULT_COST + 150))
    for _ in range(10):
        await cache.put("a", result("a" * 100), cache.epoch())
    await cache.put("b", result("b" * 100), cache.epoch())
    assert await cache.get("a") is not None


async def test_clearing_also_refuses_what_was_asked_for_before() -> None:
    cache = ToolResultCache()
    epoch = cache.epoch()
    await cache.put("old", result("x"), epoch)
    cache.renew("another")
    await cache.put("late", result("x"), epoch)
    assert await cache.get("old") is None
    assert await cache.get("late") is None
    await cache.put("new", result("x"), cache.epoch())
    assert await cache.get("new") is not None


@pytest.mark.parametrize("odd", [{"a": {1, 2}}, {"a": float("nan")}, {"a": b"x"}])
async def test_what_is_no_json_is_not_kept(odd: Any) -> None:
    cache = ToolResultCache()
    await cache.put("k", odd, cache.epoch())
    assert await cache.get("k") is None


@pytest.mark.parametrize("bad", [{"ttl": 0}, {"max_entries": -1}, {"max_bytes": "1M"}, {"ttl": True}])
def test_bounds_that_mean_nothing_are_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match="cache"):
        ToolResultCache(**bad)


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("auto", MemoryState),
        ("memory", MemoryState),
        ("sqlite:state.db", SqliteState),
        ("redis://127.0.0.1:6379/0", RedisState),
        ("rediss://ann:x@db/1", RedisState),
        ("valkey://db", RedisState),
        ("valkeys://db", RedisState),
        ("unix:///run/redis.sock?db=1", RedisState),
    ],
)
def test_the_words_that_choose(where: str, kind: type) -> None:
    assert type(make_state(where)) is kind


def test_over_stdio_artifacts_are_in_a_file_of_the_user_unless_the_operator_says_otherwise() -> None:
    assert type(make_state("auto", over_stdio=True)) is UserState
    assert type(make_state("memory", over_stdio=True)) is MemoryState


@pytest.mark.parametrize(
    "where",
    ["", "Memory", "memory:", "sqlite", "sqlite:", "state.db", "redis", "redis:db", "redis:/db", "http://hush@db",
     "postgres://ann:hush@db", " memory", "redis://hush@db:port", "REDIS://db"],
)  # fmt: skip
def test_other_words_are_the_operators_fault(where: str) -> None:
    with pytest.raises(ConfigError, match=r"^state: ") as raised:
        make_state(where)
    assert "hush" not in str(raised.value)


async def fill_every_port(state: State) -> None:
    await state.open()
    handle = await state.artifacts(lambda owner: None).put("me", Artifact(b"data", "", ""))
    assert handle is not None
    results = state.results(CacheBounds())
    await results.put("k", {"a": 1}, results.epoch())
    assert await results.get("k") == {"a": 1}
    assert await state.quotas(RateLimits(), "").take("me", ["tool_execute"]) is None
    await state.browse_states().save("me", {"a": None})
    counts = state.shared_counts()
    assert (counts is None) == isinstance(state, MemoryState)
    if counts is not None:
        await counts.add({("a",): 1}, "now")
        assert await counts.sums() == ({("a",): 1}, "now")
    await state.close()


async def test_memory_fills_every_port() -> None:
    await fill_every_port(MemoryState())


async def test_a_file_fills_every_port(tmp_path: Path) -> None:
    await fill_every_port(SqliteState(tmp_path / "state.db"))


async def test_a_server_fills_every_port(redis: RedisServer) -> None:
    await fill_every_port(RedisState(redis.url))


OTHER_PROCESS = """
import sys
import anyio
from leafgate.admission.policy import Limit, RateLimits
from leafgate.compose.plan import make_state

async def main(where, handle):
    state = make_state(where)
    quotas = state.quotas(RateLimits({"tool_execute": Limit(max_calls_per_session=70)}), "")
    through = sum([await quotas.take("ann", ["tool_execute"]) is None for _ in range(50)])
    artifact = await state.artifacts(lambda owner: None).get("me", handle)
    print(through, artifact.content.decode())
    await state.close()

anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_processes_share_handles_and_limits_hold_exactly_over_them(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = f"sqlite:{tmp_path / 'state.db'}" if kind == "sqlite" else request.getfixturevalue("redis").url
    words = [PYTHON, "-c", OTHER_PROCESS, where, anyio.run(put_somewhere, where)]
    children = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [child.communicate(timeout=60)[0].split() for child in children]
    assert sum(int(through) for through, _ in told) == 70
    assert [content for _, content in told] == ["kept", "kept"]


async def put_somewhere(where: str) -> str:
    state = make_state(where)
    handle = await state.artifacts(lambda owner: None).put("me", Artifact(b"kept", "", ""))
    await state.close()
    return str(handle)
