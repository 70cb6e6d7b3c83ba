"""A library under measurement, as a process. In: requests as JSON lines. Out: an answer for each, with times.

Runs in the environment of each library: standard library only. Touches stdin, stdout, the clock. Both libraries do the
same for a request, and times are taken here, beside the call.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import os
import pstats
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

LINE: Final = "On day 17 we measured the north bed and wrote 23 lines about the garden, as every week before it.\n"
READ: Final = {
    "name": "read_journal",
    "description": "Read the garden journal, as many characters of it as are wanted.",
    "inputSchema": {
        "type": "object",
        "properties": {"chars": {"type": "integer"}, "page": {"type": "integer"}},
        "required": ["chars", "page"],
    },
}
PROFILE_ROWS: Final = 12

Entry = dict[str, Any]  # {"server", "tool"}
Given = TypeVar("Given")


class Library(Protocol):
    """What is measured of a library: one gateway inside the process, before a catalog and the tool READ."""

    async def refresh(self) -> int:
        """Lists the tools behind and takes them in; how many there are."""

    async def browse(self, query: str) -> list[tuple[str, str]]:
        """Servers and names of the tools found, best first."""

    async def page(self, query: str) -> str:
        """The same as a client receives it."""

    async def find_journal(self) -> str:
        """The id of READ."""

    async def execute(self, tool_id: str, args: dict[str, Any]) -> str:
        """Calls READ: what a client receives."""


Make = Callable[[list[Entry], bool], Library]


def journal(args: dict[str, Any]) -> str:
    """What READ answers: so many characters, or one sentence for none. No two pages are the same."""
    begin = f"It is currently 14:{args['page']:02d} UTC."
    return (begin + LINE * (args["chars"] // len(LINE) + 1))[: args["chars"]] if args["chars"] else begin


class Worker:
    """Answers requests about one library."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._library: Library | None = None
        self._pages = 10

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        work = getattr(self, f"do_{asked.pop('op')}")
        found: dict[str, Any] = await work(**asked)
        return found

    async def do_load(self, catalog: str, wide: bool = False) -> dict[str, Any]:
        entries = _entries(Path(catalog))
        self._library, seconds, cpu = await _timed(lambda: _as_async(self._make(entries, wide)))
        return {"seconds": seconds, "cpu": cpu}

    async def do_refresh(self) -> dict[str, Any]:
        tools, seconds, cpu = await _timed(self.library.refresh)
        return {"tools": tools, "seconds": seconds, "cpu": cpu}

    async def do_browse(self, queries: list[str]) -> dict[str, Any]:
        runs = [await _timed(partial(self.library.browse, query)) for query in queries]
        return {"found": [run[0] for run in runs], "seconds": [run[1] for run in runs], "cpu": [run[2] for run in runs]}

    async def do_pages(self, queries: list[str]) -> dict[str, Any]:
        return {"texts": [await self.library.page(query) for query in queries]}

    async def do_execute(self, chars: int, times: int) -> dict[str, Any]:
        tool_id = await self.library.find_journal()
        pages = self._new_pages(chars, times)
        runs = [await _timed(partial(self.library.execute, tool_id, page)) for page in pages]
        return {"text": runs[-1][0], "seconds": [run[1] for run in runs], "cpu": [run[2] for run in runs]}

    async def do_profile(self, queries: list[str]) -> dict[str, Any]:
        """Where the time goes: of a refresh where there are no queries. Shares of all, called functions included."""
        profile = cProfile.Profile()
        profile.enable()
        if not queries:
            await self.library.refresh()
        for query in queries:
            await self.library.browse(query)
        profile.disable()
        return {"rows": _rows(pstats.Stats(profile))}

    def _new_pages(self, chars: int, times: int) -> list[dict[str, Any]]:
        self._pages += times
        return [{"chars": chars, "page": page} for page in range(self._pages - times, self._pages)]

    @property
    def library(self) -> Library:
        assert self._library is not None, "load first"
        return self._library


def _entries(catalog: Path) -> list[Entry]:
    read: list[Entry] = json.loads(catalog.read_text(encoding="utf-8"))
    return [*read, {"server": "journal", "tool": READ}]


def _rows(stats: Any) -> list[list[Any]]:
    """The package's own functions: file, function, calls, share of the time within."""
    named = [(file, function, *figures[1:4:2]) for (file, _, function), figures in stats.stats.items()]
    named = [each for each in named if "/src/leafgate/" in each[0] and not each[1].startswith("<")]
    own = [(file.rpartition("/leafgate/")[2], *rest) for file, *rest in named]
    longest = max((each[-1] for each in own), default=1.0)
    ordered = sorted(own, key=lambda each: -each[-1])[:PROFILE_ROWS]
    return [[file, function, calls, round(spent / longest, 3)] for file, function, calls, spent in ordered]


async def _as_async(value: Given) -> Given:
    return value


async def _timed(work: Callable[[], Awaitable[Given]]) -> tuple[Given, float, float]:
    """What came out, seconds on the clock, and of the processor."""
    begun, used = time.perf_counter(), time.process_time()
    done = await work()
    return done, time.perf_counter() - begun, time.process_time() - used


def serve(make: Make) -> None:
    """Until stdin ends. What libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = Worker(make)

    async def loop() -> None:
        for line in sys.stdin:  # nothing else is to be done meanwhile
            out.write(json.dumps(await worker.answer(json.loads(line))) + "\n")
            out.flush()

    asyncio.run(loop())
