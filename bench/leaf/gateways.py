"""The gateways that the benchmark measures: how they are configured, started and called.

A `Way` is one combination of gateway, Node server and question. `start_gateway` starts a real gateway with the servers
that its ways need; `Connection` calls it over one HTTP connection. The client is as lean as the standard library
allows, so that the time measured is the gateway's. Every request has the same id: equal requests have equal answers,
byte for byte.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from leafgate.codec.negotiate import ACCEPT_META_KEY
from leafgate.model.envelope import ACCEPT_FULL
from leafgate.model.errors import LeafgateError
from leafgate.model.request import Form
from leafgate.version import __version__

Tokenizer = Literal["tiktoken", "accelerated"]
# Leaf servers by their check. The first three know nothing of wishes and send arrays; the next two follow them.
ServerName = Literal["canonical", "decode", "trust", "packed", "sampled", "plain"]
Outcome = Literal["leaf", "shim", "none"]

MAP: Final = "qwen/qwen2"
START_SECONDS: Final = 60
STOP_SECONDS: Final = 15
ANSWER_SECONDS: Final = 60
# More tokens than a megabyte can have: nothing is shortened, and nothing is counted to find that out.
BUDGET: Final = 10_000_000
_SCHED_CLOCK: Final = 2  # the clock of a whole process, with the threads that have ended

TOOL: Final = "text"
JSON_ONLY: Final = "application/json, text/event-stream"
STATELESS_VERSION: Final = "2026-07-28"
STATELESS_META: Final = {
    "io.modelcontextprotocol/protocolVersion": STATELESS_VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "leafgate-bench", "version": __version__},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True)
class Way:
    """One gateway, one server behind it, and whether the client asks for ids, and for packed ones."""

    key: str
    title: str
    gateway: Tokenizer
    server: ServerName
    outcome: Outcome
    packed: bool = False

    @property
    def wants_ids(self) -> bool:
        return self.outcome != "none"


NO_IDS: Final = Way("no-ids", "no ids", "tiktoken", "plain", "none")
UNASKED: Final = Way("leaf-unasked", "no ids, leaf server", "tiktoken", "decode", "none")
NONE_WANTED: Final = Way("leaf-none-wanted", "no ids, leaf server that is told", "tiktoken", "packed", "none")
SHIM: Final = Way("shim-tiktoken", "shim (tiktoken)", "tiktoken", "plain", "shim")
FAST_SHIM: Final = Way("shim-accelerated", "shim (accelerated)", "accelerated", "plain", "shim")
FAST_PACKED_SHIM: Final = Way(
    "shim-packed-accelerated", "shim packed (accelerated)", "accelerated", "plain", "shim", packed=True
)
CANONICAL: Final = Way("leaf-canonical", "leaf-canonical", "tiktoken", "canonical", "leaf")
FAST_CANONICAL: Final = Way(
    "leaf-canonical-accelerated", "leaf-canonical (accelerated)", "accelerated", "canonical", "leaf"
)
DECODE: Final = Way("leaf-decode", "leaf-decode", "tiktoken", "decode", "leaf")
TRUST: Final = Way("leaf-trust", "leaf-trust", "tiktoken", "trust", "leaf")

PACKED: Final = Way("leaf-packed", "leaf-decode packed", "tiktoken", "packed", "leaf", packed=True)
SAMPLED: Final = Way("leaf-sampled", "leaf-sampled packed", "tiktoken", "sampled", "leaf", packed=True)
FAST_SAMPLED: Final = Way(
    "leaf-sampled-accelerated", "leaf-sampled packed (accelerated)", "accelerated", "sampled", "leaf", packed=True
)

SHIMS: Final = (SHIM, FAST_SHIM, FAST_PACKED_SHIM)
LEAVES: Final = (CANONICAL, FAST_CANONICAL, DECODE, TRUST, PACKED, SAMPLED, FAST_SAMPLED)
WAYS: Final = (NO_IDS, *SHIMS, *LEAVES, UNASKED, NONE_WANTED)


def ways_with(tokenizers: frozenset[Tokenizer]) -> tuple[Way, ...]:
    """Return the ways whose tokenizer is installed."""
    return tuple(way for way in WAYS if way.gateway in tokenizers)


def servers_of(gateway: Tokenizer) -> tuple[ServerName, ...]:
    """Return the servers that a gateway needs for its ways, each once."""
    return tuple(dict.fromkeys(way.server for way in WAYS if way.gateway == gateway))


@dataclass(frozen=True)
class Program:
    """The benchmark's server: Node and the script."""

    node: str
    script: Path


@dataclass(frozen=True)
class Gateway:
    """A running gateway: its address, its process id, and the process ids of its servers."""

    url: str
    pid: int
    servers: Mapping[ServerName, int]


def settings(gateway: Tokenizer, program: Program, texts: Path) -> dict[str, Any]:
    """Return a gateway's configuration, with a server for each of its ways."""
    return {
        "mode": "passthrough",
        "budget": BUDGET,
        "accelerate": "auto" if gateway == "accelerated" else "off",
        "dashboard": False,
        "mcpServers": {name: _server(name, program, texts) for name in servers_of(gateway)},
    }


