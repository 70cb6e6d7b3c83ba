"""Lists of two pages, and lists that change hundreds of times: the catalog ends right, and clients are not flooded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from faulty_gateway import faulty, gateway, until
from mcp.types import ToolListChangedNotification

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
