"""Servers that write nonsense instead of an answer: the call ends when its time is over, and the next one succeeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty_gateway import faulty, gateway

pytestmark = pytest.mark.anyio


async def test_noise_instead_of_an_answer(tmp_path: Path) -> None:
    server = faulty(tmp_path, timeout=1)
    async with gateway(tmp_path, server) as gate:
        for kind in ("truncated", "huge", "unknown-ids"):
            assert (await gate.error("garbage", kind=kind, answer="none"))["error"] == "UPSTREAM_TIMEOUT", kind
            assert await gate.answer("echo", text="and now?") == "and now?"
        assert server.starts == 1
