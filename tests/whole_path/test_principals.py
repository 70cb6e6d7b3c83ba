"""Several users at one gateway: log lines, updates, limits and unanswered questions of one do not touch another."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from gateways import SERVERS, gateway_on_http, text_of
from guarded_gateway import bearer, guarded_gateway, handed
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult, PromptReference, ResourceUpdatedNotification

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object"}
PATIENCE = 30
MINE, THEIRS = "x://mine", "x://theirs"


def listing(folder: Path, name: str, era: str, lists: dict[str, Any], **settings: Any) -> dict[str, Any]:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(lists))
    env = {"LISTING_FILE": str(file), "LISTING_ERA": era}
    return {"command": sys.executable, "args": [str(SERVERS / "listing.py")], "env": env, **settings}


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": SCHEMA}


async def until(holds: Any) -> None:
    with anyio.fail_after(PATIENCE):
        while not holds():  # noqa: ASYNC110  the gateway is another process
            await anyio.sleep(0.05)


@asynccontextmanager
async def user(url: str, secret: str, lines: list[str], mode: str) -> AsyncIterator[Client]:
    async def on_log(params: Any) -> None:
        lines.append(params.data)

    async with httpx2.AsyncClient(headers=bearer(secret), timeout=PATIENCE) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=mode, logging_callback=on_log) as client:
            yield client


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_log_lines_reach_only_the_one_user_of_a_server(tmp_path: Path, mode: str) -> None:
    ada, bob = handed("ada"), handed("bob")
    env = {"FAULTY_FOLDER": str(tmp_path)}
    faulty = {"command": sys.executable, "args": [str(SERVERS / "faulty.py")], "env": env}
    auth = {"tokens": [ada.entry(), bob.entry()]}
    with guarded_gateway(tmp_path, auth=auth, mode="passthrough", mcpServers={"faulty": faulty}) as gateway:
        ada_lines: list[str] = []
        bob_lines: list[str] = []
        meta = {"io.modelcontextprotocol/logLevel": "debug"} if mode == "auto" else None
        async with (
            user(gateway.url, ada.secret, ada_lines, mode) as at_ada,
            user(gateway.url, bob.secret, bob_lines, mode) as at_bob,
        ):
            await at_ada.call_tool("say", {"text": "for ada, alone"}, meta=meta)
            await until(lambda: ada_lines)
            async with anyio.create_task_group() as group:
                group.start_soon(at_ada.call_tool, "hang", {"until": "enough"})
                await until(lambda: '"hang"' in (tmp_path / "seen.jsonl").read_text())
                await at_bob.call_tool("say", {"text": "for bob, beside ada"}, meta=meta)
                (tmp_path / "enough").touch()
            # A line that comes late may be about a call of the other one.
            await at_ada.call_tool("say", {"text": "for ada, after bob"}, meta=meta)
            await at_bob.call_tool("echo", {"text": "a line before this answer would be here by now"})
        assert ada_lines == ["for ada, alone"]
        assert bob_lines == []


async def test_users_of_one_gateway_do_not_touch_each_other(tmp_path: Path) -> None:
    """Updates, limits and unanswered questions, all with one gateway."""
    mine = {"resources": [{"uri": MINE, "name": "mine"}], "prompts": [{"name": "hello"}], "tools": [tool("update")]}
    servers = {
        "good": listing(tmp_path, "good", "handshake", mine),
        "evil": listing(tmp_path, "evil", "handshake", {"tools": [tool("update")]}),
        "asker": listing(tmp_path, "asker", "stateless", {"tools": [tool("ask"), tool("other")]}, concurrency=1),
    }
    limits = {"resource_read": {"max_calls_per_minute": 2}, "prompt_get": {"max_calls_per_minute": 1}}
    file = tmp_path / "leafgate.json"
    file.write_text(json.dumps({"mode": "passthrough", "rate_limits": limits, "mcpServers": servers}))
    with gateway_on_http("--config", str(file)) as gateway:
        await check_updates(f"{gateway.url}/mcp")
        await check_questions(f"{gateway.url}/mcp")
        await check_limits(gateway.url)


async def check_updates(url: str) -> None:
    """An update counts only if it comes from the server that the resource belongs to."""
    updates: list[str] = []

    async def on_message(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            updates.append(str(message.params.uri))

    async with Client(url, mode="legacy", message_handler=on_message) as client:
        await client.subscribe_resource(MINE)
        await client.call_tool("evil__update", {"uri": MINE})
        await client.call_tool("good__update", {"uri": THEIRS})
        await anyio.sleep(0.5)  # updates are gathered for a moment before they are sent
        assert updates == []
        await client.call_tool("good__update", {"uri": MINE})
        await until(lambda: updates == [MINE])


async def check_questions(url: str) -> None:
    """A person who does not answer does not keep the only place at a server."""
    is_asked = anyio.Event()

    async def never_answer(context: Any, params: Any) -> ElicitResult:
        is_asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with (
        Client(url, mode="legacy", elicitation_callback=never_answer) as silent,
        Client(url, mode="legacy") as other,
        anyio.create_task_group() as group,
    ):
        group.start_soon(silent.call_tool, "ask", {})
        with anyio.fail_after(PATIENCE):
            await is_asked.wait()
            assert text_of(await other.call_tool("other", {})) == "other did nothing"
        group.cancel_scope.cancel()


async def check_limits(url: str) -> None:
    """Native reads and prompts count, whatever session a stateless caller claims to have."""

    def ask(method: str, number: int, **params: Any) -> dict[str, Any]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "hand", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            "mcp-name": str(params.get("uri") or params.get("name")),
            "mcp-session-id": f"made-up-{number}",
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return dict(httpx2.post(f"{url}/mcp?session_id=made-up-{number}", json=body, headers=headers).json())

    reads = [ask("resources/read", number, uri=MINE) for number in range(3)]
    assert ["result" in read for read in reads] == [True, True, False], reads
    assert reads[2]["error"]["data"]["error"] == "RATE_LIMITED"
    gets = [ask("prompts/get", number, name="hello", arguments={}) for number in range(2)]
    assert ["result" in get for get in gets] == [True, False], gets
    async with Client(f"{url}/mcp", mode="legacy") as client:  # a session has limits of its own
        assert (await client.read_resource(MINE)).contents
        await client.read_resource(MINE)
        with pytest.raises(MCPError):
            await client.read_resource(MINE)
    async with Client(f"{url}/mcp", mode="legacy") as client:
        await client.subscribe_resource(MINE)
        await client.subscribe_resource(MINE)
        with pytest.raises(MCPError, match="limit"):
            await client.subscribe_resource(MINE)
        reference = PromptReference(type="ref/prompt", name="hello")
        await client.complete(reference, {"name": "a", "value": "b"})
        with pytest.raises(MCPError, match="limit"):
            await client.complete(reference, {"name": "a", "value": "c"})
