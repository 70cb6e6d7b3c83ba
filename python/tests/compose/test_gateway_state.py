"""Whole gateways on one store: what they share, what a store that fails costs, and that a broken one ends the start."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from binary_endpoint import served
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from redis_server import RedisServer, redis_server

from leafgate.compose.gateway import Gateway, compose
from leafgate.compose.plan import make_plan
from leafgate.config.load import load_config
from leafgate.model.errors import StoreError
from leafgate.model.request import Request
from leafgate.state.memory import MemoryState
from leafgate.state.sqlite import SqliteState

pytestmark = pytest.mark.anyio

LIMITS = {"tools": {"*:count_notes": {"max_calls_per_minute": 3}}}


@pytest.fixture
async def notes() -> AsyncIterator[dict[str, Any]]:
    """How a server of notes is reached."""
    server = MCPServer("notes")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def count_notes() -> str:
        return "There are 2000 notes."

    @server.tool()
    def export_notes() -> str:
        return "\n".join(f"{n}: a note about the number {n}" for n in range(2_000))

    async with served(server.streamable_http_app()) as url:
        yield {"url": url}


def config_file(folder: Path, server: dict[str, Any], name: str = "leafgate", **keys: Any) -> Path:
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"mcpServers": {"notes": server}, "transport": "http", **keys}))
    return file


class Asked:
    """A gateway that runs, and somebody who asks it."""

    def __init__(self, gateway: Gateway, owner: str = "principal:ann") -> None:
        self.runtime = gateway.runtime
        self._request = Request(owner)

    def id_of(self, name: str) -> str:
        return next(item.id for item in self.runtime.snapshot.catalog if item.upstream_name == name)

    async def call(self, name: str, **args: Any) -> dict[str, Any]:
        asked = {"tool_id": self.id_of(name), "args": args}
        return (await self.runtime.execute(asked, self._request)).as_mcp()

    async def view(self, handle: str) -> dict[str, Any]:
        return (await self.runtime.view({"handle": handle}, self._request)).as_mcp()

    async def browse(self) -> dict[str, Any]:
        return (await self.runtime.browse({"query": "notes"}, self._request)).as_mcp()


@asynccontextmanager
async def running(file: Path) -> AsyncIterator[Gateway]:
    gateway = compose(load_config(file))
    async with gateway.running():
        await gateway.fleet.wait_for_start()
        await gateway.runtime.changes.wait()
        yield gateway


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def handle_in(result: dict[str, Any]) -> str | None:
    found = re.search(r'"handle":"([0-9a-f]{24})"', text_of(result))
    return None if found is None else found.group(1)


def error_of(result: dict[str, Any]) -> str | None:
    return json.loads(text_of(result))["error"] if result["isError"] else None


async def test_what_gateways_share_on_one_store(tmp_path: Path, redis: RedisServer, notes: dict[str, Any]) -> None:
    file = config_file(tmp_path, notes, state=redis.url, rate_limits=LIMITS)
    async with running(file) as first, running(file) as second:
        one, two, ben = Asked(first), Asked(second), Asked(second, "principal:ben")
        handle = str(handle_in(await one.call("export_notes")))
        assert text_of(await two.view(handle)) == text_of(await one.view(handle))
        assert error_of(await ben.view(handle)) == "VIEW_FAILED"
        told = [error_of(await (one, two)[n % 2].call("count_notes")) for n in range(5)]
        assert told == [None, None, None, "RATE_LIMITED", "RATE_LIMITED"]
        assert error_of(await ben.call("count_notes")) is None


async def test_results_are_shared_by_gateways_with_the_same_servers_and_credentials(
    tmp_path: Path, redis: RedisServer, notes: dict[str, Any]
) -> None:
    keys = {"state": redis.url, "cache": {"read_only": True}}
    same = config_file(tmp_path, notes, **keys)
    other = config_file(tmp_path, {**notes, "headers": {"authorization": "Bearer another"}}, "other", **keys)
    async with running(same) as first, running(same) as second, running(other) as third:
        cached = [is_cached(await Asked(gateway).call("count_notes")) for gateway in (first, second, third)]
    assert cached == [False, True, False]


def is_cached(result: dict[str, Any]) -> bool:
    return bool(result["_meta"]["leafgate/envelope"]["provenance"].get("cache_hit"))


async def test_a_store_that_fails_costs_what_needs_it_and_comes_back(tmp_path: Path, notes: dict[str, Any]) -> None:
    with redis_server(tmp_path) as redis:
        keys = {"rate_limits": LIMITS, "cache": {"read_only": True}, "cache_stable": True}
        async with running(config_file(tmp_path, notes, state=redis.url, **keys)) as gateway:
            ann = Asked(gateway)
            handle = str(handle_in(await ann.call("export_notes")))
            with redis.paused():
                await check_without_store(ann, handle)
            await check_with_store(ann)
            redis.stop()
            await check_without_store(ann, handle)
            redis.start()
            await check_with_store(ann)


async def check_without_store(ann: Asked, handle: str) -> None:
    assert error_of(await ann.view(handle)) == "STORE_UNAVAILABLE"
    assert error_of(await ann.call("count_notes")) == "STORE_UNAVAILABLE"  # it has a limit, which cannot be checked
    assert error_of(await ann.browse()) is None
    exported = await ann.call("export_notes")
    assert error_of(exported) is None
    assert "not kept: the gateway's store fails" in text_of(exported)
    assert handle_in(exported) is None


async def check_with_store(ann: Asked) -> None:
    """The first requests after a failure may still be told of it."""
    handle = None
    for _ in range(1000):
        handle = handle or handle_in(await ann.call("export_notes"))
        if handle is not None and error_of(await ann.view(handle)) is None:
            break
    assert error_of(await ann.view(str(handle))) is None
    assert error_of(await ann.call("count_notes")) is None


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("sqlite:.", "directory"),
        ("sqlite:noise.db", "not an SQLite database"),
        ("redis://ann:hush@127.0.0.1:1/0", "redis://127.0.0.1:1/0: not reachable"),
        ("unix://ann:hush@/no/such.sock", "unix:///no/such.sock: not reachable"),
    ],
)
async def test_a_broken_store_ends_the_start_before_a_server_is_started(tmp_path: Path, state: str, told: str) -> None:
    noise(tmp_path / "noise.db")
    marker = {"command": "touch", "args": [str(tmp_path / "started")]}
    gateway = compose(load_config(config_file(tmp_path, marker, state=state)))
    with pytest.raises(StoreError, match=re.escape(told)) as raised:
        async with gateway.running():
            pytest.fail("it runs")
    assert "hush" not in str(raised.value)
    assert "started" not in names_in(tmp_path)


def names_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def noise(file: Path) -> None:
    file.write_bytes(b"no database at all, but long enough to be looked at " * 100)


@pytest.mark.parametrize(("transport", "kind"), [("http", SqliteState), ("stdio", MemoryState)])
def test_on_stdio_what_belongs_to_the_session_ends_with_it(tmp_path: Path, transport: str, kind: type) -> None:
    server = {"command": "true"}
    plan = make_plan(load_config(config_file(tmp_path, server, state="sqlite:state.db", transport=transport)))
    assert type(plan.state) is SqliteState
    assert type(plan.session_state) is kind
