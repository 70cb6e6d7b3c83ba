"""leafgate against contextweaver as libraries, on the same catalogs and calls. Out: figures, as JSON can hold them.

Touches two processes at a time, one of each library, which are asked in turns. Every figure is seconds: `clock` as it
passed, `cpu` as the processor worked; on a shared machine the second moves less.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from catalogs import DEV_CATALOG, Gold, catalog_file, gold_queries
from peers import CONTEXTWEAVER, RANKS, program
from processes import end

from leafgate.maps.files import MapFiles

HERE: Final = Path(__file__).resolve().parent
OWN: Final = "leafgate"
PEER: Final = "contextweaver"
COMMANDS: Final = {
    OWN: (sys.executable, str(HERE / "worker_leafgate.py")),
    PEER: (str(program(CONTEXTWEAVER, "python")), str(HERE / "worker_contextweaver.py")),
}
LIMIT_SECONDS: Final = 900.0
MEGABYTE: Final = 1_000_000
CARDS_MAP: Final = "openai/cl100k_base"

Progress = Callable[[str], None]
Found = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How much is asked at one size of catalog: of the peer less, where it takes long."""

    tools: int
    rounds: int
    peer_rounds: int
    queries: int
    peer_queries: int


FULL: Final = (Size(100, 3, 3, 150, 60), Size(1_000, 3, 2, 150, 30), Size(10_000, 3, 1, 150, 8))
QUICK: Final = (Size(100, 1, 1, 30, 10), Size(1_000, 1, 1, 30, 5))


class StuckError(Exception):
    """A library did not answer in time, or ended."""


