"""What leafgate and its peers do with the same five calls. Out: the table of the README, from what is seen here.

Run: `.venv/bin/python bench/comparison/run.py`. Peers are installed at pinned versions into .tools/peers; one that
cannot be is left out. Each stands, at its defaults, in front of probe_server.py, and is asked by the same client.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
from mcp import Client, MCPError, StdioServerParameters
from probe_server import INVISIBLE, LEAF_KEY, RIGHT, SECRET, TOOLS, WRONG

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "race"))
from peers import CONTEXTWEAVER, FASTMCP, MCP_PROXY, PEERS, install  # their versions
from plans import LEAFGATE
from processes import Plan, started

PROBE: Final = Path(__file__).with_name("probe_server.py")
START_SECONDS: Final = 60


@dataclass(frozen=True)
class Seen:
    """What came of the calls through one target."""

    tools: int
    wrong_arguments: str
    long_result: str
    secret: str
    invisible: str
    right_ids: str
    wrong_ids: str
    protocol: str


ROWS: Final = {
    "tools that a client sees": "tools",
    "wrong arguments reach the server": "wrong_arguments",
    "characters of a long result": "long_result",
    "an AWS key in a result": "secret",
    "invisible text in a result": "invisible",
    "token ids that a tool sends": "right_ids",
    "wrong token ids": "wrong_ids",
    "newest protocol": "protocol",
}


class Caller:
    """Calls tools by their own names, by whatever way the target has."""

    def __init__(self, client: Client, names: list[str], log: Path) -> None:
        self._client = client
        self._names = names
        self._log = log

    async def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, list[int] | None, bool]:
        """The text, its ids, and whether the server behind was called."""
        self._log.write_text("")
        try:
            result = await self._client.call_tool(*await self._spelled(name, arguments))
        except MCPError as error:
            return str(error), None, bool(self._log.read_text())
        texts = [block for block in result.content if block.type == "text"]
        leaves = [(block.meta or {}).get(LEAF_KEY) for block in texts]
        ids = next((leaf["ids"] for leaf in leaves if leaf), None)
        return "".join(block.text for block in texts), ids, bool(self._log.read_text())

    async def _spelled(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        if "tool_execute" not in self._names:
            return name, dict(arguments)
        page = await self._client.call_tool("tool_browse", {"query": TOOLS[name]})
        text = "".join(block.text for block in page.content if block.type == "text")
        found = re.search(rf"[\w-]+:{name}#\w+", text)
        if found is None:
            raise LookupError(f"{name} was not found: {text}")
        return "tool_execute", {"tool_id": found[0], "args": dict(arguments)}


async def look(target: str | StdioServerParameters, log: Path) -> Seen:
    async with Client(target) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        caller = Caller(client, names, log)
        _, _, reached = await caller.call("add", {"n": "many"})
        settings, _, _ = await caller.call("settings", {})
        report, _, _ = await caller.call("report", {})
        _, right, _ = await caller.call("clock", {})
        _, wrong, _ = await caller.call("liar", {})
        protocol = client.protocol_version
    return Seen(
        len(names),
        "yes" if reached else "no",
        f"{len(report):,}",
        "passes" if SECRET in settings else "is replaced",
        _fate_of_invisible(settings),
        {None: "are lost", tuple(RIGHT): "pass"}.get(right and tuple(right), "are changed"),
        {None: "are lost", tuple(WRONG): "pass", tuple(RIGHT): "are replaced"}[wrong and tuple(wrong)],
        protocol,
    )


def _fate_of_invisible(text: str) -> str:
    if INVISIBLE in text:
        return "passes"
    return "passes, escaped" if json.dumps(INVISIBLE)[1:-1] in text else "is removed"


def stdio(command: Path | str, *args: str, log: Path) -> StdioServerParameters:
    environment = {**os.environ, "CALL_LOG": str(log), "FASTMCP_CHECK_FOR_UPDATES": "off"}
    return StdioServerParameters(command=str(command), args=[*args], env=environment)


def configured(folder: Path, log: Path) -> dict[str, Callable[[], StdioServerParameters]]:
    """Every target on stdio, by its name; each is called when its turn comes."""
    server = {"command": sys.executable, "args": [str(PROBE)], "env": {"CALL_LOG": str(log)}}
    client_file, own_file, peer_file = folder / "mcp.json", folder / "leafgate.json", folder / "gateway.json"
    client_file.write_text(json.dumps({"mcpServers": {"probe": server}}))
    own_file.write_text(json.dumps({"map": "qwen/qwen2", "mcpServers": {"probe": server}}))
    peer_file.write_text(json.dumps({"upstreams": {"probe": server}}))
    fastmcp, weaver = PEERS / "fastmcp" / "bin" / "fastmcp", PEERS / "contextweaver" / "bin" / "contextweaver"
    quietly = ("--no-banner", "--log-level", "ERROR")
    return {
        "direct": lambda: stdio(sys.executable, str(PROBE), log=log),
        FASTMCP: lambda: stdio(fastmcp, "run", str(client_file), *quietly, log=log),
        CONTEXTWEAVER: lambda: stdio(weaver, "mcp", "serve", "--config", str(peer_file), "--quiet", log=log),
        "leafgate": lambda: stdio(LEAFGATE, "serve", "--config", str(own_file), "--log-level", "error", log=log),
    }


async def look_at_mcp_proxy(folder: Path, log: Path) -> Seen:
    """It serves over HTTP only."""
    program = str(PEERS / "mcp-proxy" / "bin" / "mcp-proxy")

    def command(port: int, _: Path) -> list[str]:
        listen = ["--host", "127.0.0.1", "--port", str(port), "--log-level", "ERROR", "--pass-environment"]
        return [program, *listen, "--", sys.executable, str(PROBE)]

    with started(Plan("mcp-proxy", command, environment={"CALL_LOG": str(log)}), folder) as target:
        _wait_for(int(target.url.rpartition(":")[2].partition("/")[0]))
        return await look(target.url, log)


def _wait_for(port: int) -> None:
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)
        else:
            return


async def main() -> None:
    seen: dict[str, Seen] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "calls.log"
        targets = configured(folder, log)
        for target in ("direct", FASTMCP, MCP_PROXY, CONTEXTWEAVER, "leafgate"):
            problem = install(target) if "==" in target else None
            if problem:
                print(f"{target}: {problem}", file=sys.stderr)
            elif target == MCP_PROXY:
                seen[target] = await look_at_mcp_proxy(folder, log)
            else:
                seen[target] = await look(targets[target](), log)
    print("| | " + " | ".join(seen) + " |\n|---|" + "---|" * len(seen))
    for title, field in ROWS.items():
        print(f"| {title} | " + " | ".join(str(getattr(each, field)) for each in seen.values()) + " |")


if __name__ == "__main__":
    anyio.run(main)
