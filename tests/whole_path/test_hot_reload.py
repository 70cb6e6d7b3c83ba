"""The file changes while five hundred calls are under way: no call is lost, and none gets another's answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from gateways import ROOT, HttpGateway, gateway_on_http, text_of
from mcp import Client

pytestmark = pytest.mark.anyio

ECHO = ROOT / "python" / "tests" / "servers" / "moody.py"
CALLS, CLIENTS, CHANGES, PATIENCE = 500, 10, 10, 60


def write(path: Path, folder: Path, colour: str, **more: Any) -> None:
    servers = {
        name: {"command": sys.executable, "args": [str(ECHO)], "env": {"FOLDER": str(folder), "COLOUR": colour}}
        for name in ("echo", *more.pop("others", ()))
    }
    path.write_text(json.dumps({"mcpServers": servers, **more}))


def status(gateway: HttpGateway) -> dict[str, Any]:
    found: dict[str, Any] = httpx2.get(f"{gateway.url}/status").raise_for_status().json()
    return found


async def until(condition: Any) -> None:
    with anyio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110  the gateway is another process
            await anyio.sleep(0.1)


async def test_no_call_is_lost_while_the_file_changes_ten_times(tmp_path: Path) -> None:
    path = tmp_path / "leafgate.yaml"
    write(path, tmp_path, "0")
    answers: dict[int, str] = {}

    with gateway_on_http("--config", str(path)) as gateway:

        async def ask(first: int) -> None:
            async with Client(f"{gateway.url}/mcp", mode="legacy" if first % 2 else "auto") as client:
                page = text_of(await client.call_tool("tool_browse", {"query": "echo"}))
                tool_id = next(line.split(" ")[0] for line in page.splitlines() if line.startswith("echo:echo#"))
                for number in range(first, CALLS, CLIENTS):
                    call = {"tool_id": tool_id, "args": {"text": f"call {number}"}}
                    answers[number] = text_of(await client.call_tool("tool_execute", call))
                    await anyio.sleep(0.15)

        async def change() -> None:
            for number in range(1, CHANGES + 1):
                await anyio.sleep(0.8)
                if number == 5:
                    path.write_text("mcpServers: {echo: {comand: oops}}")
                else:
                    others = ("more",) if number % 2 else ()
                    write(path, tmp_path, str(number), others=others, budget=500 + number)

        async with anyio.create_task_group() as group:
            group.start_soon(change)
            for first in range(CLIENTS):
                group.start_soon(ask, first)

        assert answers == {number: f"call {number}" for number in range(CALLS)}
        await until(lambda: [upstream["name"] for upstream in status(gateway)["upstreams"]] == ["echo"])


async def test_a_new_server_is_there_without_a_restart_and_clients_are_told(tmp_path: Path) -> None:
    path = tmp_path / "leafgate.yaml"
    write(path, tmp_path, "0")
    with gateway_on_http("--config", str(path)) as gateway:
        heard = anyio.Event()

        async def listen(message: Any) -> None:
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                heard.set()

        async with Client(f"{gateway.url}/mcp", mode="legacy", message_handler=listen) as client:
            await client.list_tools()
            write(path, tmp_path, "0", others=("fresh",))
            with anyio.fail_after(PATIENCE):
                await heard.wait()
            await until(lambda: status(gateway)["tools"] == 10)
            page = text_of(await client.call_tool("tool_browse", {"path": "/"}))
            assert "fresh" in page
            described = {tool.name: tool.description for tool in (await client.list_tools()).tools}
            assert "fresh" in (described["tool_browse"] or "")