class Library:
    """One library in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, op: str, **asked: Any) -> Found:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"op": op, **asked}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise StuckError("ended") from error
        found: Found = json.loads(self._line(time.monotonic() + LIMIT_SECONDS))
        return found

    def _line(self, until: float) -> bytes:
        assert self._process.stdout is not None
        got = b""
        while not got.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))
            read = os.read(self._process.stdout.fileno(), 1 << 20) if ready else b""
            if not read:
                raise StuckError("ended" if ready else f"no answer within {LIMIT_SECONDS:.0f} s")
            got += read
        return got


@contextmanager
def library(name: str, catalog: Path, *, wide: bool = False) -> Iterator[Library]:
    """A fresh process that knows the catalog, and has taken in nothing of it."""
    process = subprocess.Popen(
        COMMANDS[name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TIKTOKEN_CACHE_DIR": str(RANKS)},
    )
    try:
        started = Library(process)
        started.ask("load", catalog=str(catalog), wide=wide)
        yield started
    finally:
        end(process)


def measure(sizes: Sequence[Size], names: Sequence[str], folder: Path, progress: Progress) -> Found:
    """Everything about the libraries, by what is measured."""
    gold = gold_queries()
    by_size = {}
    for size in sizes:
        catalog = catalog_file(size.tools, folder)
        by_size[str(size.tools)] = _one_size(size, names, [each.query for each in gold], catalog, progress)
    progress("libraries: calls, pages and recall on the development set")
    return {"sizes": by_size, **_dev_set(names, gold, progress), "profiles": _profiles(sizes[-1], gold, folder)}


def _one_size(size: Size, names: Sequence[str], queries: Sequence[str], catalog: Path, progress: Progress) -> Found:
    """Refresh in fresh processes, in turns; then queries to the last ones, in turns."""
    found: dict[str, Found] = {name: {"refresh": [], "unchanged": [], "browse": []} for name in names}
    for turn in range(size.rounds):
        for name in names if turn % 2 == 0 else reversed(names):
            if turn < _rounds(size, name):
                progress(f"libraries: {size.tools:,} tools, refresh {turn + 1} of {_rounds(size, name)}, {name}")
                with library(name, catalog) as one:
                    _refresh_twice(one, found[name])
    with _libraries(names, catalog) as running:
        progress(f"libraries: {size.tools:,} tools, queries in turns")
        _browse_in_turns(size, running, queries, found)
    return {name: _summed(figures) for name, figures in found.items()} | _ratios(found)


def _rounds(size: Size, name: str) -> int:
    return size.rounds if name == OWN else size.peer_rounds


def _refresh_twice(one: Library, into: Found) -> None:
    cold, unchanged = one.ask("refresh"), one.ask("refresh")
    into["refresh"].append(_pair(cold))
    into["unchanged"].append(_pair(unchanged))
    into["tools"] = unchanged["tools"]


def _browse_in_turns(
    size: Size, running: Mapping[str, Library], queries: Sequence[str], found: dict[str, Found]
) -> None:
    """One query after another, each to everybody; the peer is left out after its share of them."""
    for name, one in running.items():
        one.ask("refresh")
        found[name]["first"] = [_pair(one.ask("browse", queries=["warm up"]), 0)]
    for place, query in enumerate(queries[: size.queries]):
        for name, one in running.items():
            if name == OWN or place < size.peer_queries:
                found[name]["browse"].append(_pair(one.ask("browse", queries=[query]), 0))


@contextmanager
def _libraries(names: Sequence[str], catalog: Path, *, wide: bool = False) -> Iterator[dict[str, Library]]:
    if not names:
        yield {}
        return
    with library(names[0], catalog, wide=wide) as first, _libraries(names[1:], catalog, wide=wide) as rest:
        yield {names[0]: first, **rest}


def _pair(answer: Mapping[str, Any], place: int | None = None) -> tuple[float, float]:
    """Seconds on the clock and of the processor."""
    if place is None:
        return answer["seconds"], answer["cpu"]
    return answer["seconds"][place], answer["cpu"][place]


def _summed(figures: Found) -> Found:
    summed = {name: _medians(pairs) for name, pairs in figures.items() if isinstance(pairs, list)}
    return {**summed, "tools": figures["tools"]}


def _medians(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    clock, cpu = ([pair[place] for pair in pairs] for place in (0, 1))
    ordered = sorted(clock)
    return {
        "clock": statistics.median(clock),
        "p95": ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))],
        "cpu": statistics.median(cpu),
        "n": len(pairs),
    }


def _ratios(found: Mapping[str, Found]) -> Found:
    """The peer to leafgate: for queries the median over the same queries; else of medians."""
    if PEER not in found or OWN not in found:
        return {}
    ratios = {"browse": _median_ratio(found[PEER]["browse"], found[OWN]["browse"])}
    for measure_name in ("refresh", "unchanged", "first"):
        peer, own = _medians(found[PEER][measure_name]), _medians(found[OWN][measure_name])
        ratios[measure_name] = peer["clock"] / own["clock"]
    return {"ratio": ratios}


def _median_ratio(above: Sequence[tuple[float, float]], below: Sequence[tuple[float, float]]) -> float:
    return statistics.median(a[0] / b[0] for a, b in zip(above, below, strict=False))


def _dev_set(names: Sequence[str], gold: Sequence[Gold], progress: Progress) -> Found:
    """Calls, what a model reads, and recall: on the 304 real tools of the development set."""
    cards = MapFiles().load(CARDS_MAP)
    calls: Found = {name: {"small": [], "large": []} for name in names}
    tokens: Found = {}
    recall: Found = {}
    with _libraries(names, DEV_CATALOG) as running:
        for one in running.values():
            one.ask("refresh")
            one.ask("execute", chars=MEGABYTE, times=1)
        for _ in range(5):
            for name, one in running.items():
                small, large = one.ask("execute", chars=0, times=20), one.ask("execute", chars=MEGABYTE, times=3)
                calls[name]["small"] += list(zip(small["seconds"], small["cpu"], strict=True))
                calls[name]["large"] += list(zip(large["seconds"], large["cpu"], strict=True))
                tokens[name] = {"small result": len(cards.encode(small["text"]))}
                tokens[name]["1 MB result"] = len(cards.encode(large["text"]))
        for name, one in running.items():
            progress(f"libraries: recall of {name}")
            found = one.ask("browse", queries=[each.query for each in gold])["found"]
            recall[name] = _hits(found, gold)
            tokens[name] |= _page_tokens(one, found, gold, lambda text: len(cards.encode(text)))
    if PEER in names:
        with library(PEER, DEV_CATALOG, wide=True) as one:
            progress(f"libraries: recall of {PEER}, widest search")
            one.ask("refresh")
            found = one.ask("browse", queries=[each.query for each in gold])["found"]
            recall[f"{PEER}, widest search"] = _hits(found, gold)
    return {"calls": _calls(calls), "tokens": tokens, "recall": recall}


def _page_tokens(one: Library, found: Sequence[Any], gold: Sequence[Gold], count: Callable[[str], int]) -> Found:
    """Tokens of the pages with ten cards."""
    full = [each.query for each, cards in zip(gold, found, strict=True) if len(cards) == 10]
    counted = sorted(count(text) for text in one.ask("pages", queries=full)["texts"])
    return {"ten cards": statistics.median(counted), "ten cards, most": counted[-1], "pages of ten": len(counted)}


def _hits(found: Sequence[Sequence[Sequence[str]]], gold: Sequence[Gold]) -> dict[str, float]:
    """The share of queries with a right tool among the first k."""
    rows = [[tuple(name) in each.relevant for name in ranking] for ranking, each in zip(found, gold, strict=True)]
    return {f"hit@{k}": sum(any(row[:k]) for row in rows) / len(rows) for k in (1, 5, 10)} | {"queries": len(rows)}


def _calls(calls: Mapping[str, Found]) -> Found:
    summed: Found = {name: {kind: _medians(pairs) for kind, pairs in each.items()} for name, each in calls.items()}
    if PEER in calls:
        summed["ratio"] = {kind: _median_ratio(calls[PEER][kind], calls[OWN][kind]) for kind in ("small", "large")}
    return summed


def _profiles(size: Size, gold: Sequence[Gold], folder: Path) -> Found:
    """Where leafgate's time goes at the largest size."""
    with library(OWN, catalog_file(size.tools, folder)) as one:
        one.ask("refresh")
        browse = one.ask("profile", queries=[each.query for each in gold[: size.queries]])["rows"]
        return {"tools": size.tools, "browse": browse, "refresh": one.ask("profile", queries=[])["rows"]}
