"""What a call costs through everybody: one at a time, 16 and 64 at once, 1 MB; HTTP in front, stdio or HTTP behind.

In: how much to ask. Out: figures, as JSON can hold them. Touches the clock, processes, loopback. The same server stands
behind everybody and the same client asks everybody, in turns; `direct` is the server itself over HTTP. A ratio is the
median of the ratios to `direct` of the same round. Every answer is checked to be its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lean_client import Era, LeanClient, RefusedError, StdioClient
from plans import Behind, direct, echo_stdio, proxies
from processes import Plan, Target, cpu_seconds, started

ERAS: Final[tuple[Era, ...]] = ("session", "stateless")
CROWDS: Final = (16, 64)
READY_SECONDS: Final = 90
MEGABYTE: Final = 1_000_000

Progress = Callable[[str], None]
Found = dict[str, Any]


@dataclass(frozen=True)
class Load:
    """How much is asked. Bounded by count, and by time: no round begins after `seconds`."""

    rounds: int
    in_turn: int
    at_once: int
    seconds: float


FULL: Final = Load(rounds=9, in_turn=40, at_once=128, seconds=210)
QUICK: Final = Load(rounds=2, in_turn=15, at_once=64, seconds=15)


@dataclass
class Figures:
    """What was measured of one target in one era, a list entry per round; `small` has every single call."""

    small: list[list[float]] = field(default_factory=list)
    per_second: dict[int, list[float]] = field(default_factory=lambda: {crowd: [] for crowd in CROWDS})
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
        self._clients = [LeanClient(target.url, era) for _ in range(max(CROWDS))]
        self._ids: dict[str, str] = {}
        self._turn = 0

    async def connect(self) -> None:
        for client in self._clients:
            await client.connect()
        if self.target.form == "tool_execute":
            for name in ("echo", "page"):
                self._ids[name] = await self._found(name)
        for client in self._clients:
            await client.open()
            await self._echo(client)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def round(self, load: Load) -> None:
        await self._clients[0].open()
        await self._echo(self._clients[0])
        self.figures.small.append([await self._echo(self._clients[0]) for _ in range(load.in_turn)])
        used = cpu_seconds(self.target.process.pid)
        for crowd in CROWDS:
            await self._crowd(crowd, load.at_once // crowd)
        now = cpu_seconds(self.target.process.pid)
        if used is not None and now is not None:
            self.figures.cpu.append((now - used) / sum(load.at_once // crowd * crowd for crowd in CROWDS))
        await self._clients[0].open()
        self.figures.large.append(await self._page(self._clients[0]))

    async def _crowd(self, crowd: int, each: int) -> None:
        for client in self._clients[:crowd]:
            await client.open()  # servers close a connection that was idle for some seconds
        begun = time.perf_counter()
        await asyncio.gather(*(self._echoes(client, each) for client in self._clients[:crowd]))
        self.figures.per_second[crowd].append(each * crowd / (time.perf_counter() - begun))

    async def _found(self, name: str) -> str:
        """A tool's id, as its card shows it."""
        asked = {"name": "tool_browse", "arguments": {"query": name}}
        answer = await self._clients[0].ask("tools/call", asked)
        found = re.search(rf"[\w-]+:{name}#\w+", answer.decode())
        if found is None:
            raise RefusedError(f"{name} was not found: {answer[:200].decode(errors='replace')}")
        return found[0]

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
        if text.encode() not in answer or b'"isError":true' in answer:
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


async def _subject(target: Target, era: Era) -> Subject | str:
    """A target that answers, or why it does not."""
    until = time.monotonic() + READY_SECONDS
    while True:
        tried = Subject(target, era)
        try:
            await asyncio.wait_for(tried.connect(), READY_SECONDS)
            return tried
        except (OSError, EOFError, TimeoutError, RefusedError, KeyError, ValueError, IndexError) as error:
            await tried.close()
            if target.process.poll() is not None or time.monotonic() > until or not _may_come(error):
                return " ".join(f"no answer: {type(error).__name__} {error}".split())[:160]
            await asyncio.sleep(0.2)


