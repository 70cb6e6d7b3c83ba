"""What the suite is run against: the reference server itself, leafgate in each mode, and peers.

A subject is a command that serves at a port or over stdio, with the reference server behind it. Touches: processes,
loopback, a folder for configurations and logs. Ends what it started, children included.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
from connections import Connection, MetaToolConnection, TransparentConnection, Transport
from mcp import StdioServerParameters
from race.peers import FASTMCP, INSTALL_SECONDS, MCP_PROXY, PEERS, ROOT, program
from race.peers import install as install_python
from warm_python import PYTHON

REFERENCE: Final = (PYTHON, str(ROOT / "tests" / "servers" / "reference_server.py"), "--rich")
LEAFGATE: Final = str(ROOT / ".venv" / "bin" / "leafgate")
NPM: Final = PEERS / "npm"
SUPERGATEWAY: Final = "supergateway@4.0.0"
NPM_MCP_PROXY: Final = "mcp-proxy@6.7.19"
READY_SECONDS: Final = 60
STOP_SECONDS: Final = 10
BUDGET: Final = 20_000
FEW: Final = 4  # some peers start a process for each request; how they bear many calls at once is a check of its own


@dataclass(frozen=True)
class Behind:
    """The server behind a subject: a command over stdio, or a URL with its transport."""

    command: tuple[str, ...] = ()
    url: str = ""
    transport: Transport = "stdio"

    def as_config(self) -> dict[str, Any]:
        """As clients' files spell it."""
        if self.url:
            return {"type": self.transport, "transport": self.transport, "url": self.url}
        return {"command": self.command[0], "args": list(self.command[1:])}


Command = Callable[[Transport, Behind, int, Path], Sequence[str]]
"""The command that serves over this transport, at this port, with that server behind, and a folder for its files."""


@dataclass(frozen=True)
class Subject:
    """What a client is connected to. `behind` names the transport to the server for each transport to the client."""

    name: str
    about: str
    command: Command
    behind: Mapping[Transport, Transport] = field(
        default_factory=lambda: {"http": "stdio", "stdio": "http", "sse": "sse"}
    )
    connection: type[Connection] = Connection
    paths: Mapping[Transport, str] = field(default_factory=lambda: {"http": "/mcp", "sse": "/sse"})
    package: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    checks_at_once: int = 100


def _direct(transport: Transport, behind: Behind, port: int, folder: Path) -> Sequence[str]:
    options = {"stdio": ["--stdio"], "http": ["--port", str(port)], "sse": ["--sse-port", str(port)]}
    return [*REFERENCE, *options[transport]]


DIRECT: Final = Subject("direct", "the reference server itself", _direct, behind={})


def _leafgate(mode: str, connection: type[Connection]) -> Subject:
    def command(transport: Transport, behind: Behind, port: int, folder: Path) -> Sequence[str]:
        servers = {"mcpServers": {"reference": {key: behind.as_config()[key] for key in _keys(behind)}}}
        # A larger budget than the default one: what is withheld is read to its end in tens of pages, not hundreds.
        config = _written(folder / f"{mode}-{port}.yaml", {"mode": mode, "budget": BUDGET, **servers})
        listen = [] if transport == "stdio" else ["--transport", transport, "--port", str(port)]
        return [PYTHON, LEAFGATE, "serve", *listen, "--log-level", "error", "--config", str(config)]

    return Subject(f"leafgate {mode}", f"leafgate in mode {mode}", command, connection=connection)


def _keys(behind: Behind) -> tuple[str, ...]:
    return ("type", "url") if behind.url else ("command", "args")


LEAFGATES: Final = (
    _leafgate("passthrough", Connection),
    _leafgate("transparent", TransparentConnection),
    _leafgate("gateway", MetaToolConnection),
)


def _fastmcp(transport: Transport, behind: Behind, port: int, folder: Path) -> Sequence[str]:
    entry = {key: value for key, value in behind.as_config().items() if key != "type"}
    config = _written(folder / f"fastmcp-{port}.json", {"mcpServers": {"reference": entry}})
    listen = [] if transport == "stdio" else ["--host", "127.0.0.1", "--port", str(port)]
    serve = ["run", str(config), "--transport", transport, *listen, "--no-banner", "--log-level", "ERROR"]
    return [str(program(FASTMCP, "fastmcp")), *serve]


def _mcp_proxy(transport: Transport, behind: Behind, port: int, folder: Path) -> Sequence[str]:
    proxy = [str(program(MCP_PROXY, "mcp-proxy")), "--log-level", "ERROR"]
    if behind.url:
        return [*proxy, "--transport", "streamablehttp", behind.url]
    return [*proxy, "--host", "127.0.0.1", "--port", str(port), "--pass-environment", "--", *behind.command]


