"""Traffic whose every answer is checked: clients of both eras, over any number of gateways. In: addresses. Out: Tally.

A call carries a mark of its own; the answer has to carry the same, with the digest of what follows it. Who is cut off
asks again, at the next gateway, and counts that: tests/servers/echo.py writes down each call that reached it.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

import anyio
import httpx2
from servers.echo_answer import answer_to

Era = Literal["stateless", "handshake"]

STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"
ATTEMPTS = 8
PAUSE_SECONDS = 0.5
LARGE = 60_000
NEWEST = 3
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "traffic", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HELLO = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "traffic", "version": "1"}}
_ID = re.compile(r"echo:echo#[0-9a-f]{8}")
_HANDLE = re.compile(r'"handle":"([0-9a-f]{24})"')


@dataclass
class Tally:
    """What came of all calls."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    cut_off: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    reopened: int = 0
    attempts: Counter[str] = field(default_factory=Counter)
    answered: set[str] = field(default_factory=set)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def percentile(self, operation: str, share: float) -> float:
        taken = sorted(self.seconds[operation])
        return taken[min(len(taken) - 1, int(len(taken) * share))]

    def check_calls(self, call_log: Path) -> None:
        """Every answered call was made, and none more often than it was asked for."""
        made = Counter(call_log.read_text().split())
        assert not self.answered - made.keys()
        twice = {mark: times for mark, times in made.items() if times > self.attempts[mark]}
        assert not twice, twice


class CutOff(Exception):
    """No answer came, from any gateway."""


class Refused(Exception):
    """The gateway answered with one of its errors."""


