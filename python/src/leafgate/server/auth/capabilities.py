"""Principals and their capabilities: what a token grants, and what an MCP request needs.

`KnownUser` carries a principal from the HTTP side to the MCP side: the SDK ties a session to the user that opened it.
On stdio, and over HTTP without authentication, requests have no principal, and all are allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from leafgate.model.rights import CAPABILITIES, CLIENT_CAPABILITIES, EVERY_CAPABILITY, Capability, Principal


class TokenRefusedError(Exception):
    """The token is not accepted. The message repeats nothing of the token."""


@dataclass(frozen=True)
class VerifiedToken:
    """The content of a valid token."""

    name: str
    scopes: tuple[str, ...]


class Verifier(Protocol):
    """Checks tokens of an authorization server."""

    async def verify(self, token: str) -> VerifiedToken:
        """Return the content of the token, or raise TokenRefusedError."""
        ...


class KnownUser(AuthenticatedUser):
    """A user as the SDK wants it, without the token, which nothing behind the layer needs."""

    def __init__(self, principal: Principal) -> None:
        super().__init__(AccessToken(token="", client_id=principal.name or "", scopes=[]))
        self.principal = principal


def principal_in(scope: Mapping[str, Any]) -> Principal | None:
    """The principal of an HTTP request; None without authentication."""
    user = scope.get("user")
    return user.principal if isinstance(user, KnownUser) else None


def present_principal() -> Principal | None:
    """The principal of the current request, from the SDK's context variable."""
    user = auth_context_var.get()
    return user.principal if isinstance(user, KnownUser) else None


@dataclass(frozen=True)
class ScopeGrants:
    """Capabilities by scope; None: the operator has no table."""

    table: Mapping[str, frozenset[Capability]] | None = None

    def grant_token(self, scopes: Iterable[str] | None) -> frozenset[Capability]:
        """The capabilities of a token of the operator. Without a table, its scopes are names of capabilities."""
        if self.table is None:
            return EVERY_CAPABILITY if scopes is None else frozenset(CAPABILITIES).intersection(scopes)
        return self._granted(scopes or ())

    def grant_jwt(self, scopes: Iterable[str]) -> frozenset[Capability]:
        """The capabilities of a token of the authorization server."""
        return CLIENT_CAPABILITIES if self.table is None else self._granted(scopes)

    def scopes_for(self, needed: Iterable[Capability]) -> tuple[str, ...]:
        """The scopes to ask for where these capabilities are needed: for each the one that grants least beside it."""
        table = self.table or {}
        able = ([scope for scope, grants in table.items() if capability in grants] for capability in needed)
        return tuple(dict.fromkeys(min(scopes, key=lambda scope: len(table[scope])) for scopes in able if scopes))

    def _granted(self, scopes: Iterable[str]) -> frozenset[Capability]:
        table = self.table or {}
        return frozenset(capability for scope in scopes for capability in table.get(scope, ()))


# The gateway's own methods report on all principals.
OWN_METHODS: Final = "leafgate/"

_FOR_ALL: Final = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})
_TO_BROWSE: Final = frozenset(
    {"tools/list", "resources/list", "resources/templates/list", "prompts/list"}
    | {"skills/list", "skills/get", "resources/directory/read"}
    | {"subscriptions/listen", "resources/subscribe", "resources/unsubscribe"}
)
_OWN_TOOLS: Final[Mapping[str, Capability]] = {
    "tool_browse": "browse",
    "tool_hydrate": "browse",
    "resource_browse": "browse",
    "prompt_browse": "browse",
    "tool_view": "view",
}


# Where a server card is: below the endpoint's path, as SEP-2127 reserves it, and where its earlier drafts had it.
CARD_SUFFIX: Final = "/server-card"
WELL_KNOWN_CARD: Final = "/.well-known/mcp/server-card.json"
# Public: whether the process runs, where the endpoint is, and where tokens come from.
OPEN_PATHS: Final = ("/health", "/ready", f"/mcp{CARD_SUFFIX}", f"/sse{CARD_SUFFIX}", WELL_KNOWN_CARD)
OPEN_PREFIX: Final = "/.well-known/oauth-"
# For MCP clients: the endpoints, and the maps that clients need. All other paths are for operators.
CLIENT_PATHS: Final = ("/mcp", "/sse", "/messages")
CLIENT_PREFIX: Final = "/.well-known/codec/maps/"


def is_open(path: str) -> bool:
    """Whether a path needs no token."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIX)


def is_for_clients(path: str) -> bool:
    """Whether a path is for MCP clients; the others need the capability `operate`."""
    return path in CLIENT_PATHS or path.startswith(CLIENT_PREFIX)


def needed_for(method: str, params: Mapping[str, Any] | None, own_tools: Collection[str]) -> Capability | None:
    """The capability that a request needs; None if every caller may send it. `own_tools` are the gateway's tools."""
    if method in _FOR_ALL or method.startswith("notifications/"):
        return None
    if method.startswith(OWN_METHODS):
        return "operate"
    if method == "subscriptions/listen" and _names_tasks(params):  # their results come on the stream
        return "execute"
    if method == "tools/call":
        name = (params or {}).get("name")
        return _OWN_TOOLS.get(name, "execute") if isinstance(name, str) and name in own_tools else "execute"
    return "browse" if method in _TO_BROWSE else "execute"


def _names_tasks(params: Mapping[str, Any] | None) -> bool:
    notifications = (params or {}).get("notifications")
    return isinstance(notifications, Mapping) and bool(notifications.get("taskIds"))
