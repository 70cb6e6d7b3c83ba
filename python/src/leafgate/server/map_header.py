"""Names the map of an answer's ids in its headers. In: a POST to the MCP endpoint. Out: the same, its answer marked.

Touches nothing. The answer of an older client is a stream whose headers go out before the call is looked at; so the
wish is read from the request here, by the same rule that the call is answered by.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leafgate.codec.negotiate import ACCEPT_META_KEY, MAP_HEADER, negotiate
from leafgate.model.errors import GatewayError

ANSWER_HEADER: Final = "Codec-Tokenizer-Map"
CALL_METHOD: Final = "tools/call"


class MapHeader:
    """An ASGI layer round the MCP endpoint."""

    def __init__(self, app: ASGIApp, path: str, offer: Callable[[Scope], tuple[str | None, Collection[str]]]) -> None:
        """`offer` gives the default map of the one who asks, and the maps that they may ask for."""
        self._app = app
        self._path = path
        self._offer = offer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = _Body(receive)
        header = Headers(scope=scope).get(MAP_HEADER)

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.add_vary_header(MAP_HEADER)
                digest = self._map_of(scope, body.seen, header)
                if digest is not None and message["status"] == 200:
                    headers[ANSWER_HEADER] = digest
            await send(message)

        await self._app(scope, body.receive, marked)

    def _map_of(self, scope: Scope, body: bytes, header: str | None) -> str | None:
        """The map of this request's ids; None where there are none, or the wish is refused."""
        if CALL_METHOD.encode() not in body:
            return None
        try:
            meta = _meta(body) if ACCEPT_META_KEY.encode() in body else None
            return negotiate(meta, header, *self._offer(scope))[0]
        except (GatewayError, ValueError, RecursionError):
            return None


class _Body:
    """Hands the request's body on, and keeps what has passed: the endpoint reads all of it before it answers."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._parts: list[bytes] = []

    @property
    def seen(self) -> bytes:
        return b"".join(self._parts)

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._parts.append(message.get("body", b""))
        return message


def _meta(body: bytes) -> Mapping[str, Any] | None:
    request = json.loads(body)
    params = request.get("params") if isinstance(request, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else None