class Caller:
    """One client. Its requests go to the gateways in turn."""

    def __init__(self, name: str, gateways: Sequence[Callable[[], str]], era: Era, tally: Tally) -> None:
        self._name = name
        self._gateways = gateways
        self._era: Era = era
        self._tally = tally
        self._random = Random(name)
        self._http = httpx2.AsyncClient(timeout=60, verify=False)  # loopback: reading certificates takes a while
        self._turn = self._random.randrange(len(gateways))
        self._number = 0
        self._session: str | None = None
        self._tool_id = ""
        self._handles: dict[str, str] = {}  # the newest: a store keeps only so much for one owner

    async def run(self, until: float) -> None:
        """Calls until that time; at most `ATTEMPTS` for each."""
        async with self._http:
            while time.monotonic() < until:
                operation = self._random.choice(("browse", "execute", "execute", "large", "view", "browse"))
                started = time.monotonic()
                try:
                    await getattr(self, f"_{operation}")()
                except Refused as refusal:
                    self._tally.refused[str(refusal)] += 1
                    await anyio.sleep(PAUSE_SECONDS)
                except CutOff as cut:
                    self._tally.lost.append(str(cut))
                else:
                    self._tally.right += 1
                    self._tally.seconds.setdefault(operation, []).append(time.monotonic() - started)

    async def _browse(self) -> None:
        text = await self._call("tool_browse", {"query": "echo a mark"})
        found = _ID.search(text)
        if found is None:
            self._wrong("browse", text)
            raise Refused("no card")
        self._tool_id = found.group()

    async def _execute(self) -> None:
        mark, text = await self._echo(0)
        if text.strip() != answer_to(mark, 0).strip():
            self._wrong(mark, text)

    async def _large(self) -> None:
        mark, text = await self._echo(LARGE)
        found = _HANDLE.search(text)
        if not text.count(answer_to(mark, LARGE).split("\n", 1)[0]):
            self._wrong(mark, text)
        elif found is not None:
            self._handles[found.group(1)] = mark
            self._handles = dict(list(self._handles.items())[-NEWEST:])

    async def _view(self) -> None:
        if not self._handles:
            return await self._browse()
        handle, mark = self._random.choice(sorted(self._handles.items()))
        selector = {"type": "lines", "start": 1, "end": 2}
        try:
            text = await self._call("tool_view", {"handle": handle, "selector": selector})
        except Refused:
            self._handles.pop(handle)  # kept for a while only, and gone with a store that forgot
            raise
        if answer_to(mark, LARGE).split("\n", 1)[0] not in text:
            self._wrong(mark, text)
        return None

    async def _echo(self, size: int) -> tuple[str, str]:
        if not self._tool_id:
            await self._browse()
        self._number += 1
        mark = f"{self._name}-{self._number}"
        args = {"tool_id": self._tool_id, "args": {"mark": mark, "size": size}}
        text = await self._call("tool_execute", args, mark)
        self._tally.answered.add(mark)
        return mark, text

    def _wrong(self, asked: str, text: str) -> None:
        self._tally.wrong.append(f"{self._name} asked {asked!r} and got {text[:300]!r}")

    async def _call(self, name: str, args: dict[str, Any], mark: str | None = None) -> str:
        """The text of a result. Asks again, elsewhere, where no answer came."""
        for _ in range(ATTEMPTS):
            self._turn = (self._turn + 1) % len(self._gateways)
            if mark is not None:
                self._tally.attempts[mark] += 1
            try:
                return await self._once(self._gateways[self._turn](), name, args)
            except (httpx2.HTTPError, EOFError) as error:
                self._tally.cut_off[type(error).__name__] += 1
                await anyio.sleep(PAUSE_SECONDS)
        raise CutOff(mark or name)

    async def _once(self, url: str, name: str, args: dict[str, Any]) -> str:
        if self._era == "handshake" and self._session is None:
            await self._open(url)
        self._number += 1
        body: dict[str, Any] = {"name": name, "arguments": args}
        if self._era == "stateless":
            body["_meta"] = _META
        answer = await self._post(url, "tools/call", body, self._number)
        if answer.status_code == 404 and self._era == "handshake":  # nobody knows the session any more
            self._session = None
            self._tally.reopened += 1
            raise EOFError
        if answer.status_code in (500, 503):
            raise EOFError
        message = _answer_in(answer)
        if message is None or "result" not in message:
            raise Refused(json.dumps(message)[:200] if message else f"HTTP {answer.status_code}")
        if message["id"] != self._number:
            self._wrong(str(self._number), answer.text)
        text = "\n".join(block["text"] for block in message["result"]["content"] if block["type"] == "text")
        if message["result"].get("isError"):
            raise Refused(_code_in(text))
        return text

    async def _open(self, url: str) -> None:
        answer = await self._post(url, "initialize", _HELLO, 0)
        if answer.status_code != 200:
            raise EOFError
        self._session = answer.headers["mcp-session-id"]

    async def _post(self, url: str, method: str, params: dict[str, Any], id: int) -> httpx2.Response:
        headers = {"accept": "application/json, text/event-stream"}
        headers["mcp-protocol-version"] = HANDSHAKE if self._era == "handshake" else STATELESS
        if self._era == "stateless":
            headers |= {"mcp-method": method, "mcp-name": params["name"]}
        elif self._session is not None:
            headers["mcp-session-id"] = self._session
        request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        return await self._http.post(f"{url}/mcp", json=request, headers=headers)


def _answer_in(answer: httpx2.Response) -> dict[str, Any] | None:
    """The message with the answer; EOFError where a stream broke off before it."""
    if answer.headers.get("content-type", "").startswith("application/json"):
        return dict(answer.json())
    data = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:")]
    messages = [json.loads(line) for line in data if line.strip()]
    last = next((message for message in reversed(messages) if "id" in message and "method" not in message), None)
    if answer.status_code == 200 and last is None:
        raise EOFError
    return last


def _code_in(text: str) -> str:
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text[:80]


async def send_traffic(gateways: Sequence[Callable[[], str]], clients: int, seconds: float) -> Tally:
    """Traffic of this many clients, every other one with a session, for about this long."""
    tally = Tally()
    eras: tuple[Era, Era] = ("stateless", "handshake")
    callers = [Caller(f"c{number}", gateways, eras[number % 2], tally) for number in range(clients)]
    until = time.monotonic() + seconds
    async with anyio.create_task_group() as group:
        for caller in callers:
            group.start_soon(caller.run, until)
    return tally
