"""The request that is being served belongs to its own task."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from leafgate.model.request import SERVING, Served

pytestmark = pytest.mark.anyio


async def test_two_requests_at_once_do_not_see_each_other() -> None:
    seen: dict[str, Served | None] = {}

    async def serve(name: str) -> None:
        SERVING.set(Served(name, "tool_execute"))
        await anyio.lowlevel.checkpoint()
        seen[name] = SERVING.get()

    async with anyio.create_task_group() as group:
        group.start_soon(serve, "a")
        group.start_soon(serve, "b")
    assert {name: served and served.correlation_id for name, served in seen.items()} == {"a": "a", "b": "b"}
    assert SERVING.get() is None
