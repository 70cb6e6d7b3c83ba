"""What a gateway costs per call. In: nothing. Out: tables, and bench/results/overhead.json.

    .venv/bin/python bench/overhead/run.py [--quick] [--no-peers] [--no-start]

Touches the clock, processes, loopback. The same small stdio server stands behind everybody, the same client asks
everybody, in turns within one run; figures are medians over the rounds, and claims are ratios to the direct connection
of the same run. Only the ratios mean anything on a shared machine: its load is printed with them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from lean_client import Era, LeanClient, RefusedError, StdioClient
from start import measure_starts
from targets import ECHO_STDIO, FASTMCP, MCP_PROXY, ROOT, Plan, Target, cpu_seconds, install, plans, started

RESULTS: Final = ROOT / "bench" / "results" / "overhead.json"
ERAS: Final[tuple[Era, ...]] = ("session", "stateless")
CLIENTS: Final = 16
READY_SECONDS: Final = 30
MEGABYTE: Final = 1_000_000
GOAL: Final = 2.0
PEERS: Final = ("fastmcp proxy", "mcp-proxy")


@dataclass(frozen=True)
class Load:
    """How much is asked. Bounded by count, and by time: no round begins after `seconds`."""

    rounds: int
    in_turn: int
    at_once: int
    large: int
    seconds: float


FULL: Final = Load(rounds=9, in_turn=40, at_once=192, large=1, seconds=70)
QUICK: Final = Load(rounds=3, in_turn=20, at_once=96, large=1, seconds=18)


@dataclass
class Figures:
    """What was measured of one target in one era, a list entry per round; `small` has every single call."""

    small: list[list[float]] = field(default_factory=list)
    per_second: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    large: list[float] = field(default_factory=list)
    large_bytes: int = 0

    def p50(self) -> list[float]:
        return [statistics.median(calls) for calls in self.small]

    def p99(self) -> float:
        """Over all rounds: one round has too few calls for it."""
        calls = sorted(call for calls in self.small for call in calls)
        return calls[min(len(calls) - 1, int(len(calls) * 0.99))]


class Subject:
    """A target in one era, with its clients."""

    def __init__(self, target: Target, era: Era) -> None:
        self.target = target
        self.era: Era = era
        self.figures = Figures()
        self._clients = [LeanClient(target.url, era) for _ in range(CLIENTS)]
        self._ids: dict[str, str] = {}
        self._turn = 0

    async def connect(self) -> None:
        for client in self._clients:
            await client.connect()
        if self.target.form == "tool_execute":
            for name in ("echo", "page"):
                asked = {"name": "tool_browse", "arguments": {"query": name}}
                found = await self._clients[0].ask_json("tools/call", asked)
                cards = found["_meta"]["leafgate/browse"]["cards"]
                self._ids[name] = next(card["id"] for card in cards if card["name"] == name)
        for client in self._clients:
            await self._echo(client)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def round(self, load: Load) -> None:
        for client in self._clients:
            await client.open()
        await self._echo(self._clients[0])
        self.figures.small.append([await self._echo(self._clients[0]) for _ in range(load.in_turn)])
        each = load.at_once // CLIENTS
        used, begun = cpu_seconds(self.target.process.pid), time.perf_counter()
        await asyncio.gather(*(self._echoes(client, each) for client in self._clients))
        spent, now = time.perf_counter() - begun, cpu_seconds(self.target.process.pid)
        self.figures.per_second.append(each * CLIENTS / spent)
        if used is not None and now is not None:
            self.figures.cpu.append((now - used) / (each * CLIENTS))
        taken = [await self._page(self._clients[0]) for _ in range(load.large)]
        self.figures.large.append(statistics.median(taken))

    async def _echoes(self, client: LeanClient, count: int) -> None:
        for _ in range(count):
            await self._echo(client)

    async def _echo(self, client: LeanClient) -> float:
        """Seconds for one small call, whose answer is its own and nobody else's."""
        self._turn += 1
        text = f"It is currently {self._turn:06d} UTC."
        params = self._params("echo", {"text": text})
        begun = time.perf_counter()
        answer = await client.ask("tools/call", params)
        spent = time.perf_counter() - begun
        if f'"{text}"'.encode() not in answer or b'"isError":true' in answer:
            raise RefusedError(answer[:300].decode(errors="replace"))
        return spent

    async def _page(self, client: LeanClient) -> float:
        params = self._params("page", {"chars": MEGABYTE})
        begun = time.perf_counter()
        answer = await client.ask("tools/call", params)
        spent = time.perf_counter() - begun
        self.figures.large_bytes = len(answer)
        if b"On day 17" not in answer:
            raise RefusedError(answer[:300].decode(errors="replace"))
        return spent

    def _params(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        if self.target.form == "native":
            return {"name": name, "arguments": args}
        return {"name": "tool_execute", "arguments": {"tool_id": self._ids[name], "args": args}}


async def subject(target: Target, era: Era) -> Subject | str:
    """A target that answers, or why it does not."""
    until = time.monotonic() + READY_SECONDS
    while True:
        tried = Subject(target, era)
        try:
            await asyncio.wait_for(tried.connect(), READY_SECONDS)
            return tried
        except (RefusedError, KeyError, StopIteration) as error:
            await tried.close()
            return f"no answer in the {era} protocol: {' '.join(str(error).split())[:120]}"
        except (OSError, EOFError, TimeoutError) as error:
            await tried.close()
            if target.process.poll() is not None or time.monotonic() > until:
                return f"not started: {type(error).__name__}"
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def over_stdio() -> AsyncIterator[StdioClient]:
    """The server by itself, over its pipes."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(ECHO_STDIO[0], *ECHO_STDIO[1], stdin=pipe, stdout=pipe)
    try:
        client = StdioClient(process)
        await client.connect()
        yield client
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def stdio_round(client: StdioClient, count: int) -> float:
    """The median of small calls, in seconds."""
    taken: list[float] = []
    for turn in range(count):
        begun = time.perf_counter()
        answer = await client.ask("tools/call", {"name": "echo", "arguments": {"text": f"It is {turn} UTC."}})
        taken.append(time.perf_counter() - begun)
        assert b"UTC." in answer
    return statistics.median(taken)


async def measure(targets: Sequence[Target], load: Load, failures: dict[str, str]) -> tuple[list[Subject], list[float]]:
    async with over_stdio() as pipes:
        return await _measure(targets, load, failures, pipes)


async def _measure(
    targets: Sequence[Target], load: Load, failures: dict[str, str], pipes: StdioClient
) -> tuple[list[Subject], list[float]]:
    subjects: list[Subject] = []
    for target in targets:
        for era in ERAS:
            found = await subject(target, era)
            if isinstance(found, str):
                failures[f"{target.name}, {era}"] = found
            else:
                subjects.append(found)
    begun, stdio = time.monotonic(), list[float]()
    for turn in range(load.rounds):
        stdio.append(await stdio_round(pipes, load.in_turn))
        # Backwards every other time, so that nobody always comes after the same neighbour.
        for each in list(subjects) if turn % 2 == 0 else list(reversed(subjects)):
            try:
                await each.round(load)
            except (RefusedError, OSError, EOFError, TimeoutError) as error:
                failures[f"{each.target.name}, {each.era}"] = f"failed in round {turn + 1}: {str(error)[:120]}"
                subjects.remove(each)
        if time.monotonic() - begun > load.seconds:
            break
    for each in subjects:
        await each.close()
    return subjects, stdio


@contextlib.contextmanager
def running(chosen: Sequence[Plan], failures: dict[str, str]) -> Iterator[list[Target]]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        targets: list[Target] = []
        for plan in chosen:
            failed = install(plan.package) if plan.package else None
            if failed is None:
                targets.append(stack.enter_context(started(plan, Path(folder))))
            else:
                failures[plan.name] = failed
        yield targets


def as_row(figures: Figures, direct: Figures) -> dict[str, Any]:
    """The medians, and the median of the ratios, each taken within one round."""

    def to_direct(own: Sequence[float], other: Sequence[float]) -> float:
        return round(statistics.median(a / b for a, b in zip(own, other, strict=False)), 2)

    return {
        "p50_ms": round(statistics.median(figures.p50()) * 1e3, 2),
        "p50_ratio": to_direct(figures.p50(), direct.p50()),
        "p99_ms": round(figures.p99() * 1e3, 2),
        "per_second": round(statistics.median(figures.per_second)),
        "per_second_ratio": to_direct(direct.per_second, figures.per_second),
        "cpu_ms": round(statistics.median(figures.cpu) * 1e3, 2) if figures.cpu else None,
        "large_ms": round(statistics.median(figures.large) * 1e3, 1),
        "large_ratio": to_direct(figures.large, direct.large),
        "large_bytes": figures.large_bytes,
        "rounds": len(figures.small),
    }


def rows_of(subjects: Sequence[Subject]) -> dict[str, dict[str, dict[str, Any]]]:
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for era in ERAS:
        direct = next((s.figures for s in subjects if s.era == era and s.target.name == "direct"), None)
        if direct is not None:
            rows[era] = {s.target.name: as_row(s.figures, direct) for s in subjects if s.era == era}
    return rows


def table(rows: dict[str, dict[str, dict[str, Any]]]) -> None:
    titles = f"{'p50':>9} {'ratio':>6} {'p99':>9} {'req/s':>7} {'ratio':>6} {'CPU':>8} {'1 MB':>9} {'ratio':>6}  answer"
    for era, targets in rows.items():
        print(f"{era:26} {titles}")
        for name, row in targets.items():
            cpu = "-" if row["cpu_ms"] is None else f"{row['cpu_ms']:.2f} ms"
            print(
                f"  {name:25} {row['p50_ms']:5.2f} ms {row['p50_ratio']:6.2f} {row['p99_ms']:6.1f} ms "
                f"{row['per_second']:7d} {row['per_second_ratio']:6.2f} {cpu:>8} "
                f"{row['large_ms']:6.1f} ms {row['large_ratio']:6.2f}  {row['large_bytes'] / 1e3:,.0f} KB"
            )
        print()


def verdicts(rows: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """In words, what of the goals is missed: at most twice direct, and ahead of both peers."""
    missed = [] if rows else ["nothing was measured"]
    for era, targets in rows.items():
        for name, row in targets.items():
            if not name.startswith("leafgate"):
                continue
            for figure, key in (("p50", "p50_ratio"), ("req/s", "per_second_ratio")):
                told = f"{era}: {name}: {figure} is {row[key]:.2f} times direct"
                if row[key] > GOAL:
                    missed.append(f"{told}; the goal is at most {GOAL:g}")
                missed += [
                    f"{told}, behind {peer} with {targets[peer][key]:.2f}"
                    for peer in PEERS
                    if peer in targets and row[key] > targets[peer][key]
                ]
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="few rounds, two of leafgate's settings, no start-up times"
    )
    parser.add_argument("--no-peers", action="store_true", help="without fastmcp and mcp-proxy")
    parser.add_argument("--no-start", action="store_true", help="without the start-up times")
    chosen = parser.parse_args()
    load, failures = QUICK if chosen.quick else FULL, dict[str, str]()
    before = os.getloadavg()[0]
    starts = {} if chosen.no_start or chosen.quick else measure_starts(2)
    wanted = [
        plan for plan in plans() if not (chosen.no_peers and plan.package) and not (chosen.quick and plan.in_full)
    ]
    with running(wanted, failures) as targets:
        subjects, pipes = asyncio.run(measure(targets, load, failures))
    rows, stdio_ms = rows_of(subjects), round(statistics.median(pipes) * 1e3, 2)
    after = os.getloadavg()[0]
    print(
        f"HTTP to stdio; direct: HTTP alone. p50, p99: one call at a time; req/s: {CLIENTS} clients, ratio inverted;\n"
        "CPU: of the target's own process per call, without its servers; answer: what the 1 MB became.\n"
        f"mcp {version('mcp')}, {FASTMCP}, {MCP_PROXY}; {os.cpu_count()} cores, load {before:.1f} before and "
        f"{after:.1f} after.\n"
    )
    table(rows)
    for era, targets_of_era in rows.items():
        least = 1 + stdio_ms / targets_of_era["direct"]["p50_ms"]
        print(f"{era}: direct and the server over stdio ({stdio_ms} ms), one after the other: {least:.2f} times direct")
    for name, figures in starts.items():
        print(f"start to the first {name}: {statistics.median(figures):.2f} s (of {len(figures)})")
    missed = verdicts(rows)
    for line in [*(f"{name}: {reason}" for name, reason in failures.items()), *missed]:
        print(line)
    if not missed:
        print(f"every goal is reached: leafgate at most {GOAL:g} times direct, ahead of the peers that ran")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    facts = {
        "load": [before, after],
        "peers": [FASTMCP, MCP_PROXY],
        "failures": failures,
        "missed": missed,
        "stdio_ms": stdio_ms,
    }
    RESULTS.write_text(json.dumps({**facts, "start_seconds": starts, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
