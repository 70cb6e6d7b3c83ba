"""Run one client library against a gateway in two modes and against the server itself, over stdio and HTTP.

A check is named SIDE/TRANSPORT/NAME. The sides are `gateway` and `passthrough` (modes of leafgate) and `direct` (the
server without a gateway), which shows whether a fault is the library's own. Checks:

    list               the tools that the model would get: the meta-tools, or the server's tools
    call, structured   a short text, and a short record with an output schema
    large, view        a long text is within the budget; `tool_view` reads a withheld line by the handle in that text
    large-record, view-record    the same for a long record with an output schema
    meta               `_meta`, which is for programs, is not part of what the model would get
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import bakery
from client_environments import HERE, ROOT, Library
from warm_python import PYTHON

SIDES: Final = ("gateway", "passthrough", "direct")
TRANSPORTS: Final = ("stdio", "http")
OWN_TOOLS: Final = ("tool_browse", "tool_hydrate", "tool_execute", "tool_view")
SERVER_TOOLS: Final = ("weigh_loaf", "describe_loaf", "print_ledger", "count_stock")
# A budget of 800 tokens is at most about 3,200 characters of English, and a library may wrap them as JSON.
MOST_CHARS: Final = 6_000
ANSWER_SECONDS: Final = 60
START_SECONDS: Final = 60
LONGEST_LINE: Final = 2**25
MIDDLE: Final = bakery.LINES // 2
HANDLE: Final = re.compile(r'tool_view \{\\*"handle\\*": ?\\*"([\w-]+)')
BAKERY: Final[Mapping[str, Any]] = {"command": PYTHON, "args": [str(HERE / "bakery.py")]}

Target = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """The outcome of one check, and the length of what the model would get, in characters."""

    problem: str = ""
    chars: int | None = None


class DriverError(Exception):
    """The driver answered with an error, or not at all."""


@contextmanager
def targets(folder: Path, sides: Collection[str] = SIDES) -> Iterator[dict[str, Target]]:
    """What a library connects to, by SIDE/TRANSPORT. The processes that listen on HTTP live as long as this."""
    home = folder / "home"
    home.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}  # a gateway on stdio stores withheld results below HOME
    leafgate = str(ROOT / ".venv" / "bin" / "leafgate")
    commands: dict[str, list[str]] = {}
    for side in sides:
        config = folder / f"{side}.json"
        config.write_text(json.dumps({"mode": side, "mcpServers": {"bakery": BAKERY}}))
        commands[side] = [PYTHON, leafgate, "serve", "--config", str(config)]
    if "direct" in sides:
        commands["direct"] = [BAKERY["command"], *BAKERY["args"]]
    listening = {side: [*command, "--transport", "http", "--port", "0"] for side, command in commands.items()}
    with (folder / "servers.log").open("wb") as log:
        started = {
            side: subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=env)
            for side, command in listening.items()
        }
    try:
        on_http = {f"{side}/http": {"url": _read_url(process)} for side, process in started.items()}
        on_stdio = {
            f"{side}/stdio": {"command": command, "args": args, "env": env}
            for side, (command, *args) in commands.items()
        }
        yield {**on_stdio, **on_http}
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.communicate(timeout=START_SECONDS)


def _read_url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.search(r"http://\S+/mcp", line):
            return match.group()
    raise AssertionError(f"a server ended with {process.wait()} before it was ready")


@dataclass
class Driver:
    """The process of one library's driver. A driver that does not answer in time is ended."""

    library: Library
    log: Path
    process: asyncio.subprocess.Process | None = field(default=None, init=False)

    async def request(self, **request: Any) -> dict[str, Any]:
        """One request and its answer. Raises DriverError."""
        process = self.process or await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            line = await asyncio.wait_for(process.stdout.readline(), ANSWER_SECONDS)
            answer: dict[str, Any] = json.loads(line)
        except TimeoutError:
            await self.stop()
            raise DriverError(f"no answer within {ANSWER_SECONDS} seconds") from None
        except (ValueError, OSError):
            await self.stop()
            raise DriverError("the driver ended") from None
        if "error" in answer:
            raise DriverError(answer["error"])
        return answer

    async def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.library.command(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=LONGEST_LINE,
            )
        return self.process


async def run_library(
    library: Library, targets: Mapping[str, Target], log: Path, *, is_brief: bool = False
) -> dict[str, Check]:
    """All checks of one library at these targets. A brief run spares calls that would each start a gateway."""
    checks: dict[str, Check] = {}
    driver = Driver(library, log)
    try:
        for name, target in targets.items():
            side, _, transport = name.partition("/")
            few = is_brief and library.session_per_call and transport == "stdio"
            found = await _run_target(driver, side, target, few=few)
            checks |= {f"{name}/{check}": outcome for check, outcome in found.items()}
    finally:
        await driver.stop()
    return checks


