"""Results of 100 MB: the transport carries them, memory stays bounded, the model gets a digest and can read on."""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty_gateway import PATIENCE, Gate, faulty, http_gateway, text_of, url_of
from mcp import Client

pytestmark = pytest.mark.anyio

MEGABYTES = 100
LINES = MEGABYTES * 10_000
# Measured: 165 MB when idle, 460 MB after any number of such results (one is kept, as the only one of its owner, and
# one is held by the connection until the next message), 1,090 MB at the peak of one.
RESIDENT_MEGABYTES = 700
PEAK_MEGABYTES = 1_500


def memory(pid: int, field: str) -> int:
    """Megabytes, from the kernel."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) // 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
async def test_several_results_of_100_megabytes(tmp_path: Path) -> None:
    server = faulty(tmp_path)
    with http_gateway(tmp_path, server) as process:
        async with Client(url_of(process), mode="legacy", read_timeout_seconds=PATIENCE) as client:
            gate = Gate(client, tmp_path / "gateway.log")
            tool_id = (await gate.ids())["large"]
            handles = []
            for seed in ("rye", "wheat", "oats"):
                call = {"tool_id": tool_id, "args": {"megabytes": MEGABYTES, "seed": seed}}
                result = await client.call_tool("tool_execute", call)
                assert not result.is_error
                assert len(result.model_dump_json()) < 20_000
                (kept,) = result.meta["leafgate/envelope"]["artifacts"]
                assert kept["lines"] == LINES
                handles.append(kept["handle"])
                view = await view_of(client, kept["handle"], LINES - 1)
                assert text_of(view).startswith(f"line {LINES - 1} {seed}.")
                assert memory(process.pid, "VmRSS") < RESIDENT_MEGABYTES
            assert memory(process.pid, "VmHWM") < PEAK_MEGABYTES
            # One result fills what an owner may keep: the earlier ones had to go.
            assert (await view_of(client, handles[0], 1)).is_error
            assert not (await view_of(client, handles[-1], 1)).is_error
            assert await gate.answer("echo", text="small again") == "small again"
            assert server.starts == 1


async def view_of(client: Client, handle: str, line: int) -> object:
    selector = {"type": "lines", "start": line, "end": line}
    return await client.call_tool("tool_view", {"handle": handle, "selector": selector})
