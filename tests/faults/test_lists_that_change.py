"""Lists of two pages, and lists that change hundreds of times: the catalog ends right, and clients are not flooded."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from faulty_gateway import Faulty, Gate, faulty, gateway, http_gateway, text_of, until, url_of
from gateways import SERVERS
from mcp import Client
from mcp.types import ToolListChangedNotification

from leafgate.gateway.runtime import CATCH_UP_SECONDS

pytestmark = pytest.mark.anyio

FIRST_PAGE, SECOND_PAGE = {"echo", "pid", "hang", "garbage"}, {"large", "storm", "fail", "ask"}
STORM = 300


async def test_both_pages_of_a_list_are_there(tmp_path: Path) -> None:
    async with gateway(tmp_path, faulty(tmp_path)) as gate:
        assert set(await gate.ids()) >= FIRST_PAGE | SECOND_PAGE
        assert await gate.answer("say", text="from the second page") == "said"


async def test_a_storm_of_changes(tmp_path: Path) -> None:
    server = faulty(tmp_path)
    told: list[Any] = []

    async def on_message(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.append(message)

    async with gateway(tmp_path, server, mode="legacy", message_handler=on_message) as gate:
        before = await gate.ids()
        told.clear()
        said = await gate.answer("storm", count=STORM)
        expected = int(said.split(" ")[0])
        assert expected == len(before) + STORM

        async def is_complete() -> bool:
            return len(await gate.ids()) == expected

        await until(is_complete)
        await until(lambda: bool(told))
        ids = await gate.ids()
        assert before.items() <= ids.items()
        newest = max(ids, key=lambda name: int(name.split("_")[1]) if name.startswith("grown_") else 0)
        assert await gate.answer(newest) == f"{newest} did nothing"
        await anyio.sleep(0.5)  # whatever else there is to be told
        assert len(told) < STORM / 10
        assert server.starts == 1


CALLS = 20
ANNOUNCED_PER_SECOND = 50


async def test_a_server_that_never_stops_changing_costs_other_servers_nothing(tmp_path: Path) -> None:
    """It announces a change every 20 ms, with other tools each time, and each of their descriptions is poisoned."""
    good, folder = faulty(tmp_path), tmp_path / "churn"
    env = {"LISTING_CHURN": "500", "LISTING_COUNT": str(folder / "count")}
    folder.mkdir()
    churn = Faulty("churn", folder, {"command": sys.executable, "args": [str(SERVERS / "listing.py")], "env": env})

    def count_lists() -> int:
        return int((folder / "count").read_text())

    with http_gateway(tmp_path, good, churn) as process:
        url = url_of(process)
        async with Client(url) as client, httpx2.AsyncClient() as http:
            gate = Gate(client, tmp_path / "gateway.log")
            echo = {"tool_id": (await gate.ids())["echo"], "args": {"text": "still here"}}
            with anyio.fail_after(CALLS * CATCH_UP_SECONDS / 4):  # each call waited for so long before
                for _ in range(CALLS):
                    assert text_of(await client.call_tool("tool_execute", echo)) == "still here"

            async def all_shown_are_scanned() -> bool:
                status = (await http.get(url.replace("/mcp", "/status"))).json()
                risks = {risk["tool"] for risk in status["risks"] if risk["server"] == "churn"}
                page = await client.call_tool("tool_browse", {"query": "ledger of branch 7"})
                shown = set(re.findall(r"\bledger_\d+_\d+\b", text_of(page)))
                return bool(shown) and shown <= risks

            await until(all_shown_are_scanned)
            before = count_lists()
            await anyio.sleep(2)
            assert count_lists() - before < ANNOUNCED_PER_SECOND * 2 / 20
