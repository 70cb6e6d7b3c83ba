"""A gateway process in front of servers that go wrong, the client at it, and the back door to each server.

Starts processes and ends them. What the gateway logs is kept in a file, which some tests read as an operator would.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from warm_python import PYTHON

ROOT = Path(__file__).resolve().parents[2]
LEAFGATE = ROOT / ".venv" / "bin" / "leafgate"
SERVER = ROOT / "tests" / "servers" / "faulty.py"
PATIENCE = 60


@dataclass(frozen=True)
class Faulty:
    """One faulty server: how the gateway starts it, and what it leaves in its folder."""

    name: str
    folder: Path
    block: Mapping[str, Any]

    @property
    def pid(self) -> int:
        return int((self.folder / "pid").read_text())

    @property
    def starts(self) -> int:
        file = self.folder / "starts"
        return int(file.read_text() or 0) if file.exists() else 0

    def seen(self) -> list[dict[str, Any]]:
        """Every message that it has read."""
        file = self.folder / "seen.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        # The last line may be in the middle of being written.
        return [json.loads(line) for line in lines if line.endswith("}")]

    def saw(self, method: str) -> list[dict[str, Any]]:
        return [message for message in self.seen() if message.get("method") == method]

    def called(self, tool: str) -> bool:
        return any(message["params"]["name"] == tool for message in self.saw("tools/call"))

    def is_running(self) -> bool:
        """Whether the last process that was started as this server is still there."""
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


def faulty(tmp_path: Path, name: str = "faulty", *, env: Mapping[str, str] | None = None, **settings: Any) -> Faulty:
    """A server for a configuration; `settings` are the gateway's for it, such as timeout."""
    folder = tmp_path / name
    folder.mkdir()
    block = {
        "command": sys.executable,
        "args": [str(SERVER)],
        "env": {"FAULTY_FOLDER": str(folder), **(env or {})},
        **settings,
    }
    return Faulty(name, folder, block)


@dataclass(frozen=True)
class Gate:
    """A client that is connected to a gateway."""

    client: Client
    log: Path

    async def ids(self, server: str = "faulty") -> dict[str, str]:
        """The ids of a server's tools, by name; empty while the gateway does not know it."""
        page = await self.client.call_tool("tool_browse", {"path": f"/{server}"})
        found: dict[str, str] = {}
        places = [line.split(" ")[0] for line in text_of(page).splitlines()] if not page.is_error else []
        for place in places:
            found |= await self.ids(place[1:]) if place.startswith("/") else {place.split("#")[0].split(":")[1]: place}
        return found

    async def call(self, tool: str, server: str = "faulty", **args: Any) -> Any:
        """The result of a tool, whatever it is."""
        tool_id = (await self.ids(server))[tool]
        return await self.client.call_tool("tool_execute", {"tool_id": tool_id, "args": args})

    async def answer(self, tool: str, server: str = "faulty", **args: Any) -> str:
        """The text of a result that is no error."""
        result = await self.call(tool, server, **args)
        assert not result.is_error, text_of(result)
        return text_of(result)

    async def error(self, tool: str, server: str = "faulty", **args: Any) -> dict[str, Any]:
        """The error that a call ends with."""
        return error_of(await self.call(tool, server, **args))

    async def recovered(self, server: str = "faulty") -> None:
        """Waits until calls succeed again; meanwhile they may fail only as unavailable."""

        async def succeeds() -> bool:
            result = await self.call("echo", server, text="back again")
            if result.is_error:
                assert error_of(result)["error"] == "UPSTREAM_UNAVAILABLE"
                return False
            return text_of(result) == "back again"

        await until(succeeds)


@asynccontextmanager
async def gateway(tmp_path: Path, *servers: Faulty, **client_options: Any) -> AsyncIterator[Gate]:
    """A gateway as a client's child, in front of these servers."""
    log = tmp_path / "gateway.log"
    args = ["serve", "--config", str(_config(tmp_path, servers))]
    with log.open("w") as errlog, anyio.fail_after(2 * PATIENCE):
        transport = stdio_client(StdioServerParameters(command=PYTHON, args=[str(LEAFGATE), *args]), errlog=errlog)
        async with Client(transport, read_timeout_seconds=PATIENCE, **client_options) as client:
            yield Gate(client, log)
    assert [server.name for server in servers if server.is_running()] == []


@contextmanager
def http_gateway(tmp_path: Path, *servers: Faulty) -> Iterator[subprocess.Popen[str]]:
    """A gateway that an operator started; its `url` is an attribute of the process."""
    command = [str(LEAFGATE), "serve", "--transport", "http", "--port", "0"]
    with (tmp_path / "gateway.log").open("w") as errlog:
        process = subprocess.Popen(
            [*command, "--config", str(_config(tmp_path, servers))], stdout=subprocess.PIPE, stderr=errlog, text=True
        )
        try:
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=PATIENCE)
            process.kill()


def url_of(process: subprocess.Popen[str]) -> str:
    """Where a gateway that has just been started can be reached."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"(http://\S+/mcp)", line)
        if found:
            return found.group(1)
    raise AssertionError(f"the gateway ended with {process.wait()}")


def _config(tmp_path: Path, servers: tuple[Faulty, ...]) -> Path:
    file = tmp_path / "gateway.json"
    file.write_text(json.dumps({"mcpServers": {server.name: server.block for server in servers}}))
    return file


async def until(holds: Callable[[], Awaitable[bool] | bool]) -> None:
    """Waits until this holds; fails if it never does."""
    with anyio.fail_after(PATIENCE):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await anyio.sleep(0.05)


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def error_of(result: Any) -> dict[str, Any]:
    assert result.is_error, text_of(result)
    return json.loads(text_of(result))
