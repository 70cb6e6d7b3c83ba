"""Who races, and how each is set up. In: what stands behind. Out: plans. Touches nothing; a plan writes its own file.

Peers run as they say themselves for this use. fastmcp runs twice: from its command line, and in the other way that it
offers, with one session kept open to the server behind. mcp-proxy cannot go from HTTP to HTTP by itself: there a second
one of it stands behind the first. contextweaver gets its token ranks from a folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from peers import CONTEXTWEAVER, FASTMCP, MCP_PROXY, RANKS, ROOT, program
from processes import Form, Plan

LEAFGATE: Final = ROOT / ".venv" / "bin" / "leafgate"
ECHO: Final = ROOT / "bench" / "race" / "echo_server.py"
KEPT: Final = ROOT / "bench" / "race" / "fastmcp_kept.py"
QUIET_FASTMCP: Final = {"FASTMCP_CHECK_FOR_UPDATES": "off", "FASTMCP_LOG_LEVEL": "ERROR"}


@dataclass(frozen=True)
class Behind:
    """The server behind: a command over stdio, or a URL."""

    command: tuple[str, ...] = ()
    url: str = ""

    def as_config(self) -> dict[str, Any]:
        """As clients' files spell it."""
        return {"url": self.url} if self.url else {"command": self.command[0], "args": list(self.command[1:])}


def echo_stdio(tools: int = 0) -> Behind:
    return Behind((sys.executable, str(ECHO), "--tools", str(tools)))


def direct() -> Plan:
    """The server by itself, over HTTP."""
    return Plan("direct", lambda port, _: [sys.executable, str(ECHO), "--port", str(port)])


def proxies(behind: Behind) -> list[Plan]:
    """Everybody who can stand in front of a server."""
    return [
        leafgate("leafgate passthrough", {"mode": "passthrough"}, behind),
        leafgate("leafgate gateway", {"mode": "gateway"}, behind, "tool_execute"),
        leafgate("leafgate gateway, ids", {"mode": "gateway", "map": "qwen/qwen2"}, behind, "tool_execute", full=True),
        fastmcp(behind),
        fastmcp_kept(behind),
        mcp_proxy(behind),
        contextweaver(behind),
    ]


def leafgate(
    name: str, settings: Mapping[str, Any], behind: Behind, form: Form = "native", *, full: bool = False
) -> Plan:
    def command(port: int, folder: Path) -> Sequence[str]:
        config = _written(folder / f"leafgate-{port}.json", {**settings, **_servers(behind)})
        serve = ["serve", "--transport", "http", "--port", str(port), "--log-level", "error"]
        return [str(LEAFGATE), *serve, "--config", str(config)]

    return Plan(name, command, form, in_full=full)


def fastmcp(behind: Behind) -> Plan:
    """`fastmcp run` with a client's file: a session to the server behind for every request."""

    def command(port: int, folder: Path) -> Sequence[str]:
        config = _written(folder / f"fastmcp-{port}.json", _servers(behind))
        serve = ["--transport", "http", "--host", "127.0.0.1", "--port", str(port)]
        return [str(program(FASTMCP, "fastmcp")), "run", str(config), *serve, "--no-banner", "--log-level", "ERROR"]

    return Plan("fastmcp run", command, package=FASTMCP, environment=QUIET_FASTMCP)


def fastmcp_kept(behind: Behind) -> Plan:
    """`create_proxy` with a connected client."""

    def command(port: int, folder: Path) -> Sequence[str]:
        config = _written(folder / f"fastmcp-kept-{port}.json", _servers(behind))
        return [str(program(FASTMCP, "python")), str(KEPT), str(config), str(port)]

    return Plan("fastmcp, session kept", command, package=FASTMCP, environment=QUIET_FASTMCP)


def mcp_proxy(behind: Behind) -> Plan:
    name = str(program(MCP_PROXY, "mcp-proxy"))
    quietly = ("--log-level", "ERROR")
    child = behind.command or (name, *quietly, "--transport", "streamablehttp", behind.url)

    def command(port: int, _: Path) -> Sequence[str]:
        return [name, *quietly, "--host", "127.0.0.1", "--port", str(port), "--pass-environment", "--", *child]

    return Plan("mcp-proxy" if behind.command else "mcp-proxy, twice", command, package=MCP_PROXY)


def contextweaver(behind: Behind) -> Plan:
    """`contextweaver mcp serve` in its default mode, the gateway."""

    def command(port: int, folder: Path) -> Sequence[str]:
        kind = "http" if behind.url else "stdio"
        upstream = {"type": kind, "namespace": "echo", **behind.as_config()}
        config = _written(folder / f"contextweaver-{port}.json", {"upstreams": {"echo": upstream}})
        serve = ["mcp", "serve", "--quiet", "--transport", "streamable-http", "--port", str(port)]
        return [str(program(CONTEXTWEAVER, "contextweaver")), *serve, "--config", str(config)]

    ranks = {"TIKTOKEN_CACHE_DIR": str(RANKS)}
    return Plan("contextweaver", command, "tool_execute", package=CONTEXTWEAVER, environment=ranks, path="/mcp/")


def _servers(behind: Behind) -> dict[str, Any]:
    return {"mcpServers": {"echo": behind.as_config()}}


def _written(file: Path, content: Mapping[str, Any]) -> Path:
    file.write_text(json.dumps(content), encoding="utf-8")
    return file
