"""From the start of a process to its first answers, with 1,000 tools behind. Out: seconds, by who and what.

Touches processes, loopback and temporary files. Two moments: the first answer to tools/list, and the first answer that
knows the tools behind. Everybody gets one stdio server with the same tools, and starts in turns. leafgate's index cache
is empty in the first round; peers keep nothing on the disk.
"""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from lean_client import LeanClient, RefusedError
from plans import contextweaver, echo_stdio, fastmcp, fastmcp_kept, leafgate, mcp_proxy
from processes import Plan, Target, started

TOOLS: Final = 1_000
LIMIT_SECONDS: Final = 120.0
SIGN: Final = b"_invoice_"

Progress = Callable[[str], None]
Question = tuple[str, dict[str, Any]]

LIST: Final[Question] = ("tools/list", {})
BROWSE: Final[Question] = ("tools/call", {"name": "tool_browse", "arguments": {"query": "find an invoice or a note"}})


def measure(rounds: int, installed: Mapping[str, str | None], progress: Progress) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = [plan for plan in _plans(folder) if installed.get(plan.package) is None]
        for turn in range(rounds):
            for plan in wanted if turn % 2 == 0 else reversed(wanted):
                progress(f"starts: round {turn + 1} of {rounds}, {plan.name}")
                _start(plan, folder, found.setdefault(plan.name, {"list": [], "tools": [], "failures": []}))
    return {name: _summed(each) for name, each in found.items()}


def _plans(folder: Path) -> list[Plan]:
    behind = echo_stdio(TOOLS)
    own = [
        leafgate("leafgate gateway", {"mode": "gateway"}, behind, "tool_execute"),
        leafgate("leafgate passthrough", {"mode": "passthrough"}, behind),
    ]
    cached = {"XDG_CACHE_HOME": str(folder / "cache")}
    others = [contextweaver(behind), fastmcp(behind), fastmcp_kept(behind), mcp_proxy(behind)]
    return [*(dataclasses.replace(plan, environment=cached) for plan in own), *others]


def _start(plan: Plan, folder: Path, into: dict[str, Any]) -> None:
    question = BROWSE if plan.form == "tool_execute" else LIST
    begun = time.perf_counter()
    with started(plan, folder) as target:
        try:
            first, knowing = asyncio.run(_first_answers(target, begun, question))
        except TimeoutError as error:
            into["failures"].append(str(error))
            return
    into["list"].append(first)
    into["tools"].append(knowing)


async def _first_answers(target: Target, begun: float, question: Question) -> tuple[float, float]:
    while time.perf_counter() - begun < LIMIT_SECONDS and target.process.poll() is None:
        client = LeanClient(target.url, "session")
        try:
            await client.connect()
            await client.ask(*LIST)
            first = time.perf_counter() - begun
            while SIGN not in await client.ask(*question):
                await asyncio.sleep(0.02)
                if time.perf_counter() - begun > LIMIT_SECONDS:
                    raise TimeoutError(f"its tools were not known within {LIMIT_SECONDS:.0f} s")
            return first, time.perf_counter() - begun
        except (OSError, EOFError, RefusedError):
            await asyncio.sleep(0.01)
        finally:
            await client.close()
    raise TimeoutError("ended" if target.process.poll() is not None else f"no answer within {LIMIT_SECONDS:.0f} s")


def _summed(found: dict[str, Any]) -> dict[str, Any]:
    if not found["list"]:
        return {"failures": found["failures"]}
    return {
        "list_s": statistics.median(found["list"]),
        "tools_s": statistics.median(found["tools"]),
        "first_round_tools_s": found["tools"][0],
        "rounds": len(found["list"]),
        "failures": found["failures"],
    }
