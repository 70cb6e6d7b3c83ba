"""One call, all the way: a real client, the real gateway, the real Node and Python servers. Nothing is a mock."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from gateways import gateway_on_http, gateway_on_stdio, text_of
from mcp import Client
from mcp.types import Request, RequestParams
from pydantic import TypeAdapter
from warm_python import PYTHON

from leafgate.maps.files import MapFiles
from leafgate.model.envelope import ACCEPT_FULL
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.tokens.verify import check

pytestmark = pytest.mark.anyio

QWEN = MapFiles().load("qwen/qwen2")
CL100K = MapFiles().load("openai/cl100k_base")
TOOL_ID = re.compile(r"^[a-z][a-z0-9_-]*:[A-Za-z_][A-Za-z0-9_.-]*#[0-9a-f]{8}$")


@asynccontextmanager
async def connected(transport: str) -> AsyncIterator[Client]:
    if transport == "stdio":
        async with gateway_on_stdio() as client:
            yield client
        return
    mode = "legacy" if transport == "http, with sessions" else "auto"
    with gateway_on_http() as gateway:
        async with Client(f"{gateway.url}/mcp", mode=mode) as client:
            yield client


async def status_of(client: Client) -> dict[str, Any]:
    request = Request[RequestParams, str](method="leafgate/status", params=RequestParams())
    return await client.session.send_request(request, TypeAdapter(dict[str, Any]))


async def tool_id(client: Client, query: str, name: str) -> str:
    page = text_of(await client.call_tool("tool_browse", {"query": query}))
    ids = [line.split(" ")[0] for line in page.splitlines()]
    return next(id for id in ids if f":{name}#" in id)


def ids_of(block: Any) -> list[int]:
    payload = block.meta[CODEC_META_KEY]
    assert payload["map_id"] == QWEN.map.digest
    return payload["ids"]


@pytest.mark.parametrize("transport", ["stdio", "http", "http, with sessions"])
async def test_the_six_steps(transport: str) -> None:
    async with connected(transport) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert listed == ["tool_browse", "tool_hydrate", "tool_execute", "tool_view"]

        page = text_of(await client.call_tool("tool_browse", {"query": "what is the current time"}))
        assert all(TOOL_ID.match(line.split(" ")[0]) for line in page.splitlines() if line.startswith("time:"))
        clock = await tool_id(client, "what is the current time", "get_current_time")

        leafed = await client.call_tool("tool_execute", {"tool_id": clock, "args": {}})
        block = leafed.content[0]
        assert re.search(r"\d\d:\d\d", block.text)
        assert check(QWEN, block.text, ids_of(block), level="canonical").accepted
        codec = (await status_of(client))["codec"]
        assert (codec["leafBypasses"], codec["tokenizeCalls"]) == (1, 0)

        search = await tool_id(client, "search notes for a word", "search_notes")
        shimmed = await client.call_tool("tool_execute", {"tool_id": search, "args": {"query": "rye"}})
        assert "rye loaf" in text_of(shimmed)
        assert ids_of(shimmed.content[0]) == QWEN.encode(text_of(shimmed))
        codec = (await status_of(client))["codec"]
        assert (codec["leafBypasses"], codec["tokenizeCalls"]) == (1, 1)

        export = await tool_id(client, "export all notes", "export_notes")
        large = await client.call_tool("tool_execute", {"tool_id": export}, meta=ACCEPT_FULL)
        assert len(CL100K.encode(text_of(large))) < 800
        (kept,) = large.meta["leafgate/envelope"]["artifacts"]
        assert kept["lines"] == 2000
        assert kept["handle"] in text_of(large)
        selector = {"type": "lines", "start": 1500, "end": 1502}
        view = text_of(await client.call_tool("tool_view", {"handle": kept["handle"], "selector": selector}))
        assert [line.split("\t")[0] for line in view.splitlines()[:3]] == ["1500", "1501", "1502"]

        refused = await client.call_tool("tool_execute", {"tool_id": search, "args": {"query": 5, "limit": "x"}})
        assert refused.is_error
        body = json.loads(text_of(refused))
        assert body["error"] == "ARGS_INVALID"
        assert [violation["pointer"] for violation in body["details"]["violations"]] == ["/limit", "/query"]


async def test_wrong_arguments_never_reach_the_server_and_a_lie_is_caught(lying_config: Path) -> None:
    calls = lying_config.parent / "calls.log"
    async with gateway_on_stdio("--config", str(lying_config), "--map", "qwen/qwen2") as client:
        clock = await tool_id(client, "current time", "get_current_time")
        refused = await client.call_tool("tool_execute", {"tool_id": clock, "args": {"zone": "UTC"}})
        assert json.loads(text_of(refused))["error"] == "ARGS_INVALID"
        assert not calls.exists()

        answered = await client.call_tool("tool_execute", {"tool_id": clock, "args": {"timezone": "UTC"}})
        assert calls.read_text().splitlines() == ["get_current_time"]
        assert ids_of(answered.content[0]) == [2132, 374, 5023, 220, 16, 19, 25, 18, 15, 27403, 13]
        codec = (await status_of(client))["codec"]
        assert codec["rejectedLeaves"] == {"text-mismatch": 1}
        assert (codec["leafBypasses"], codec["tokenizeCalls"]) == (0, 1)


async def test_a_client_chooses_its_own_map_and_form() -> None:
    async with gateway_on_stdio() as client:
        clock = await tool_id(client, "current time", "get_current_time")
        args = {"tool_id": clock, "args": {}}

        async def ask(**accept: Any) -> Any:
            return await client.call_tool("tool_execute", args, meta={"ai.codec/accept": accept})

        other = (await ask(map_id=CL100K.map.digest)).content[0]
        assert other.meta[CODEC_META_KEY] == {"map_id": CL100K.map.digest, "ids": CL100K.encode(other.text)}
        plain = (await ask(form="text")).content[0]
        assert plain.meta is None or CODEC_META_KEY not in plain.meta
        only_ids = (await ask(map_id=QWEN.map.digest, form="ids")).content[0]
        assert only_ids.text == ""
        assert QWEN.decode_bytes(ids_of(only_ids)).decode().startswith("It is currently")
        unknown = await ask(map_id="sha256:" + "0" * 64)
        assert unknown.is_error
        assert json.loads(text_of(unknown))["error"] == "ARGS_INVALID"


async def export_notes(client: Client) -> dict[str, Any]:
    """The arguments that view the first line of a result that is withheld."""
    export = await tool_id(client, "export all notes", "export_notes")
    large = await client.call_tool("tool_execute", {"tool_id": export})
    handle = large.meta["leafgate/envelope"]["artifacts"][0]["handle"]
    return {"handle": handle, "selector": {"type": "head", "lines": 1}}


async def test_on_loopback_a_handle_works_in_every_session_unless_the_operator_says_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "leafgate.json"
    notes = {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]}
    file.write_text(json.dumps({"owner": "session", "mcpServers": {"notes": notes}}))
    for options, is_shared in (((), True), (("--config", str(file)), False)):
        with gateway_on_http(*options) as gateway:
            async with Client(f"{gateway.url}/mcp", mode="legacy") as mine:
                view = await export_notes(mine)
                assert text_of(await mine.call_tool("tool_view", view)).startswith("1\t")
                for mode in ("legacy", "auto"):
                    async with Client(f"{gateway.url}/mcp", mode=mode) as other:
                        seen = text_of(await other.call_tool("tool_view", view))
                        assert seen.startswith("1\t") if is_shared else json.loads(seen)["error"] == "VIEW_FAILED"


async def test_over_stdio_a_later_process_reads_what_an_earlier_one_withheld(tmp_path: Path) -> None:
    async with gateway_on_stdio(env={"XDG_STATE_HOME": str(tmp_path)}) as client:
        view = await export_notes(client)
    (file,) = (tmp_path / "leafgate").glob("*.sqlite")
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    async with gateway_on_stdio(env={"XDG_STATE_HOME": str(tmp_path)}) as client:
        assert text_of(await client.call_tool("tool_view", view)).startswith("1\t")
        assert (await status_of(client))["codec"]["tokenizeCalls"] == 0  # counters are those of this process
    (tmp_path / "a file").write_text("")
    async with gateway_on_stdio(env={"XDG_STATE_HOME": str(tmp_path / "a file")}) as client:  # no folder can be made
        view = await export_notes(client)
        assert text_of(await client.call_tool("tool_view", view)).startswith("1\t")


def test_the_operator_sees_what_is_ready_and_counted() -> None:
    with gateway_on_http() as gateway:
        assert re.search(r"time +up, 2 tools", gateway.announced)
        assert re.search(r"notes +up, 4 tools", gateway.announced)
        assert f'"url": "{gateway.url}/mcp"' in gateway.announced
        status = httpx2.get(f"{gateway.url}/status").json()
        assert {upstream["name"]: upstream["state"] for upstream in status["upstreams"]} == {
            "time": "up",
            "notes": "up",
        }
        assert httpx2.get(f"{gateway.url}/status", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("tool_browse", {}),
        ("tool_browse", {"query": "x", "path": "/"}),
        ("tool_browse", {"query": 5}),
        ("tool_browse", {"query": "x", "top_k": "many"}),
        ("tool_hydrate", {"tool_id": ["x"]}),
        ("tool_hydrate", {"tool_id": "time:nothing#00000000"}),
        ("tool_execute", {"tool_id": None, "args": {}}),
        ("tool_execute", {"tool_id": "time:nothing#00000000"}),
        ("tool_view", {"handle": 7, "selector": {"type": "head"}}),
        ("tool_view", {"handle": "nobody", "selector": "everything"}),
        ("no_such_tool", {}),
    ],
)
async def test_bad_requests_are_answered_not_raised(tool: str, args: dict[str, Any], shared_gateway: Client) -> None:
    answered = await shared_gateway.call_tool(tool, args)
    assert answered.is_error
    body = json.loads(text_of(answered))
    assert body["error"] in {"ARGS_INVALID", "HYDRATE_FAILED", "VIEW_FAILED"}
    assert "\n" not in body["message"]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def shared_gateway(anyio_backend: str) -> AsyncIterator[Client]:
    async with gateway_on_stdio() as client:
        yield client