def _server(name: ServerName, program: Program, texts: Path) -> dict[str, Any]:
    form = "plain" if name == "plain" else "wish" if name in ("packed", "sampled") else "leaf"
    check = {} if name == "plain" else {"check": "decode" if name == "packed" else name}
    return {"command": program.node, "args": [str(program.script), str(texts), form, MAP, name], **check}


@contextmanager
def start_gateway(name: Tokenizer, program: Program, texts: Path) -> Iterator[Gateway]:
    """Start a gateway, wait until all its servers are up, and stop it at the end."""
    config = texts.with_name(f"{name}.json")
    config.write_text(json.dumps(settings(name, program, texts)), encoding="utf-8")
    command = [sys.executable, "-m", "leafgate.cli", "serve", "--transport", "http", "--port", "0"]
    with texts.with_name(f"{name}.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*command, "--config", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            url = _address(process, Path(log.name))
            _wait_for_servers(url, name)
            yield Gateway(url, process.pid, _server_pids(process.pid, servers_of(name)))
        finally:
            _stop(process)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        output = log.read_text(encoding="utf-8", errors="replace")
        match = re.search(r"MCP endpoint (http://127\.0\.0\.1:\d+)/mcp", output)
        if match:
            return match[1]
        if process.poll() is not None:
            raise LeafgateError(f"the measured gateway ended with {process.returncode}: {output[-500:].strip()}")
        time.sleep(0.05)
    raise LeafgateError(f"the measured gateway did not start within {START_SECONDS} s")


def _wait_for_servers(url: str, name: Tokenizer) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with Connection(url) as connection:
            upstreams = connection.status()["upstreams"]
        ready = {upstream["name"] for upstream in upstreams if upstream["tools"]}
        if ready >= {*servers_of(name)}:
            return
        time.sleep(0.1)
    raise LeafgateError("the benchmark's Node servers did not start; run `node bench/leaf/server.mjs` to see why")


def _server_pids(gateway: int, servers: tuple[ServerName, ...]) -> dict[ServerName, int]:
    """Find the process of each server: its last argument is the server's name."""
    pids: dict[str, int] = {}
    for children in Path(f"/proc/{gateway}/task").glob("*/children"):
        for pid in children.read_text().split():
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            pids |= dict.fromkeys(arguments[-2:-1], int(pid))
    if not pids.keys() >= {*servers}:
        raise LeafgateError("the benchmark's Node servers ended as soon as they had started")
    return {server: pids[server] for server in servers}


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far, all threads together. On Linux each process has a clock by its id."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _SCHED_CLOCK) / 1e9
    except OSError:
        raise LeafgateError("a measured process is gone, or this system does not report its CPU time") from None


def can_measure() -> bool:
    """Return whether this system reports the CPU time of another process."""
    try:
        return cpu_seconds(os.getpid()) > 0
    except (LeafgateError, AttributeError):
        return False


@dataclass(frozen=True)
class Answer:
    """The body as received, and the time from the first byte sent to the last one read."""

    body: bytes
    seconds: float
    media_type: str
    encoding: str


class Connection:
    """One HTTP connection to a gateway. A gateway closes an idle one after seconds: open a new one for each round."""

    def __init__(self, url: str) -> None:
        self._http = HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def call(
        self, server: str, text: str, meta: Mapping[str, Any], *, accept: str = JSON_ONLY, encoding: str = "identity"
    ) -> Answer:
        """Call the server's tool for the text of this name."""
        name = f"{server}__{TOOL}"
        params = {"name": name, "arguments": {"name": text}, "_meta": {**STATELESS_META, **meta}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "content-type": "application/json",
            "accept": accept,
            "accept-encoding": encoding,
            "mcp-protocol-version": STATELESS_VERSION,
            "mcp-method": "tools/call",
            "mcp-name": name,
        }
        return self._send("POST", "/mcp", json.dumps(message, separators=(",", ":")).encode(), headers)

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self._send("GET", "/status", None, {}).body)
        return status

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        start = time.perf_counter()
        try:
            self._http.request(method, path, body, dict(headers))
            with closing(self._http.getresponse()) as response:
                content = response.read()
        except (OSError, HTTPException) as error:
            raise LeafgateError(f"the measured gateway did not answer: {type(error).__name__}") from None
        seconds = time.perf_counter() - start
        if response.status != 200:
            raise LeafgateError(f"the measured gateway answered with HTTP {response.status}: {content[:300]!r}")
        kind, coding = response.getheader("content-type", ""), response.getheader("content-encoding", "identity")
        return Answer(content, seconds, kind, coding)


def ask_for_ids(map_digest: str, form: Form, *, packed: bool = False) -> dict[str, Any]:
    """Return the `_meta` of a request that asks for ids (spec 6.1), and for an envelope that says how they came."""
    accept = {"map_id": map_digest, "form": form, **({"packed": True} if packed else {})}
    return {ACCEPT_META_KEY: accept, **ACCEPT_FULL}
