"""The outermost layer of the HTTP side. In: a request. Out: it, if it was meant for this gateway, or a refusal.

Touches nothing. A page in a browser can make its own host name point here (DNS rebinding); its Host or Origin gives it
away: 421 for a foreign Host, 403 for a foreign Origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class HostRules:
    """The Host and Origin headers that are taken; `name:*` stands for any port."""

    hosts: Sequence[str]
    origins: Sequence[str]

    def settings(self) -> TransportSecuritySettings:
        """The same, as the SDK wants it for its own endpoint."""
        return TransportSecuritySettings(allowed_hosts=[*self.hosts], allowed_origins=[*self.origins])


LOOPBACK_RULES = HostRules(
    hosts=[f"{name}:*" for name in LOOPBACK_NAMES],
    origins=[f"http://{name}:*" for name in LOOPBACK_NAMES],
)


class HostGuard:
    """An ASGI layer round everything that is served."""

    def __init__(self, app: ASGIApp, rules: HostRules) -> None:
        self._app = app
        self._check = TransportSecurityMiddleware(rules.settings())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = None
        if scope["type"] == "http":
            refused = await self._check.validate_request(Request(scope))
        await (self._app if refused is None else refused)(scope, receive, send)
