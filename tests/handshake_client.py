"""A client of the handshake era that can talk to any gateway at any time: one session, requests by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2

VERSION = "2025-11-25"
SECONDS = 60


class HandshakeClient:
    """One session. Every request names the gateway that it goes to."""

    def __init__(self, token: str | None = None) -> None:
        self.http = httpx2.Client(timeout=SECONDS)
        self.headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": VERSION}
        if token is not None:
            self.headers["authorization"] = f"Bearer {token}"
        self._last = 0

    def open(self, url: str) -> str:
        """Begins the session, and says its id."""
        hello = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"}}
        answer = self.post(url, "initialize", hello)
        assert answer.status_code == 200, answer.text
        self.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        return self.headers["mcp-session-id"]

    def initialized(self, url: str) -> None:
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert self.http.post(f"{url}/mcp", json=told, headers=self.headers).status_code == 202

    def post(self, url: str, method: str, params: dict[str, Any]) -> httpx2.Response:
        return self.http.post(f"{url}/mcp", json=self.request(method, params), headers=self.headers)

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        return {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}

    def call(self, url: str, name: str, args: dict[str, Any]) -> dict[str, Any]:
        """A tool's result; an assertion where there is none."""
        answer = self.post(url, "tools/call", {"name": name, "arguments": args})
        assert answer.status_code == 200, (answer.status_code, answer.text)
        message = answer_in(answer)
        assert "result" in message, message
        return dict(message["result"])


def answer_in(answer: httpx2.Response) -> dict[str, Any]:
    """The message with the answer, whether it came as JSON or as the last event."""
    if answer.headers["content-type"].startswith("application/json"):
        return dict(answer.json())
    return [message for _, message in events_in(answer.text.splitlines()) if message is not None][-1]


def events_in(lines: Iterator[str] | list[str]) -> Iterator[tuple[str | None, dict[str, Any] | None]]:
    """Ids and messages of a stream, as they come."""
    id, data = None, ""
    for line in lines:
        if line.startswith("id:"):
            id = line.removeprefix("id:").strip()
        elif line.startswith("data:"):
            data += line.removeprefix("data:").strip()
        elif not line and (id is not None or data):
            yield id, json.loads(data) if data else None
            id, data = None, ""


def text_in(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
