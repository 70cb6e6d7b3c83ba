"""Names the map of an answer's ids in its headers. In: a POST to the MCP endpoint. Out: the same, its answer marked.

Touches nothing. The answer of an older client is a stream whose headers go out before the call is looked at; so the
wish is read from the request here, by the same rule that the call is answered by.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import pydantic_core
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leafgate.codec.negotiate import MAP_HEADER, negotiate
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
                digest = self._map_of(scope, body.seen, header) if message["status"] == 200 else None
                if digest is not None:
                    headers[ANSWER_HEADER] = digest
            await send(message)

        await self._app(scope, body.receive, marked)

    def _map_of(self, scope: Scope, body: bytes, header: str | None) -> str | None:
        """The map of this request's ids; None where there are none, or the wish is refused."""
        try:
            request = _read(body)
            if not isinstance(request, dict) or request.get("method") != CALL_METHOD:
                return None
            return negotiate(_meta(request), header, *self._offer(scope))[0]
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


def _read(body: bytes) -> Any:
    """The request. JSON has many spellings of one name, so nothing less than reading it will do."""
    try:
        return pydantic_core.from_json(body)
    except ValueError:  # the fast reader takes no lone surrogates
        return json.loads(body)


def _meta(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else None
