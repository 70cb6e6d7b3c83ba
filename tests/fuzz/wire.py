"""JSON-RPC garbage for whole gateways, on both transports. In: a gateway. Out: how much of it was sent.

A gateway may refuse in any words, or not answer what is no request; it must be there afterwards, with a right answer.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import httpx2
from gateways import LEAFGATE
from texts import ODD_BYTES, as_json

SECONDS = 60
VERSION = "2025-11-25"
_HELLO = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}}
_METHODS = ("initialize", "tools/list", "tools/call", "resources/read", "prompts/get", "ping", "logging/setLevel",
            "notifications/cancelled", "notifications/initialized", "completion/complete", "nonsense", "")  # fmt: skip
_TOOLS = ("tool_browse", "tool_hydrate", "tool_execute", "tool_view", "resource_browse", "prompt_execute", "none")
_ACCEPTS = ("application/json, text/event-stream", "application/x-codec-msgpack", "*/*", "", "text/html;q=x")
_TYPES = ("application/json", "application/x-codec-msgpack", "text/plain", "application/json; charset=utf-16", "")


class Garbage:
    """Messages that are nearly sound, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def value(self, depth: int = 3) -> Any:
        pick = self._random.choice
        plain = (None, True, -1, 2**70, 1.5, "", "x" * 300, "\u202e", "/github", "notes:search_notes#00000000", {}, [])
        if depth == 0 or self._random.random() < 0.6:
            return pick(plain)
        if self._random.random() < 0.5:
            return [self.value(depth - 1) for _ in range(self._random.randrange(4))]
        keys = (
            "query",
            "tool_id",
            "args",
            "handle",
            "selector",
            "path",
            "_meta",
            "_codec_meta",
            "name",
            "cursor",
            "uri",
        )
        return {pick(keys): self.value(depth - 1) for _ in range(self._random.randrange(4))}

    def message(self) -> Any:
        pick = self._random.choice
        params = {"name": pick(_TOOLS), "arguments": self.value()}
        sound = {
            "jsonrpc": "2.0",
            "id": self._random.randrange(1_000, 2_000),
            "method": pick(_METHODS),
            "params": params,
        }
        for _ in range(self._random.randrange(3)):
            sound[pick((*sound, "result", "error", "extra"))] = self.value()
        if self._random.random() < 0.1:
            sound.pop(pick(tuple(sound)))
        return pick((sound, sound, sound, sound, [sound], self.value()))

    def data(self) -> bytes:
        data = as_json(self.message())
        if self._random.random() < 0.5:
            return data
        at = self._random.randrange(len(data))
        return data[:at] + self._random.choice(ODD_BYTES) + data[at + self._random.randrange(4) :]

    def headers(self) -> dict[str, str]:
        pick = self._random.choice
        found = {"accept": pick(_ACCEPTS), "content-type": pick(_TYPES)}
        odd = {
            "mcp-session-id": "x" * 40,
            "mcp-protocol-version": pick((VERSION, "2026-07-28", "1", "")),
            "x-codec-map": "sha256:0",
            "last-event-id": "none",
            "content-encoding": pick(("gzip", "zstd", "br")),
            "authorization": "Basic x",
        }
        return found | {name: value for name, value in odd.items() if self._random.random() < 0.2}


def feed_http(url: str, inputs: int, seed: int) -> int:
    """Posts garbage, then asks what a client would ask."""
    garbage = Garbage(seed)
    with httpx2.Client(timeout=SECONDS) as client:
        for number in range(inputs):
            data, headers = garbage.data(), garbage.headers()
            with client.stream("POST", f"{url}/mcp", content=data, headers=headers) as answer:
                assert answer.status_code < 500, (number, answer.status_code, data, headers)
        _sound_over_http(client, url)
    return inputs


def _sound_over_http(client: httpx2.Client, url: str) -> None:
    headers = {"accept": _ACCEPTS[0], "mcp-protocol-version": VERSION}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO}
    answer = client.post(f"{url}/mcp", json=hello, headers=headers)
    assert answer.status_code == 200, answer.text
    headers["mcp-session-id"] = answer.headers["mcp-session-id"]
    browse = {"name": "tool_browse", "arguments": {"query": "notes"}}
    asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": browse}
    answer = client.post(f"{url}/mcp", json=asked, headers=headers)
    assert "notes:" in answer.text, answer.text


@contextmanager
def stdio_gateway(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [str(LEAFGATE), "serve", "--log-level", "error", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


def feed_stdio(process: subprocess.Popen[bytes], inputs: int, seed: int) -> int:
    """Writes garbage lines after a sound handshake; every hundred of them a question has to be answered."""
    garbage = Garbage(seed)
    _ask(process, {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": _HELLO})
    _write(process, as_json({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    for number in range(1, inputs + 1):
        # What ends a session, or stands for several lines, is no garbage.
        _write(process, garbage.data().replace(b"\n", b" "))
        if number % 100 == 0 or number == inputs:
            _ask(process, {"jsonrpc": "2.0", "id": f"q{number}", "method": "ping"})
    browse = {"name": "tool_browse", "arguments": {"query": "notes"}}
    answer = _ask(process, {"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": browse})
    assert "notes:" in json.dumps(answer), answer
    return inputs


def _write(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()


def _ask(process: subprocess.Popen[bytes], request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request, past those to what was garbage."""
    assert process.stdout is not None
    _write(process, as_json(request))
    for line in process.stdout:
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") == request["id"]:
            return answer
    raise AssertionError(f"the gateway ended with {process.wait(SECONDS)} before it answered {request}")
