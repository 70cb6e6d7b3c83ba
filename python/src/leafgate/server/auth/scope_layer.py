"""Refuses with HTTP's own words what a token's scopes do not allow. In: requests with a principal. Out: them, or 403.

Touches the body of requests whose principal lacks something: those of the others pass unread. What is no JSON passes
too; the gate behind (server/capability_gate) judges every message again, whatever it came in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leafgate.model.principal import CLIENT_CAPABILITIES, Capability, Principal
from leafgate.server.auth.challenge import Challenge
from leafgate.server.auth.known_user import KnownUser
from leafgate.server.auth.layer import Auth, is_for_clients
from leafgate.server.auth.needed_capability import needed_for

MAX_BODY: Final = 4 * 1024 * 1024


class ScopeLayer:
    """An ASGI layer behind the AuthLayer, and behind whatever unpacks bodies."""

    def __init__(self, app: ASGIApp, auth: Callable[[], Auth], own_tools: Collection[str]) -> None:
        self._app = app
        self._auth = auth
        self._own_tools = own_tools

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = scope.get("user")
        if not isinstance(user, KnownUser) or not _is_judged(scope, user.principal):
            await self._app(scope, receive, send)
            return
        read = await _read(receive)
        lacks = self._lacks(b"".join(message.get("body", b"") for message in read), user.principal)
        if lacks is None:
            await self._app(scope, _replay(read, receive), send)
            return
        auth = self._auth()
        refusal = Challenge(
            "insufficient_scope",
            f"this needs the capability {lacks}",
            scopes=auth.grants.scopes_for([lacks]),
            metadata_url=None if auth.metadata is None else auth.metadata.url(scope),
        )
        await refusal.response()(scope, receive, send)

    def _lacks(self, body: bytes, principal: Principal) -> Capability | None:
        """The first capability that a message in the body needs and the principal lacks."""
        needed = (needed_for(method, params, self._own_tools) for method, params in _requests(body))
        return next((one for one in needed if one is not None and one not in principal.capabilities), None)


def _is_judged(scope: Scope, principal: Principal) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] == "POST"
        and is_for_clients(scope["path"])
        and not principal.capabilities >= CLIENT_CAPABILITIES
    )


async def _read(receive: Receive) -> list[Message]:
    """The body's messages, up to a bound beyond which the endpoint refuses it anyway."""
    read: list[Message] = []
    size = 0
    while size <= MAX_BODY:
        message = await receive()
        read.append(message)
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            break
    return read


def _replay(read: list[Message], receive: Receive) -> Receive:
    waiting: Iterator[Message] = iter(read)

    async def next_message() -> Message:
        return next(waiting, None) or await receive()

    return next_message


def _requests(body: bytes) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return
    for message in parsed if isinstance(parsed, list) else [parsed]:
        method = message.get("method") if isinstance(message, Mapping) else None
        if isinstance(method, str):
            params = message.get("params")
            yield method, params if isinstance(params, Mapping) else None
