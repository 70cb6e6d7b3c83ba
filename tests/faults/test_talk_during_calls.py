"""What a server and a client say to each other while a call is under way, through the gateway and back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from faulty_gateway import Gate, error_of, faulty, gateway, http_gateway, text_of, until, url_of
from mcp import Client
from mcp.types import CreateMessageResult, ElicitResult, TextContent

pytestmark = pytest.mark.anyio

ELICITATION = {
    "message": "Which flour?",
    "requestedSchema": {"type": "object", "properties": {"flour": {"type": "string"}}, "required": ["flour"]},
}
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SAMPLING = {"messages": [{"role": "user", "content": {"type": "text", "text": "Name a bread."}}], "maxTokens": 20}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_progress_reaches_the_caller(tmp_path: Path, mode: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with gateway(tmp_path, faulty(tmp_path), mode=mode) as gate:
        call = {"tool_id": (await gate.ids())["progress"], "args": {"steps": 3}}
        result = await gate.client.call_tool("tool_execute", call, progress_callback=on_progress)
        assert text_of(result) == "told somebody"
        await until(lambda: len(told) == 3)
        assert sorted(told) == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_of_a_flood_a_client_gets_a_part_and_the_latest(tmp_path: Path) -> None:
    steps = 20_000
    reported: list[float] = []
    logged: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reported.append(progress)

    async def on_log(params: Any) -> None:
        logged.append(params)

    async with gateway(tmp_path, faulty(tmp_path), mode="legacy", logging_callback=on_log) as gate:
        call = {"tool_id": (await gate.ids())["progress"], "args": {"steps": steps}}
        result = await gate.client.call_tool("tool_execute", call, progress_callback=on_progress)
        assert text_of(result) == "told somebody"
        await until(lambda: steps in reported)
        assert len(reported) < steps / 20
        assert await gate.answer("say", text="hot", times=5_000) == "said"
        assert await gate.answer("echo", text="and now?") == "and now?"
        assert 0 < len(logged) < 2_500


async def test_log_lines_questions_and_cancellation(tmp_path: Path) -> None:
    """All with one gateway: a client with a session, which can be asked."""
    server = faulty(tmp_path)
    logged: list[Any] = []
    asked: list[Any] = []

    async def on_log(params: Any) -> None:
        logged.append(params)

    async def on_elicit(context: Any, params: Any) -> ElicitResult:
        asked.append(params)
        return ElicitResult(action="accept", content={"flour": "rye"})

    async def on_sample(context: Any, params: Any) -> CreateMessageResult:
        asked.append(params)
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Pumpernickel"), model="m")

    options = {"logging_callback": on_log, "elicitation_callback": on_elicit, "sampling_callback": on_sample}
    async with gateway(tmp_path, server, mode="legacy", **options) as gate:
        assert await gate.answer("say", text="the oven is hot", level="warning") == "said"
        await until(lambda: bool(logged))
        assert (logged[0].level, logged[0].data, logged[0].logger) == ("warning", "the oven is hot", "faulty")

        answered = json.loads(await gate.answer("ask", method="elicitation/create", params=ELICITATION))
        assert answered == {"action": "accept", "content": {"flour": "rye"}}
        assert asked[0].message == "Which flour?"

        answered = json.loads(await gate.answer("ask", method="sampling/createMessage", params=SAMPLING))
        assert answered["content"]["text"] == "Pumpernickel"
        assert asked[1].messages[0].content.text == "Name a bread."

        assert await gate.answer("say", text=f"the key is {SECRET}") == "said"
        await gate.answer("ask", method="elicitation/create", params={**ELICITATION, "message": f"Is {SECRET} yours?"})
        await until(lambda: len(logged) == 2)
        assert [logged[1].data.split("[")[0], asked[2].message.split("[")[0]] == ["the key is ", "Is "]
        assert SECRET not in f"{logged} {asked}"

        tool_id = (await gate.ids())["hang"]
        async with anyio.create_task_group() as group:
            group.start_soon(gate.client.call_tool, "tool_execute", {"tool_id": tool_id, "args": {}})
            await until(lambda: server.called("hang"))
            group.cancel_scope.cancel()
        await until(lambda: bool(server.saw("notifications/cancelled")))
        hung = next(call for call in server.saw("tools/call") if call["params"]["name"] == "hang")
        assert server.saw("notifications/cancelled")[0]["params"]["requestId"] == hung["id"]
        assert await gate.answer("echo", text="and now?") == "and now?"
        assert server.starts == 1


async def test_a_client_that_cannot_be_asked(tmp_path: Path) -> None:
    async with gateway(tmp_path, faulty(tmp_path), mode="legacy") as gate:
        for method, params in (("elicitation/create", ELICITATION), ("sampling/createMessage", SAMPLING)):
            assert "refused" in json.loads(await gate.answer("ask", method=method, params=params))
        assert "refused" in json.loads(await gate.answer("ask", method="no/such/question"))


KILLED_CLIENT = """
import anyio, sys
from mcp import Client

async def main():
    async with Client(sys.argv[1], mode=sys.argv[3]) as client:
        await client.call_tool("tool_execute", {"tool_id": sys.argv[2], "args": {"until": "never"}})

anyio.run(main)
"""


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_one_of_two_clients_is_killed(tmp_path: Path, mode: str) -> None:
    server = faulty(tmp_path)
    with http_gateway(tmp_path, server) as process:
        url = url_of(process)
        async with Client(url, mode=mode) as client:
            gate = Gate(client, tmp_path / "gateway.log")
            ids = await gate.ids()
            doomed = subprocess.Popen(  # noqa: ASYNC220  it returns at once, and is killed below
                [sys.executable, "-c", KILLED_CLIENT, url, ids["hang"], mode]
            )
            try:
                results: list[Any] = []

                async def wait_for_it() -> None:
                    call = {"tool_id": ids["hang"], "args": {"until": "enough"}}
                    results.append(await client.call_tool("tool_execute", call))

                async with anyio.create_task_group() as group:
                    group.start_soon(wait_for_it)
                    await until(lambda: len(server.saw("tools/call")) == 2)
                    doomed.kill()
                    doomed.wait()
                    assert await gate.answer("echo", text="not concerned") == "not concerned"
                    if mode == "auto":  # without a session, a client that has gone has given its call up
                        await until(lambda: len(server.saw("notifications/cancelled")) == 1)
                    (server.folder / "enough").touch()
                assert text_of(results[0]) == "woke up"
            finally:
                doomed.kill()
                doomed.wait()
            assert process.poll() is None
            assert server.starts == 1
            assert error_of(await client.call_tool("tool_view", {"handle": "none", "selector": {"type": "head"}}))