def _may_come(error: Exception) -> bool:
    """A server that does not listen yet, or does not know its tools yet, may be asked again."""
    return isinstance(error, OSError | EOFError | TimeoutError) or "was not found" in str(error)


@contextlib.asynccontextmanager
async def _over_stdio() -> AsyncIterator[StdioClient]:
    """The server by itself, over its pipes."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*echo_stdio().command, stdin=pipe, stdout=pipe)
    try:
        client = StdioClient(process)
        await client.connect()
        yield client
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _stdio_round(client: StdioClient, count: int) -> float:
    """The median of small calls, in seconds."""
    taken: list[float] = []
    for turn in range(count):
        begun = time.perf_counter()
        answer = await client.ask("tools/call", {"name": "echo", "arguments": {"text": f"It is {turn} UTC."}})
        taken.append(time.perf_counter() - begun)
        assert b"UTC." in answer
    return statistics.median(taken)


async def _measure(targets: Sequence[Target], load: Load, progress: Progress) -> tuple[list[Subject], Found]:
    """Rounds in turns; the subjects that answered to the end, and what became of the others."""
    subjects: list[Subject] = []
    failures: dict[str, str] = {}
    for target in targets:
        for era in ERAS:
            found = await _subject(target, era)
            if isinstance(found, str):
                failures[f"{target.name}, {era}"] = found
            else:
                subjects.append(found)
    begun, pipes = time.monotonic(), list[float]()
    async with _over_stdio() as client:
        for turn in range(load.rounds):
            progress(f"calls: round {turn + 1} of at most {load.rounds}")
            pipes.append(await _stdio_round(client, load.in_turn))
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
    return subjects, {"failures": failures, "stdio_ms": statistics.median(pipes) * 1e3}


@contextlib.contextmanager
def _running(plans: Sequence[Plan], folder: Path) -> Iterator[list[Target]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(started(plan, folder)) for plan in plans]


def measure(load: Load, installed: Mapping[str, str | None], *, quick: bool, progress: Progress) -> Found:
    """Both ways: stdio behind, HTTP behind."""
    found: Found = {}
    for way in ("stdio", "http"):
        progress(f"calls: starting everybody, {way} behind")
        with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
            folder = Path(name)
            behind = echo_stdio()
            if way == "http":
                behind = Behind(url=stack.enter_context(started(direct(), folder)).url)
            wanted = [plan for plan in proxies(behind) if _wanted(plan, installed, quick)]
            targets = stack.enter_context(_running([direct(), *wanted], folder))
            subjects, rest = asyncio.run(_measure(targets, load, progress))
        found[way] = {"eras": _rows(subjects), **rest}
    return found


def _wanted(plan: Plan, installed: Mapping[str, str | None], quick: bool) -> bool:
    return not (quick and plan.in_full) and installed.get(plan.package) is None


def _rows(subjects: Sequence[Subject]) -> Found:
    rows: Found = {}
    for era in ERAS:
        base = next((s.figures for s in subjects if s.era == era and s.target.name == "direct"), None)
        if base is not None:
            rows[era] = {s.target.name: _row(s.figures, base) for s in subjects if s.era == era}
    return rows


def _row(figures: Figures, base: Figures) -> Found:
    """The medians, and the median of the ratios to direct, each taken within one round. Above 1 is slower."""
    row: Found = {
        "p50_ms": statistics.median(figures.p50()) * 1e3,
        "p50_ratio": _ratio(figures.p50(), base.p50()),
        "p99_ms": figures.p99() * 1e3,
        "cpu_ms": statistics.median(figures.cpu) * 1e3 if figures.cpu else None,
        "large_ms": statistics.median(figures.large) * 1e3,
        "large_ratio": _ratio(figures.large, base.large),
        "large_bytes": figures.large_bytes,
        "rounds": len(figures.small),
    }
    for crowd in CROWDS:
        row[f"per_second_{crowd}"] = statistics.median(figures.per_second[crowd])
        row[f"per_second_{crowd}_ratio"] = _ratio(base.per_second[crowd], figures.per_second[crowd])
    return row


def _ratio(above: Sequence[float], below: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(above, below, strict=False))
