"""Refusals over HTTP: each request sees its own, whatever becomes of others on the same connection."""

from __future__ import annotations

import anyio
import httpx2
import pytest

from leafgate.upstream.connect import _note_status, noting_refusal

pytestmark = pytest.mark.anyio


async def test_a_refusal_is_of_its_own_request() -> None:
    found: dict[str, int | None] = {}

    async def request(name: str, *statuses: int) -> None:
        with noting_refusal() as refusal:
            for status in statuses:
                await _note_status(httpx2.Response(status))
                await anyio.lowlevel.checkpoint()  # the others get their turn
        found[name] = refusal.status

    async with anyio.create_task_group() as group:
        group.start_soon(request, "refused", 200, 401)
        group.start_soon(request, "answered", 200, 200, 200)
        group.start_soon(request, "answered at last", 503, 200)
    assert found == {"refused": 401, "answered": None, "answered at last": None}


async def test_what_nobody_notes_is_passed_over() -> None:
    await _note_status(httpx2.Response(401))
    with noting_refusal() as refusal:
        pass
    assert refusal.status is None
