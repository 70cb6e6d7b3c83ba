"""The words that choose a store; and that each choice fills every port."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from redis_server import RedisServer

from leafgate.admission.quota import RateLimits
from leafgate.cli.state import make_state
from leafgate.model.envelope import Artifact
from leafgate.model.errors import ConfigError
from leafgate.storage.memory_state import MemoryState
from leafgate.storage.redis_state import RedisState
from leafgate.storage.result_cache import CacheBounds
from leafgate.storage.sqlite_state import SqliteState
from leafgate.storage.state import State

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("where", "kind"),
    [
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
    await state.browse_states().keep("me", {"a": None})
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
from leafgate.admission.quota import Limit, RateLimits
from leafgate.cli.state import make_state

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
    words = [sys.executable, "-c", OTHER_PROCESS, where, anyio.run(put_somewhere, where)]
    children = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [child.communicate(timeout=60)[0].split() for child in children]
    assert sum(int(through) for through, _ in told) == 70
    assert [content for _, content in told] == ["kept", "kept"]


async def put_somewhere(where: str) -> str:
    state = make_state(where)
    handle = await state.artifacts(lambda owner: None).put("me", Artifact(b"kept", "", ""))
    await state.close()
    return str(handle)
