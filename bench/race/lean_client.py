"""The client that measures: MCP over HTTP/1.1 on a plain socket. In: method and params. Out: the answer's bytes.

Touches the network, loopback only. One connection, one request at a time. A library client costs more than the server
it asks, and that cost, the same on both sides of a ratio, would flatter every proxy. Knows both eras of the protocol.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, Literal
from urllib.parse import urlsplit

Era = Literal["session", "stateless"]

VERSIONS: Final[dict[Era, str]] = {"session": "2025-11-25", "stateless": "2026-07-28"}
ME: Final = {"name": "leafgate-bench", "version": "1"}
LIMIT: Final = 1 << 26
ANSWER_SECONDS: Final = 30


class RefusedError(Exception):
    """An answer that is not a result; the message holds its beginning."""


class LeanClient:
    """One MCP client. `connect` first."""

    def __init__(self, url: str, era: Era) -> None:
        parts = urlsplit(url)
        assert parts.hostname == "127.0.0.1"
        self._port = parts.port or 80
        self._era = era
        self._head = (
            f"POST {parts.path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\ncontent-type: application/json\r\n"
            "accept: application/json, text/event-stream\r\n"
        )
        self._session = ""
        self._last_id = 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """A new connection, in the same session: servers close one that was idle for some seconds."""
        await self.close()
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=LIMIT)

    async def connect(self) -> None:
        await self.open()
        if self._era == "stateless":
            await self.ask("server/discover", {})
            return
        asked = {"protocolVersion": VERSIONS["session"], "capabilities": {}, "clientInfo": ME}
        answer = json.loads(_message(await self.ask("initialize", asked)))
        version = answer["result"]["protocolVersion"]
        self._head += f"mcp-protocol-version: {version}\r\n{self._session}"
        await self._exchange({"jsonrpc": "2.0", "method": "notifications/initialized"}, "")

    async def ask(self, method: str, params: dict[str, Any]) -> bytes:
        """The whole body of the answer: a JSON-RPC response, plain or as server-sent events."""
        self._last_id += 1
        extra = ""
        if self._era == "stateless":
            version = VERSIONS["stateless"]
            meta = {"protocolVersion": version, "clientInfo": ME, "clientCapabilities": {}}
            params = {**params, "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}}
            extra = f"mcp-protocol-version: {version}\r\nmcp-method: {method}\r\n"
            extra += f"mcp-name: {params['name']}\r\n" if "name" in params else ""
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        body = await asyncio.wait_for(self._exchange(request, extra), ANSWER_SECONDS)
        if b'"result":' not in body[:400] and b'"result":' not in body:
            raise RefusedError(body[:300].decode(errors="replace"))
        return body

    async def ask_json(self, method: str, params: dict[str, Any]) -> Any:
        """The result, read."""
        return json.loads(_message(await self.ask(method, params)))["result"]

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    async def _exchange(self, message: dict[str, Any], extra: str) -> bytes:
        assert self._reader is not None
        assert self._writer is not None
        body = json.dumps(message, separators=(",", ":")).encode()
        self._writer.write(f"{self._head}{extra}content-length: {len(body)}\r\n\r\n".encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lower = head.lower()
        if not self._session and "mcp-session-id:" in lower:
            at = lower.index("mcp-session-id:")
            self._session = head[at : head.index("\r\n", at) + 2]
        if "transfer-encoding: chunked" in lower:
            return await self._chunks()
        at = lower.find("content-length:")
        length = 0 if at < 0 else int(lower[at + 15 : lower.index("\r\n", at)])
        return await self._reader.readexactly(length)

    async def _chunks(self) -> bytes:
        assert self._reader is not None
        parts: list[bytes] = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            parts.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readexactly(2)
        return b"".join(parts)


class StdioClient:
    """The same over the pipes of a child: what a proxy that costs nothing would still have to wait for."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last_id = 0

    async def connect(self) -> None:
        await self.ask("initialize", {"protocolVersion": VERSIONS["session"], "capabilities": {}, "clientInfo": ME})
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def ask(self, method: str, params: dict[str, Any]) -> bytes:
        assert self._process.stdout is not None
        self._last_id += 1
        self._write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return await asyncio.wait_for(self._process.stdout.readline(), ANSWER_SECONDS)

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")


def _message(body: bytes) -> str:
    """The JSON of the response, which may stand in the last event of a stream."""
    text = body.decode()
    if text.lstrip().startswith("{"):
        return text
    lines = [line[5:] for line in text.splitlines() if line.startswith("data:") and '"result"' in line]
    return lines[-1]
