"""Hostile servers and a good one behind one gateway: what the good one's callers notice, and what memory it costs.

    PYTHONPATH=bench:tests:python/tests .venv/bin/python bench/security/isolation.py [SECONDS [KIND ...]]

Starts gateways, servers and clients, and ends them. The caller of the good server is a process of its own, and so are
the callers of the hostile ones. These have a low priority: they would be on other machines. Memory, and for how long
the gateway waited for a core, are read from /proc.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
from gateways import SERVERS, gateway_on_http
from mcp import Client, MCPError
from security.section import Section

from leafgate.gateway.clean_process import lower_priority

SERVER: Final = SERVERS / "hostile.py"
# One for each way in which a server could cost others; the flood of memory has a second one, over HTTP.
HOSTILE: Final = ("cleaning", "definitions", "memory", "gzip", "churn", "questions", "progress")
CALL_SECONDS: Final = 30.0
PAUSE: Final = 0.02  # between two calls of the good server
LIST_EVERY: Final = 20  # calls
GOAL_RATIO: Final = 3.0


@dataclass(frozen=True)
class GoodCalls:
    """What the caller of the good server saw. Milliseconds of calls, in the order of their length."""

    calls: int
    lost: int
    milliseconds: tuple[float, ...]

    def percentile(self, share: float) -> float:
        return self.milliseconds[min(len(self.milliseconds) - 1, int(share * len(self.milliseconds)))]


@dataclass(frozen=True)
class Run:
    """A run: the good calls, the gateway's peak of memory in MB, the calls of each hostile server and those that were
    answered, and the shares of the time that the gateway's event loop worked, and waited for a core."""

    good: GoodCalls
    peak_megabytes: int
    called: Mapping[str, int]
    answered: Mapping[str, int]
    busy: float
    waiting: float


def run(seconds: float, hostile: tuple[str, ...] = HOSTILE, env: Mapping[str, str] | None = None) -> Run:
    """Call the good server for so many seconds while the hostile servers do their worst."""
    with TemporaryDirectory() as folder, _http_server(env or {}) as port:
        config = _write_config(Path(folder), hostile, port, env or {})
        with gateway_on_http("--config", str(config), "--log-level", "error") as gateway:
            url, pid = f"{gateway.url}/mcp", gateway.process.pid
            with _start("--attack", url, *hostile) as attackers:
                assert attackers.stdout is not None
                attackers.stdout.readline()  # every hostile server is being called
                started, before = time.monotonic(), _scheduled(pid)
                with _start("--client", url, str(seconds)) as caller:
                    fields = json.loads(caller.communicate()[0])
                busy, waiting = (after - first for first, after in zip(before, _scheduled(pid), strict=True))
                took = time.monotonic() - started
                called, answered = json.loads(attackers.communicate(b"\n")[0])
            good = GoodCalls(fields["calls"], fields["lost"], tuple(sorted(fields["milliseconds"])))
            return Run(good, _peak_megabytes(pid), called, answered, busy / took, waiting / took)


