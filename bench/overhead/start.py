"""How long a gateway takes to its first answers. Out: seconds from the start of the process, by what is waited for.

Touches processes, loopback and temporary files. Two moments: the first answer to tools/list, and the first answer that
knows the tools of the servers behind the gateway, which start when it does.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from lean_client import LeanClient
from targets import ECHO, LEAFGATE, Plan, Target, leafgate, started

THOUSAND: Final = (sys.executable, (str(ECHO), "--tools", "1000"))
LIMIT_SECONDS: Final = 30

Question = tuple[str, dict[str, Any]]

LIST: Final[Question] = ("tools/list", {})
BROWSE: Final[Question] = ("tools/call", {"name": "tool_browse", "arguments": {"query": "find an invoice or a note"}})


def measure_starts(times: int) -> dict[str, list[float]]:
    demo = Plan("demo", lambda port, _: [str(LEAFGATE), "serve", "--transport", "http", "--port", str(port)])
    starts: list[tuple[str, Plan, Question, bytes]] = [
        ("2 demo servers", demo, BROWSE, b"notes:"),
        ("1,000 tools", leafgate("many", {"mode": "gateway"}, "tool_execute", THOUSAND), BROWSE, b"_invoice_"),
        (
            "1,000 tools, passthrough",
            leafgate("native", {"mode": "passthrough"}, upstream=THOUSAND),
            LIST,
            b"_invoice_",
        ),
    ]
    found: dict[str, list[float]] = {}
    for _ in range(times):
        for words, plan, question, sign in starts:
            begun = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder, started(plan, Path(folder)) as target:
                first, knowing = asyncio.run(_first_answers(target, begun, question, sign))
            found.setdefault(f"tools/list, {words}", []).append(round(first, 3))
            found.setdefault(f"{question[1].get('name', question[0])} with its tools, {words}", []).append(
                round(knowing, 3)
            )
    return found


async def _first_answers(target: Target, begun: float, question: Question, sign: bytes) -> tuple[float, float]:
    while time.perf_counter() - begun < LIMIT_SECONDS:
        client = LeanClient(target.url, "stateless")
        try:
            await client.connect()
            await client.ask(*LIST)
            first = time.perf_counter() - begun
            while sign not in await client.ask(*question):
                await asyncio.sleep(0.02)
                if time.perf_counter() - begun > LIMIT_SECONDS:
                    break
            return first, time.perf_counter() - begun
        except OSError:
            await asyncio.sleep(0.01)
        finally:
            await client.close()
    raise SystemExit(f"{target.name}: the gateway did not start")