async def _run_target(driver: Driver, side: str, target: Target, *, few: bool) -> dict[str, Check]:
    try:
        names = (await driver.request(open=target))["tools"]
    except DriverError as error:
        return {"list": Check(str(error))}
    dialogue = _Dialogue(driver, side, names)
    await dialogue.run(few=few)
    try:
        await driver.request(close=True)
    except DriverError as error:
        dialogue.checks["close"] = Check(str(error))
    return dialogue.checks


class _Dialogue:
    """The calls of one connection, and what they showed."""

    def __init__(self, driver: Driver, side: str, names: list[str]) -> None:
        self.checks: dict[str, Check] = {}
        self._driver, self._side, self._names = driver, side, names
        self._ids: dict[str, str] = {}
        self._texts: list[str] = []

    async def run(self, *, few: bool) -> None:
        """Make all calls, or only those of `large` and `view`."""
        wanted = {"gateway": OWN_TOOLS, "passthrough": (*SERVER_TOOLS, "tool_view"), "direct": SERVER_TOOLS}[self._side]
        missing = [name for name in wanted if self._listed(name) is None]
        self.checks["list"] = Check(f"not listed: {', '.join(missing)}" if missing else "")
        try:
            if self._side == "gateway":
                page = await self._call("tool_browse", {"path": "/bakery"})
                self._ids = {
                    name: found.group() for name in SERVER_TOOLS if (found := re.search(rf"bakery:{name}#\w+", page))
                }
            await self._check_long("large", "view", "print_ledger", {"type": "lines", "start": MIDDLE, "end": MIDDLE})
            if few:
                return
            await self._check_short()
            pointer = f"/loaves/{MIDDLE}"
            await self._check_long("large-record", "view-record", "count_stock", {"type": "json", "pointer": pointer})
        except DriverError as error:
            self.checks.setdefault("call", Check(str(error)))
        notes = [note for note in (bakery.META_NOTE, "leafgate/envelope") if any(note in text for text in self._texts)]
        self.checks["meta"] = Check(f"in the text: {', '.join(notes)}" if notes else "")

    async def _check_short(self) -> None:
        loaf = bakery.loaf(7)
        for check, tool, expected in (
            ("call", "weigh_loaf", f"Loaf 7 weighs {loaf.grams} grams."),
            ("structured", "describe_loaf", loaf.label),
        ):
            try:
                text = await self._call_server(tool, {"number": 7})
                self.checks[check] = Check("" if expected in text else f"not in the text: {expected}", len(text))
            except DriverError as error:
                self.checks[check] = Check(str(error))

    async def _check_long(self, large: str, view: str, tool: str, selector: Mapping[str, Any]) -> None:
        withheld = bakery.loaf(MIDDLE).label
        try:
            text = await self._call_server(tool, {})
        except DriverError as error:
            self.checks[large] = Check(str(error))
            return
        handle = HANDLE.search(text)
        if self._side == "direct":
            problem = "" if withheld in text else "the text is not whole"
        elif len(text) > MOST_CHARS:
            problem = f"{len(text):,} characters reach the model"
        else:
            problem = "" if handle else f"no handle in the text: {text[:200]}"
        self.checks[large] = Check(problem, len(text))
        if self._side == "direct":
            return
        if handle is None:
            self.checks[view] = Check("no handle to read on with")
            return
        try:
            page = await self._call("tool_view", {"handle": handle.group(1), "selector": selector})
            self.checks[view] = Check("" if withheld in page else f"not the withheld part: {page[:200]}", len(page))
        except DriverError as error:
            self.checks[view] = Check(str(error))

    async def _call_server(self, tool: str, args: Mapping[str, Any]) -> str:
        if self._side != "gateway":
            return await self._call(tool, args)
        if tool not in self._ids:
            raise DriverError(f"tool_browse does not show {tool}")
        return await self._call("tool_execute", {"tool_id": self._ids[tool], "args": args})

    async def _call(self, tool: str, args: Mapping[str, Any]) -> str:
        name = self._listed(tool)
        if name is None:
            raise DriverError(f"not listed: {tool}")
        text: str = (await self._driver.request(call=name, args=args))["text"]
        self._texts.append(text)
        return text

    def _listed(self, tool: str) -> str | None:
        """The name under which the library lists a tool: some put the server's name in front."""
        return next((name for name in self._names if re.search(rf"(^|[^a-z]){tool}$", name)), None)