@contextmanager
def _start(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this file, which prints JSON at its end."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, __file__, *words], stdin=pipe, stdout=pipe, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


# The callers of hostile servers


async def _attack(url: str, hostile: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    """Call the hostile servers until standard input has a line, or ends. Writes a line when all are being called."""
    lower_priority()
    called, answered = dict.fromkeys(hostile, 0), dict.fromkeys(hostile, 0)
    async with anyio.create_task_group() as group:
        for server in hostile:
            group.start_soon(_call_hostile, url, server, called, answered)
        while not all(called.values()):  # noqa: ASYNC110  nothing else waits for it
            await anyio.sleep(0.05)
        print(flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        group.cancel_scope.cancel()
    return called, answered


async def _call_hostile(url: str, server: str, called: dict[str, int], answered: dict[str, int]) -> None:
    """Call the tool of a hostile server again and again. Counts the calls, and those that were answered in any way."""

    async def never_answer(*args: Any) -> Any:
        await anyio.sleep_forever()

    while True:
        with suppress(Exception):
            async with Client(
                url, mode="legacy", read_timeout_seconds=CALL_SECONDS, elicitation_callback=never_answer
            ) as client:
                tool_id = await _find_tool(client, server)
                while tool_id is not None:
                    called[server] += 1
                    with suppress(MCPError):
                        await client.call_tool("tool_execute", {"tool_id": tool_id, "args": {}})
                    answered[server] += 1
                    await anyio.sleep(0.01)
        await anyio.sleep(0.2)


async def _find_tool(client: Client, server: str, name: str = "act") -> str | None:
    """The id of a tool. By a query: a page of a server with many tools has groups of them."""
    page = await client.call_tool("tool_browse", {"query": f"{server} {name}"})
    words = "\n".join(block.text for block in page.content if block.type == "text").split()
    return next((word for word in words if word.startswith(f"{server}:{name}#")), None)


# The caller of the good server


async def _call_good(url: str, seconds: float) -> dict[str, Any]:
    """Call the good server one call after another. An answer that is wrong, late or missing is lost."""
    lost, calls, milliseconds = 0, 0, []
    async with Client(url, read_timeout_seconds=CALL_SECONDS) as client:
        tool_id = None
        while tool_id is None:
            tool_id = await _find_tool(client, "good")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            calls += 1
            started = time.perf_counter()
            try:
                if calls % LIST_EVERY == 0:
                    await client.list_resources()
                    continue
                said = f"call {calls}"
                result = await client.call_tool("tool_execute", {"tool_id": tool_id, "args": {"text": said}})
                lost += result.is_error or result.content[0].text != said
                milliseconds.append(1000 * (time.perf_counter() - started))
            except Exception:
                lost += 1
            await anyio.sleep(PAUSE)
    return {"calls": calls, "lost": lost, "milliseconds": milliseconds}


# Processes


@contextmanager
def _http_server(env: Mapping[str, str]) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = subprocess.Popen([sys.executable, str(SERVER), "gzip", str(port)], env={**os.environ, **env})
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def _write_config(folder: Path, hostile: tuple[str, ...], port: int, env: Mapping[str, str]) -> Path:
    def on_stdio(kind: str) -> dict[str, Any]:
        block = {"command": sys.executable, "args": [str(SERVER), kind], "env": dict(env), "timeout": CALL_SECONDS}
        return block | ({"concurrency": 2} if kind == "questions" else {})

    servers = {kind: on_stdio(kind) for kind in ("good", *hostile) if kind != "gzip"}
    if "gzip" in hostile:
        servers["gzip"] = {"url": f"http://127.0.0.1:{port}/mcp", "timeout": CALL_SECONDS}
    file = folder / "leafgate.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


def _scheduled(pid: int) -> tuple[float, float]:
    """The seconds that the main thread of a process ran so far, and waited for a core."""
    ran, waited, _ = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


def _peak_megabytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


# The figures


def measure(seconds: float = 120, hostile: tuple[str, ...] = HOSTILE) -> Section:
    """The section on isolation: the good server alone, and beside the hostile ones."""
    alone = run(seconds / 4, hostile=())
    beside = run(seconds, hostile)
    rows = [
        ("p50 of a call", *(f"{each.good.percentile(0.5):.1f} ms" for each in (alone, beside))),
        ("p99 of a call", *(f"{each.good.percentile(0.99):.1f} ms" for each in (alone, beside))),
        ("calls", *(str(each.good.calls) for each in (alone, beside))),
        ("answers lost", *(str(each.good.lost) for each in (alone, beside))),
        ("peak memory of the gateway", *(f"{each.peak_megabytes} MB" for each in (alone, beside))),
        ("event loop: works", *(f"{each.busy:.0%}" for each in (alone, beside))),
        ("event loop: waits for a core", *(f"{each.waiting:.0%}" for each in (alone, beside))),
    ]
    ratios = [""] * len(rows)
    for at, share in enumerate((0.5, 0.99)):
        ratios[at] = f"{beside.good.percentile(share) / alone.good.percentile(share):.1f}"
    attacks = ", ".join(f"{server} {times}" for server, times in beside.answered.items())
    return Section(
        title="Isolation of servers",
        method=(
            f"A good server is called through one gateway for {seconds:.0f} s, one call after another: alone, and "
            f"beside {len(hostile)} hostile servers that are called all the time. They send texts that are slow to "
            "clean, malformed definitions, large answers and an endless line on stderr, an answer that unpacks to "
            "800 MB, lists that change every 20 ms, questions that are not answered with floods of log lines, and "
            "floods of progress with malformed answers. The callers of the hostile servers have a low priority, as "
            "they would be on other machines."
        ),
        headers=("", "alone", "beside hostile servers", "ratio"),
        rows=tuple((*row, ratio) for row, ratio in zip(rows, ratios, strict=True)),
        notes=(
            f"Goal: the p99 is at most {GOAL_RATIO:.0f} times as long, no answer is lost, and memory is bounded.",
            f"Calls of hostile servers that were answered meanwhile: {attacks}.",
        ),
    )


def main() -> None:
    if sys.argv[1:2] == ["--client"]:
        print(json.dumps(anyio.run(_call_good, sys.argv[2], float(sys.argv[3]))))
        return
    if sys.argv[1:2] == ["--attack"]:
        counts = anyio.run(_attack, sys.argv[2], tuple(sys.argv[3:]), backend_options={"use_uvloop": True})
        print(json.dumps(counts))
        return
    words = sys.argv[1:]
    section = measure(float(words[0]) if words else 120, tuple(words[1:]) or HOSTILE)
    print(section.method, *(" | ".join(row) for row in (section.headers, *section.rows)), *section.notes, sep="\n")


if __name__ == "__main__":
    main()
