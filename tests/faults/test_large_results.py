"""Results of 100 MB: the transport carries them, memory stays bounded, the model gets a digest and can read on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from faulty_gateway import PATIENCE, Gate, faulty, http_gateway, text_of, url_of
from mcp import Client

from leafgate.model.envelope import ACCEPT_FULL

pytestmark = pytest.mark.anyio

MEGABYTES = 100
LINES = MEGABYTES * 10_000
# Measured: 190 MB when idle, 530 MB after any number of such results (one is kept, as the only one of its owner, and
# one is held by the connection until the next message), 910 MB at the peak of one. Of those that come at once one is
# worked on, one waits, and the others are not read yet: 1,200 to 1,400 MB at the peak, and 2,100 without that.
RESIDENT_MEGABYTES = 700
PEAK_MEGABYTES = 1_700
SEEDS = ("rye", "wheat", "oats")


def memory(pid: int, field: str) -> int:
    """Megabytes, from the kernel."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) // 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
async def test_several_results_of_100_megabytes_at_once(tmp_path: Path) -> None:
    server = faulty(tmp_path, timeout=5 * PATIENCE)
    with http_gateway(tmp_path, server) as process:
        async with Client(url_of(process), mode="legacy", read_timeout_seconds=5 * PATIENCE) as client:
            gate = Gate(client, tmp_path / "gateway.log")
            tool_id = (await gate.ids())["large"]
            handles: dict[str, str] = {}

            async def one(seed: str) -> None:
                call = {"tool_id": tool_id, "args": {"megabytes": MEGABYTES, "seed": seed}}
                result = await client.call_tool("tool_execute", call, meta=ACCEPT_FULL)
                assert not result.is_error
                assert len(result.model_dump_json()) < 20_000
                (kept,) = result.meta["leafgate/envelope"]["artifacts"]
                assert kept["lines"] == LINES
                handles[seed] = kept["handle"]

            async with anyio.create_task_group() as group:
                for seed in SEEDS:
                    group.start_soon(one, seed)
            assert memory(process.pid, "VmHWM") < PEAK_MEGABYTES
            # One result fills what an owner may keep: the earlier ones had to go.
            views = {seed: await view_of(client, handle, LINES - 1) for seed, handle in handles.items()}
            (last,) = [seed for seed, view in views.items() if not view.is_error]
            assert text_of(views[last]).startswith(f"line {LINES - 1} {last}.")
            assert await gate.answer("echo", text="small again") == "small again"
            assert server.starts == 1
            assert memory(process.pid, "VmRSS") < RESIDENT_MEGABYTES


async def view_of(client: Client, handle: str, line: int) -> Any:
    selector = {"type": "lines", "start": line, "end": line}
    return await client.call_tool("tool_view", {"handle": handle, "selector": selector})
