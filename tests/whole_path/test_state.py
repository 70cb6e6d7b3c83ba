"""State beyond one process, through real gateways: handles after a restart and on another replica, limits over both."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from gateways import LEAFGATE, READY_SECONDS, gateway_on_http, text_of
from guarded_gateway import Guarded, bearer, handed
from handshake_client import HandshakeClient, text_in
from mcp import Client
from redis_server import redis_server
from warm_python import PYTHON

from leafgate.compose.servers import TIME_SERVER

pytestmark = pytest.mark.anyio

SECRET = "hush-hush-4711"
ANN, BEN = handed("ann"), handed("ben")


def config_file(folder: Path, **keys: Any) -> str:
    servers = {
        "notes": {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]},
        "time": {"command": "node", "args": [str(TIME_SERVER)]},
    }
    file = folder / "leafgate.json"
    file.write_text(json.dumps({"mcpServers": servers, "map": "qwen/qwen2", **keys}))
    return str(file)


class Somebody:
    """Somebody who asks the gateway at a URL, with a token or without; each request is a connection of its own."""

    def __init__(self, url: str, secret: str | None = None) -> None:
        self._gateway = Guarded(url, Path(), "")
        self._secret = secret

    async def call(self, name: str) -> Any:
        async with self._gateway.client(self._secret) as client:
            return await client.call_tool("tool_execute", {"tool_id": await tool_id(client, name), "args": {}})

    async def view(self, handle: str) -> Any:
        async with self._gateway.client(self._secret) as client:
            return await client.call_tool("tool_view", {"handle": handle, "selector": {"type": "head", "lines": 3}})


async def tool_id(client: Client, name: str) -> str:
    return id_in(text_of(await client.call_tool("tool_browse", {"query": name, "top_k": 50})), name)


def id_in(page: str, name: str) -> str:
    return next(line.split(" ")[0] for line in page.splitlines() if f":{name}#" in line)


def handle_in(said: str) -> str:
    found = re.search(r'"handle":"([0-9a-f]{24})"', said)
    assert found, said
    return found.group(1)


def leaf_bypasses(url: str) -> int:
    status = httpx2.get(f"{url}/status", headers=bearer(ANN.secret)).json()
    return int(status["codec"]["leafBypasses"])


def error_of(result: Any) -> str:
    assert result.is_error
    return str(json.loads(text_of(result))["error"])


async def test_a_handle_and_the_counters_outlive_a_restart(tmp_path: Path) -> None:
    config = config_file(tmp_path, state="sqlite:kept/state.db")
    with gateway_on_http("--config", config) as first:
        before = Somebody(first.url)
        handle = handle_in(text_of(await before.call("export_notes")))
        await before.call("get_current_time")
        shown = text_of(await before.view(handle))
        assert leaf_bypasses(first.url) == 1
    with gateway_on_http("--config", config) as second:
        after = Somebody(second.url)
        again = await after.view(handle)
        assert not again.is_error
        assert text_of(again) == shown
        assert leaf_bypasses(second.url) == 1
        await after.call("get_current_time")
        assert leaf_bypasses(second.url) == 2


async def test_two_gateways_on_one_redis(tmp_path: Path) -> None:
    limits = {"tools": {"*:get_current_time": {"max_calls_per_minute": 5}}}
    auth = {"required": False, "tokens": [ANN.entry(), BEN.entry()]}
    config = config_file(tmp_path, rate_limits=limits, auth=auth)
    with redis_server(tmp_path) as redis:
        words = ("--config", config, "--state", redis.url)
        with gateway_on_http(*words) as one, gateway_on_http(*words) as two:
            await check_handles_of_principals(one.url, two.url)
            await check_handles_of_nobody(one.url, two.url)
            check_handles_of_sessions(one.url, two.url)
            answers = [await Somebody((one, two)[n % 2].url).call("get_current_time") for n in range(8)]
            assert [answer.is_error for answer in answers] == [False] * 5 + [True] * 3
            assert error_of(answers[-1]) == "RATE_LIMITED"
            wait_until(lambda: leaf_bypasses(one.url) == leaf_bypasses(two.url) == 5)


async def check_handles_of_principals(one: str, two: str) -> None:
    handle = handle_in(text_of(await Somebody(one, ANN.secret).call("export_notes")))
    shown = await Somebody(one, ANN.secret).view(handle)
    assert not shown.is_error
    assert text_of(await Somebody(two, ANN.secret).view(handle)) == text_of(shown)
    for other in (BEN.secret, None):
        assert error_of(await Somebody(two, other).view(handle)) == "VIEW_FAILED"


async def check_handles_of_nobody(one: str, two: str) -> None:
    """Without a session and a name, the handle is all that tells whose it is."""
    handle = handle_in(text_of(await Somebody(one).call("export_notes")))
    shown = await Somebody(one).view(handle)
    assert not shown.is_error
    assert text_of(await Somebody(two).view(handle)) == text_of(shown)
    assert error_of(await Somebody(two, ANN.secret).view(handle)) == "VIEW_FAILED"


def check_handles_of_sessions(one: str, two: str) -> None:
    """A session keeps its handles where another gateway goes on with it; another session has none of them."""
    mine, other = HandshakeClient(), HandshakeClient()
    mine.open(one)
    other.open(two)
    page = text_in(mine.call(one, "tool_browse", {"query": "export_notes", "top_k": 50}))
    said = text_in(mine.call(one, "tool_execute", {"tool_id": id_in(page, "export_notes"), "args": {}}))
    view = {"handle": handle_in(said), "selector": {"type": "head", "lines": 3}}
    assert text_in(mine.call(two, "tool_view", view)) == text_in(mine.call(one, "tool_view", view))
    assert "VIEW_FAILED" in text_in(other.call(two, "tool_view", view))


def wait_until(holds: Callable[[], bool]) -> None:
    """Counters are told now and then."""
    deadline = time.monotonic() + READY_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("sqlite:.", "directory"),
        (f"redis://ann:{SECRET}@127.0.0.1:1/0", "redis://127.0.0.1:1/0: not reachable"),
        (f"http://{SECRET}@x", "state: memory, sqlite:PATH or redis://"),
    ],
)
def test_a_broken_store_ends_the_start(tmp_path: Path, state: str, told: str) -> None:
    words = [PYTHON, str(LEAFGATE), "serve", "--transport", "http", "--port", "0", "--state", state]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=READY_SECONDS, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("leafgate: ")
    assert told in ended.stderr
    assert SECRET not in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
