"""A client of a gateway, or of any MCP server on Streamable HTTP. In: calls. Out: results, with ids where asked for.

Touches the network. The stateless protocol is tried first; a server that does not know it gets the handshake.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import anyio
import httpx2

from leafgate.client.era import CLIENT_INFO, HANDSHAKE_VERSION, STATELESS_VERSION, Era, Session, Stateless
from leafgate.client.errors import AnswerInvalid, ClientError, HttpRefusal, RpcError
from leafgate.client.exchange import Exchange, OnProgress, tell
from leafgate.client.result import ToolResult, read_result
from leafgate.client.wire import ClientLimits, Wire
from leafgate.codec.frames import Message
from leafgate.codec.negotiate import ACCEPT_META_KEY
from leafgate.model.call import Form
from leafgate.model.errors import ConfigError
from leafgate.model.leaf import parse_digest
from leafgate.tokens.encoder import Encoder

MAX_PAGES: Final = 1000
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class LeafgateClient:
    """`async with LeafgateClient(url, map_id=…, form="ids") as client: await client.call_tool(name, args)`.

    With `map_id` or `form` every call asks for ids; with an `encoder` they are checked, and read where the text is
    left out. `binary=False` speaks JSON only.
    """

    def __init__(
        self,
        url: str,
        *,
        map_id: str | None = None,
        form: Form | None = None,
        encoder: Encoder | None = None,
        token: str | None = None,
        binary: bool = True,
        limits: ClientLimits | None = None,
    ) -> None:
        self._map_id = _map_asked_for(map_id, encoder)
        self._form = form
        self._encoder = encoder
        bounds = limits or ClientLimits()
        timeout = httpx2.Timeout(bounds.connect_seconds, read=bounds.silent_seconds, pool=bounds.silent_seconds)
        # What is said to this machine goes through no proxy, whatever the environment names.
        self._http = httpx2.AsyncClient(
            headers=_credentials(url, token), timeout=timeout, trust_env=urlsplit(url).hostname not in LOOPBACK
        )
        self._wire = Wire(self._http, url, bounds, binary=binary)
        self._era: Era | None = None
        self._server: Message = {}
        self._opening = anyio.Lock()
        self._numbers = count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the session, where there is one, and the connections."""
        try:
            if isinstance(self._era, Session) and self._era.session_id:
                with suppress(ClientError):  # a session ends by itself too
                    await self._wire.delete(self._era.headers("", {}))
        finally:
            await self._http.aclose()

    @property
    def is_binary(self) -> bool:
        """Whether the server has answered in frames."""
        return self._wire.speaks_frames

    @property
    def protocol_version(self) -> str | None:
        """The version in use, once a request was answered."""
        if self._era is None:
            return None
        return self._era.version if isinstance(self._era, Session) else STATELESS_VERSION

    async def initialize(self) -> Message:
        """What the server says of itself. Other calls do this first, where it was not done."""
        async with self._opening:
            if self._era is None:
                self._era, self._server = await self._open()
        return self._server

    async def list_tools(self) -> list[Message]:
        """All tools, page after page."""
        tools: list[Message] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self.request("tools/list", {} if cursor is None else {"cursor": cursor})
            listed, cursor = page.get("tools"), page.get("nextCursor")
            if not isinstance(listed, list):
                raise AnswerInvalid("the list of tools is none")
            tools += listed
            if cursor is None:
                return tools
        raise AnswerInvalid(f"the list of tools has more than {MAX_PAGES} pages")

    async def call_tool(
        self, name: str, args: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> ToolResult:
        """A tool's result; ids in the arguments (`_codec_meta`) are passed on as they are."""
        params: Message = {"name": name, "arguments": dict(args or {})}
        wish = {key: value for key, value in (("map_id", self._map_id), ("form", self._form)) if value is not None}
        if wish:
            params["_meta"] = {ACCEPT_META_KEY: wish}
        result = await self.request("tools/call", params, on_progress=on_progress)
        return read_result(result, self._map_id, self._encoder)

    async def browse(
        self, query: str | None = None, *, path: str | None = None, top_k: int | None = None
    ) -> ToolResult:
        """The gateway's tools for a purpose, or below a path."""
        given = {"query": query, "path": path, "top_k": top_k}
        return await self.call_tool("tool_browse", {key: value for key, value in given.items() if value is not None})

    async def execute(
        self, tool_id: str, args: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> ToolResult:
        """Calls a tool behind the gateway."""
        call = {"tool_id": tool_id, "args": dict(args or {})}
        return await self.call_tool("tool_execute", call, on_progress=on_progress)

    async def view(self, handle: str, selector: Mapping[str, Any]) -> ToolResult:
        """A part of a result that was shortened."""
        return await self.call_tool("tool_view", {"handle": handle, "selector": dict(selector)})

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> Message:
        """Any request of the protocol. Raises a ClientError."""
        await self.initialize()
        assert self._era is not None
        result = await self._ask(self._era, method, params or {}, on_progress)
        if result.get("resultType", "complete") != "complete":
            raise AnswerInvalid("the server asks for input, and this client has none to give")
        return result

    async def _open(self) -> tuple[Era, Message]:
        """Only what is no answer of a stateless server leads to the handshake; an outage says nothing of the era."""
        try:
            found = await self._ask(Stateless(), "server/discover", {})
            versions = found.get("supportedVersions")
            if isinstance(versions, list) and STATELESS_VERSION in versions:
                return Stateless(), found
        except RpcError:
            pass
        except HttpRefusal as refusal:
            if refusal.status in (401, 403):
                raise
        return await self._shake_hands()

    async def _shake_hands(self) -> tuple[Era, Message]:
        params = {"protocolVersion": HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": CLIENT_INFO}
        opening = Exchange(self._wire, Session(), self._message("initialize", params))
        found = await opening.result()
        era = Session(str(found.get("protocolVersion")), opening.session_id)
        await tell(self._wire, era, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return era, found

    async def _ask(
        self, era: Era, method: str, params: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> Message:
        message = self._message(method, params)
        token = {} if on_progress is None else {"progressToken": message["id"]}
        meta = {**era.meta, **params.get("_meta", {}), **token}
        if meta:
            message["params"]["_meta"] = meta
        return await Exchange(self._wire, era, message, on_progress).result()

    def _message(self, method: str, params: Mapping[str, Any]) -> Message:
        return {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": dict(params)}


def _map_asked_for(map_id: str | None, encoder: Encoder | None) -> str | None:
    named = None if map_id is None else parse_digest(map_id)
    if encoder is None:
        return named
    if named is not None and named != encoder.map.digest:
        raise ConfigError(f"the encoder is of map {encoder.map.digest}, not of {named}")
    return encoder.map.digest


def _credentials(url: str, token: str | None) -> dict[str, str]:
    """A token goes in clear text over plain HTTP: only this machine may hear it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("the address of a server begins with http:// or https://")
    if token is None:
        return {}
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ConfigError("a token is sent over https only, but to this machine")
    return {"authorization": f"Bearer {token}"}
