"""Cache hints of servers: what a hostile one counts as, what is left of one, and when a server is listed again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from warm_python import PYTHON

from leafgate.ports import MAX_TTL_MS, CacheHint, read_cache_hint
from leafgate.upstream import ServerSpec, StdioServer, supervise
from leafgate.upstream.fleet import Fleet

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).parents[3] / "tests" / "servers" / "hinting.py"
PUBLIC_MINUTE = {"ttlMs": 60_000, "cacheScope": "public"}


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"ttlMs": 5_000, "cacheScope": "public"}, CacheHint(5_000, is_public=True)),
        ({"ttlMs": 5_000, "cacheScope": "private"}, CacheHint(5_000)),
        ({"ttlMs": 5_000}, CacheHint(5_000)),
        ({"ttlMs": 1_500.9}, CacheHint(1_500)),
        ({"ttlMs": 10**400}, CacheHint(MAX_TTL_MS)),
        ({"ttlMs": float("inf")}, CacheHint(MAX_TTL_MS)),
        ({"ttlMs": float("nan")}, CacheHint()),
        ({"ttlMs": -1}, CacheHint()),
        ({"ttlMs": True}, CacheHint()),
        ({"ttlMs": "60000"}, CacheHint()),
        ({"ttlMs": [60_000]}, CacheHint()),
        ({"ttlMs": None, "cacheScope": "PUBLIC"}, CacheHint()),
        ({"cacheScope": ["public"]}, CacheHint()),
    ],
)
def test_a_hint_is_read(fields: dict[str, Any], hint: CacheHint) -> None:
    assert read_cache_hint({"resultType": "complete", **fields}) == hint


def test_results_of_the_handshake_era_have_no_ttl() -> None:
    assert read_cache_hint({"ttlMs": 5_000}).ttl_ms == 0


def write(file: Path, *tools: str, **hint: Any) -> None:
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps({"hint": hint, "tools": tools}))
    draft.replace(file)  # the server reads the file at any time


@asynccontextmanager
async def running(*commands: tuple[str, ...]) -> AsyncIterator[Fleet]:
    servers = [StdioServer(PYTHON, (str(SERVER), *command)) for command in commands]
    fleet = Fleet([ServerSpec(f"s{place}", server, timeout=20) for place, server in enumerate(servers)])
    async with fleet.running():
        await fleet.wait_for_start()
        yield fleet


async def until(condition: Any) -> None:
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110  the child is another process; there is no event to wait for
            await anyio.sleep(0.05)


async def test_a_list_of_several_servers_has_the_narrowest_hint(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    write(one, "a", **PUBLIC_MINUTE)
    write(two, "b", ttlMs=30_000, cacheScope="private")
    async with running((str(one),), (str(two),)) as fleet:
        hint = fleet.list_hint("tools")
        assert hint is not None
        assert 0 < hint.ttl_ms < 30_000  # what is left since it was listed
        assert not hint.is_public
        assert fleet.list_hint("prompts") is None
        fleet.members()[0].state = "down"
        assert fleet.list_hint("tools") == CacheHint()


async def test_a_server_is_listed_again_when_its_ttl_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "SHORTEST_TTL", 0.1)
    file, lists = tmp_path / "one.json", tmp_path / "one.lists"
    write(file, "a", ttlMs=1, cacheScope="public")
    async with running((str(file),)) as fleet:
        changes: list[int] = []
        fleet.on_change(lambda: changes.append(len(fleet.members()[0].offers.tools)))
        await until(lambda: lists.read_text().count("listed") >= 4)
        assert changes == []  # nothing changed, and nothing is announced
        write(file, "a", "b", **PUBLIC_MINUTE)
        await until(lambda: changes == [2])
        hint = fleet.list_hint("tools")
        assert hint is not None
        assert hint.ttl_ms > 1_000  # the promise is renewed with the list


@pytest.mark.parametrize(
    ("ttl", "announced", "seconds"),
    [
        (0, False, 60),
        (0, True, None),
        (1_000, False, 5),
        (1_000, True, 60),
        (120_000, False, 120),
        (120_000, True, 120),
    ],
)
async def test_how_soon_a_server_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ttl: int, announced: bool, seconds: float | None
) -> None:
    monkeypatch.setattr(supervise.random, "uniform", lambda low, high: low)
    file = tmp_path / "one.json"
    write(file, "a", ttlMs=ttl, cacheScope="private")
    async with running((str(file), *(["--listen"] if announced else []))) as fleet:
        (member,) = fleet.members()
        if announced:
            await until(lambda: "tools" in member._announced)
        assert member._seconds_to_next_list(0) == seconds
        if seconds is not None:
            assert member._seconds_to_next_list(2) == 4 * seconds  # after failures
            assert member._seconds_to_next_list(10_000) == min(1024 * seconds, supervise.LONGEST_TTL)
