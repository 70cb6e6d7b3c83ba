"""Hostile servers behind one gateway cost the good one no answer, and the gateway bounded memory (spec 10)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gateways import LEAFGATE, SERVERS
from security.isolation import HOSTILE, run

# Measured: 190 MB when idle, 370 MB at the peak. An answer of 800 MB would take 2,100 MB.
PEAK_MEGABYTES = 900
SMALL = {"HOSTILE_MEGABYTES": "2", "HOSTILE_FLOOD": "5000", "HOSTILE_BOMB": "400"}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
def test_a_good_server_loses_no_answer_beside_hostile_ones() -> None:
    result = run(4, HOSTILE, SMALL)
    assert result.good.calls > 20
    assert result.good.lost == 0
    assert result.peak_megabytes < PEAK_MEGABYTES
    assert all(result.called[server] for server in HOSTILE)
    # A server that sends much is read with pauses, and its calls may take longer than this test.
    assert result.answered["definitions"]
    assert result.answered["churn"]


def test_failing_calls_do_not_hang_a_gateway_whose_stderr_is_not_read(tmp_path: Path) -> None:
    """A pipe holds 64 KB. Each failing call logs a line, and debug logs more."""
    config = tmp_path / "leafgate.json"
    server = {"command": sys.executable, "args": [str(SERVERS / "hostile.py"), "good"]}
    config.write_text(json.dumps({"mcpServers": {"good": server}}))
    command = [str(LEAFGATE), "serve", "--config", str(config), "--log-level", "debug"]
    pipe: Any = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as gateway:
        assert gateway.stdin is not None
        assert gateway.stdout is not None
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        requests = [{"id": 0, "method": "initialize", "params": hello}, {"method": "notifications/initialized"}]
        params = {"name": "prompt", "arguments": {"x": "y" * 2_000}}
        requests += [{"id": n, "method": "prompts/get", "params": params} for n in range(1, 900)]
        for request in requests:
            gateway.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
            gateway.stdin.flush()
            if "id" in request:
                assert json.loads(gateway.stdout.readline())["id"] == request["id"]
        gateway.stdin.close()
        assert gateway.wait(timeout=30) == 0
        assert gateway.stderr is not None
        assert len(gateway.stderr.read()) > 60_000  # it was really full