def _supergateway(transport: Transport, behind: Behind, port: int, folder: Path) -> Sequence[str]:
    gateway = [str(NPM / SUPERGATEWAY / "node_modules" / ".bin" / "supergateway"), "--logLevel", "none"]
    if behind.url:
        return [*gateway, "--streamableHttp", behind.url]
    output = ["--outputTransport", *(["streamableHttp", "--stateful"] if transport == "http" else ["sse"])]
    return [*gateway, "--stdio", shlex.join(behind.command), *output, "--port", str(port)]


def _npm_mcp_proxy(transport: Transport, behind: Behind, port: int, folder: Path) -> Sequence[str]:
    proxy = str(NPM / NPM_MCP_PROXY / "node_modules" / ".bin" / "mcp-proxy")
    return [proxy, "--port", str(port), "--host", "127.0.0.1", "--", *behind.command]


PEER_SUBJECTS: Final = (
    Subject(
        "fastmcp",
        "PyPI fastmcp, `fastmcp run` with a client's file",
        _fastmcp,
        package=FASTMCP,
        checks_at_once=FEW,
        environment={"FASTMCP_CHECK_FOR_UPDATES": "off", "FASTMCP_LOG_LEVEL": "ERROR"},
    ),
    Subject(
        "PyPI mcp-proxy",
        "PyPI mcp-proxy",
        _mcp_proxy,
        behind={"http": "stdio", "stdio": "http", "sse": "stdio"},
        package=MCP_PROXY,
        checks_at_once=FEW,
    ),
    Subject(
        "supergateway",
        "npm supergateway",
        _supergateway,
        behind={"http": "stdio", "stdio": "http", "sse": "stdio"},
        package=SUPERGATEWAY,
        checks_at_once=FEW,
    ),
    Subject(
        "npm mcp-proxy",
        "npm mcp-proxy",
        _npm_mcp_proxy,
        behind={"http": "stdio", "sse": "stdio"},
        package=NPM_MCP_PROXY,
        checks_at_once=FEW,
    ),
)


def install(subject: Subject) -> str | None:
    """Install the package of a peer, unless it is there; returns what went wrong, if anything did."""
    if "==" in subject.package:
        return install_python(subject.package)
    folder = NPM / subject.package
    stamp = folder / "stamp"
    if stamp.is_file():
        return None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"name": "peer", "private": true}')
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), subject.package]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if ran.returncode:
        return f"not installed: {' '.join(ran.stderr.split())[-160:]}"
    stamp.touch()
    return None


def _written(file: Path, content: Mapping[str, Any]) -> Path:
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def transports_of(subject: Subject) -> tuple[Transport, ...]:
    """The transports that a client can use."""
    return tuple(subject.behind) or ("http", "stdio", "sse")


@asynccontextmanager
async def running(
    subject: Subject, transport: Transport, folder: Path
) -> AsyncIterator[Callable[[], str | StdioServerParameters]]:
    """What a client connects to, while the processes run. Over stdio each client starts a process of its own."""
    async with _server_behind(subject.behind.get(transport), folder) as behind:
        if transport == "stdio":
            command = subject.command("stdio", behind, _free_port(), folder)
            environment = {**os.environ, **subject.environment}
            yield lambda: StdioServerParameters(command=command[0], args=[*command[1:]], env=environment)
            return
        port = _free_port()
        command = subject.command(transport, behind, port, folder)
        async with _listening(command, port, subject.environment, folder):
            yield lambda: f"http://127.0.0.1:{port}{subject.paths[transport]}"


@asynccontextmanager
async def _server_behind(transport: Transport | None, folder: Path) -> AsyncIterator[Behind]:
    if transport is None:
        yield Behind()
    elif transport == "stdio":
        yield Behind((*REFERENCE, "--stdio"))
    else:
        port = _free_port()
        path = "/mcp" if transport == "http" else "/sse"
        async with _listening(_direct(transport, Behind(), port, folder), port, {}, folder):
            yield Behind(url=f"http://127.0.0.1:{port}{path}", transport=transport)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as finder:
        return int(finder.getsockname()[1])


@asynccontextmanager
async def _listening(
    command: Sequence[str], port: int, environment: Mapping[str, str], folder: Path
) -> AsyncIterator[None]:
    """A process that takes connections at this port; ended afterwards with its children, by their process group."""
    log = folder / f"{port}.log"
    with log.open("wb") as output:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    try:
        await _wait_for_port(process, port, log)
        yield
    finally:
        with anyio.CancelScope(shield=True):
            _signal_group(process.pid, signal.SIGTERM)
            with anyio.move_on_after(STOP_SECONDS):
                await process.wait()
            _signal_group(process.pid, signal.SIGKILL)
            await process.aclose()


async def _wait_for_port(process: Any, port: int, log: Path) -> None:
    with anyio.move_on_after(READY_SECONDS):
        while process.returncode is None:
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
            except OSError:
                await anyio.sleep(0.05)
            else:
                return
    output = await anyio.Path(log).read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"the process did not come up: {output[-500:]}")


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return
