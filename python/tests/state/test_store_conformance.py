"""One set of cases for every filling of the stores' ports: memory, an SQLite file, a real Redis server."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from stores import InMemory, Stores, Time, redis_stores, sqlite_stores

from leafgate.admission.policy import WINDOW, Limit, RateLimits
from leafgate.model.envelope import HANDLE_CHARS, Artifact, Origin
from leafgate.model.tool import ChoiceCard
from leafgate.ports import FlowRecord, TaskRecord
from leafgate.state.records import ENTRY_COST, RESULT_COST

pytestmark = pytest.mark.anyio

KB = 10 * ENTRY_COST
TOOL = "disk:read#00000000"
LIMITS = RateLimits(
    {"tool_execute": Limit(max_calls_per_minute=3), "tool_view": Limit(max_calls_per_session=2)},
    {"disk:*": Limit(max_calls_per_minute=2), "off:*": Limit(max_calls_per_minute=0)},
)


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    if request.param == "memory":
        yield InMemory()
    elif request.param == "sqlite":
        async with sqlite_stores(tmp_path / "state.db") as made:
            yield made
    else:
        async with redis_stores(request.getfixturevalue("redis")) as shared:
            yield shared


def artifact(size: int, mark: bytes = b"x") -> Artifact:
    return Artifact(mark * size, "text/plain", "")


# Artifacts


@pytest.mark.parametrize(
    "kept",
    [
        Artifact(b"\x89PNG", "image/png", "shot", Origin("web", "screenshot"), is_text=False),
        Artifact("ä\ud7ff\U0001f600 und\x00".encode() * 5_000, "text/plain", "lange", Origin("", "")),
        Artifact(secrets.token_bytes(300_000), "application/octet-stream", "", None, is_text=False),
        Artifact(b"", "", ""),
        Artifact(b"never cleaned", "text/plain", "", is_clean=False),
    ],
    ids=["bytes", "text", "noise", "nothing", "not clean"],
)
async def test_only_the_owner_gets_it_back(stores: Stores, kept: Artifact) -> None:
    store = stores.artifacts()
    handle = await store.put("me", kept)
    assert handle is not None
    assert await store.get("me", handle) == kept
    for owner, wrong in (
        ("you", handle),
        ("me", handle + "0"),
        ("me", ""),
        ("", handle),
        ("me", "\ud800:*"),
        ("*", handle),
    ):
        assert await store.get(owner, wrong) is None


@pytest.mark.parametrize("owner", ["", "\ud800", "principal:\x00", "x" * 10_000])
async def test_an_owner_may_be_called_anything(stores: Stores, owner: str) -> None:
    store, states = stores.artifacts(), stores.browse()
    handle = str(await store.put(owner, artifact(1)))
    assert await store.get(owner, handle) == artifact(1)
    assert await stores.quotas(LIMITS, Time()).take(owner, ["tool_execute"]) is None
    await states.save(owner, {"a": None})
    assert await states.load(owner) == {"a": None}


async def test_handles_are_long_and_random(stores: Stores) -> None:
    store = stores.artifacts()
    handles = {await store.put("me", artifact(1, secrets.token_bytes(8))) for _ in range(50)}
    assert len(handles) == 50
    assert all(handle is not None and len(handle) == HANDLE_CHARS for handle in handles)


async def test_content_is_held_once_and_handles_are_not_shared(stores: Stores) -> None:
    store = stores.artifacts()
    handles = [await store.put(f"owner {n}", artifact(20 * KB)) for n in range(10)]
    assert len(set(handles)) == 10
    assert await stores.used(store) == 20 * KB + 10 * ENTRY_COST


async def test_the_same_owner_gets_the_same_handle_for_the_same_artifact(stores: Stores) -> None:
    store = stores.artifacts()
    one, again, other = Origin("a", "x"), Origin("a", "x"), Origin("b", "x")
    handles = [await store.put("me", Artifact(b"data", "text/plain", "", origin)) for origin in (one, again, other)]
    assert handles[0] == handles[1] != handles[2]


async def test_a_full_store_drops_what_was_least_recently_used(stores: Stores) -> None:
    store = stores.artifacts(capacity=5 * KB)
    first = str(await store.put("a", artifact(2 * KB, b"1")))
    second = str(await store.put("b", artifact(2 * KB, b"2")))
    assert await store.get("a", first) is not None
    third = str(await store.put("c", artifact(2 * KB, b"3")))
    assert await store.get("b", second) is None
    assert await store.get("a", first) is not None
    assert await store.get("c", third) is not None
    assert await stores.used(store) == 4 * KB + 2 * ENTRY_COST


async def test_an_owner_pays_its_quota_alone(stores: Stores) -> None:
    quotas = {"rich": 100 * KB}
    store = stores.artifacts(quota=5 * KB, quota_of=quotas.get)
    theirs = str(await store.put("other", artifact(2 * KB, b"o")))
    mine = [str(await store.put("me", artifact(2 * KB, b"%d" % n))) for n in range(4)]
    rich = [str(await store.put("rich", artifact(2 * KB, b"%d" % n))) for n in range(4)]
    assert [await store.get("me", handle) is not None for handle in mine] == [False, False, True, True]
    assert all([await store.get("rich", handle) is not None for handle in rich])
    assert await store.get("other", theirs) is not None


async def test_one_artifact_may_be_larger_than_its_owners_quota(stores: Stores) -> None:
    store = stores.artifacts(quota=KB)
    small = str(await store.put("me", artifact(100)))
    large = str(await store.put("me", artifact(3 * KB)))
    assert await store.get("me", small) is None
    assert await store.get("me", large) is not None


async def test_what_is_larger_than_the_store_is_not_kept(stores: Stores) -> None:
    store = stores.artifacts(capacity=5 * KB)
    kept = str(await store.put("me", artifact(KB)))
    assert await store.put("me", artifact(6 * KB)) is None
    assert await store.get("me", kept) is not None


async def test_artifacts_end(stores: Stores) -> None:
    store = stores.artifacts(ttl=0.05)
    handle = str(await store.put("me", artifact(100)))
    await anyio.sleep(0.1)
    assert await store.get("me", handle) is None
    assert await stores.used(store) == 0
    assert await store.put("me", artifact(100)) != handle


async def test_a_put_again_lives_on(stores: Stores) -> None:
    store, later = stores.artifacts(ttl=1), stores.artifacts(ttl=3600)
    if isinstance(stores, InMemory):
        return  # one store has one time there
    handle = str(await store.put("me", artifact(100)))
    assert await later.put("me", artifact(100)) == handle
    await anyio.sleep(1.05)
    assert await later.get("me", handle) is not None


async def test_many_at_once_lose_nothing(stores: Stores) -> None:
    store = stores.artifacts()
    found: dict[int, bytes] = {}

    async def one(n: int) -> None:
        owner = f"owner {n % 5}"
        handle = await store.put(owner, Artifact(b"%d " % (n // 2) * 600, "text/plain", ""))
        back = await store.get(owner, str(handle))
        assert back is not None
        found[n] = back.content

    async with anyio.create_task_group() as group:
        for n in range(100):
            group.start_soon(one, n)
    assert found == {n: b"%d " % (n // 2) * 600 for n in range(100)}


# Results


def result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"n": 1.5, "ä": [None, True]}}


async def test_an_equal_result_and_nobody_elses_changes(stores: Stores) -> None:
    cache = stores.cache()
    cache.renew("catalog")
    given = result("x" * 5_000)
    await cache.put("k", given, cache.epoch())
    given["content"].clear()
    assert await cache.get("k") == result("x" * 5_000)
    assert await cache.get("other") is None


async def test_results_end(stores: Stores) -> None:
    cache = stores.cache(ttl=0.05)
    await cache.put("k", result("x"), cache.epoch())
    await anyio.sleep(0.1)
    assert await cache.get("k") is None


async def test_results_are_bounded_in_number(stores: Stores) -> None:
    cache = stores.cache(max_entries=2)
    for key in ("a", "b"):
        await cache.put(key, result(key), cache.epoch())
    assert await cache.get("a") is not None
    await cache.put("c", result("c"), cache.epoch())
    assert [await cache.get(key) is not None for key in ("a", "b", "c")] == [True, False, True]


async def test_results_are_bounded_in_bytes(stores: Stores) -> None:
    cache = stores.cache(max_bytes=3 * (RESULT_COST + 250))
    for key in ("a", "b", "c", "a", "d"):
        await cache.put(key, result(key * 100), cache.epoch())
    await cache.put("big", result("x" * 10_000), cache.epoch())
    assert [await cache.get(key) is not None for key in ("a", "b", "c", "d", "big")] == [True, False, True, True, False]


@pytest.mark.parametrize("odd", [{"a": float("nan")}, {"a": {1, 2}}, {"a": b"bytes"}])
async def test_what_is_no_json_is_not_kept(stores: Stores, odd: dict[str, Any]) -> None:
    cache = stores.cache()
    await cache.put("k", odd, cache.epoch())
    assert await cache.get("k") is None


async def test_another_catalog_finds_nothing_of_the_one_before(stores: Stores) -> None:
    cache = stores.cache()
    cache.renew("one")
    before = cache.epoch()
    await cache.put("k", result("x"), before)
    cache.renew("two")
    await cache.put("late", result("x"), before)
    assert await cache.get("k") is None
    assert await cache.get("late") is None
    await cache.put("k", result("y"), cache.epoch())
    assert await cache.get("k") == result("y")


# Quotas


async def test_the_minute_slides(stores: Stores) -> None:
    time = Time()
    quotas = stores.quotas(LIMITS, time)
    for _ in range(3):
        assert await quotas.take("ann", ["tool_execute"]) is None
        time.now += 10
    found = await quotas.take("ann", ["tool_execute"])
    assert found is not None
    assert (found.scope, found.limit, found.retry_after) == ("tool_execute", "max_calls_per_minute", WINDOW - 30)
    assert await quotas.take("ben", ["tool_execute"]) is None
    time.now += WINDOW - 30
    assert await quotas.take("ann", ["tool_execute"]) is None
    assert await quotas.take("ann", ["tool_execute"]) is not None


async def test_all_scopes_count_or_none(stores: Stores) -> None:
    quotas = stores.quotas(LIMITS, Time())
    assert [await quotas.take("ann", ["tool_execute", TOOL]) is None for _ in range(3)] == [True, True, False]
    found = await quotas.take("ann", ["tool_execute", TOOL])
    assert found is not None
    assert found.scope == TOOL
    assert await quotas.take("ann", ["tool_execute"]) is None
    assert await quotas.take("ann", ["tool_execute"]) is not None


async def test_a_sessions_sum_never_comes_free(stores: Stores) -> None:
    time = Time()
    quotas = stores.quotas(LIMITS, time)
    assert [await quotas.take("ann", ["tool_view"]) is None for _ in range(3)] == [True, True, False]
    time.now += 10 * WINDOW
    found = await quotas.take("ann", ["tool_view"])
    assert found is not None
    assert (found.limit, found.retry_after) == ("max_calls_per_session", None)


async def test_a_limit_of_zero_lets_nothing_through(stores: Stores) -> None:
    found = await stores.quotas(LIMITS, Time()).take("ann", ["off:it#00000000"])
    assert found is not None
    assert (found.limit, found.retry_after) == ("max_calls_per_minute", None)


async def test_peeking_counts_nothing_and_what_has_no_limit_is_free(stores: Stores) -> None:
    quotas = stores.quotas(LIMITS, Time())
    for _ in range(9):
        assert await quotas.peek("ann", ["tool_execute", TOOL]) is None
        assert await quotas.take("ann", ["tool_browse", "mail:send#00000000"]) is None
    assert await quotas.take("ann", ["tool_execute", TOOL]) is None


async def test_limits_hold_exactly_among_many_at_once(stores: Stores) -> None:
    quotas = stores.quotas(RateLimits({"tool_execute": Limit(max_calls_per_minute=17)}), Time())
    through: list[int] = []

    async def one(n: int) -> None:
        if await quotas.take("ann", ["tool_execute"]) is None:
            through.append(n)

    async with anyio.create_task_group() as group:
        for n in range(60):
            group.start_soon(one, n)
    assert len(through) == 17


# Browse states


def card(name: str) -> ChoiceCard:
    return ChoiceCard(f"{name}:a#00000000", name, "dä", ("x", "y"), "tool", "disk", True, 0.5, 1.0, True, "read_only")


async def test_what_was_seen_is_known_to_its_owner(stores: Stores) -> None:
    states = stores.browse()
    states.renew("catalog")
    assert await states.load("ann") == {}
    seen = {"b": card("b"), "a": None, **{str(n): card(str(n)) for n in range(200)}}
    await states.save("ann", seen)
    assert await states.load("ann") == seen
    assert [*await states.load("ann")] == [*seen]
    assert await states.load("ben") == {}


async def test_under_another_catalog_nothing_was_seen(stores: Stores) -> None:
    states = stores.browse()
    states.renew("one")
    await states.save("ann", {"a": card("a")})
    states.renew("two")
    assert await states.load("ann") == {}


# Tasks


async def test_a_task_is_found_by_its_owner_only(stores: Stores) -> None:
    store, task = stores.tasks(), TaskRecord("srv", "4f", "task-1 \u00e4 ' %", "read", is_native=True)
    id = await store.put("me", task, 60)
    assert await store.put("me", task, 60) != id
    assert await store.get("me", id) == task
    assert await stores.tasks().get("me", id) == (None if isinstance(stores, InMemory) else task)
    for owner, other in (("you", id), ("me", "0" * 32), ("me", id.upper()), ("me", ""), ("me", f"{id}*"), ("", id)):
        assert await store.get(owner, other) is None


async def test_a_task_has_its_time(stores: Stores) -> None:
    store = stores.tasks()
    short, long = [await store.put("me", TaskRecord("srv", "", "t", "read"), seconds) for seconds in (1, 60)]
    await anyio.sleep(1.2)
    assert await store.get("me", short) is None
    assert await store.get("me", long) is not None


# Flow records


async def test_flow_records_are_listed_and_loaded_by_their_owner(stores: Stores) -> None:
    flows = stores.flows()
    first, second = FlowRecord("a1", "text", "mail: 1\n", b"\x00\xff\n"), FlowRecord("b2", "secret", "ß", b"2")
    for record in (first, second, first):
        await flows.add("ann", record)
    assert {(each.id, each.kind, each.server, each.data) for each in await flows.list("ann")} == {
        ("a1", "text", "mail: 1\n", b""),
        ("b2", "secret", "ß", b""),
    }
    assert await flows.load("ann", ["a1", "zz", "b2"]) == {"a1": first.data, "b2": second.data}
    assert [*await flows.list("bob")] == []
    assert await flows.load("bob", ["a1"]) == {}


async def test_the_oldest_flow_records_of_a_kind_and_server_make_room(stores: Stores) -> None:
    flows = stores.flows(max_bytes=100, max_records=3)
    await flows.add("ann", FlowRecord("other", "text", "files", b"x" * 90))
    for name in "abcde":
        await flows.add("ann", FlowRecord(name, "text", "mail", b"x" * 10))
    assert {each.id for each in await flows.list("ann")} == {"other", "c", "d", "e"}
    await flows.add("ann", FlowRecord("large", "text", "mail", b"x" * 200))
    assert {each.id for each in await flows.list("ann")} == {"other", "large"}


async def test_flow_records_end_by_themselves(stores: Stores) -> None:
    flows = stores.flows(ttl=0.05)
    await flows.add("ann", FlowRecord("a", "text", "mail", b"x"))
    for _ in range(500):
        if not await flows.load("ann", ["a"]):
            break
        await anyio.sleep(0.02)
    assert await flows.load("ann", ["a"]) == {}


async def test_gateways_with_one_store_have_one_key_for_fingerprints(stores: Stores) -> None:
    flows = stores.flows()
    key = await flows.key()
    assert len(key) == 32
    assert await flows.key() == key
    if not isinstance(stores, InMemory):
        assert await stores.flows().key() == key
