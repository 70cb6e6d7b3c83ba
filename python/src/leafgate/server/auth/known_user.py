"""How a principal travels from the HTTP side to the MCP side. In: a principal. Out: the SDK's kind of user.

Touches nothing. The SDK ties an MCP session to the user that opened it: to anybody else the session does not exist.
"""

from __future__ import annotations

from typing import Any

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from leafgate.model.principal import Principal


class KnownUser(AuthenticatedUser):
    """A user as the SDK wants it, without the token: nobody behind the door needs it."""

    def __init__(self, principal: Principal) -> None:
        super().__init__(AccessToken(token="", client_id=principal.name or "", scopes=[]))
        self.principal = principal


def principal_of(request: Any) -> Principal | None:
    """Who a request is made for; None where nobody is asked: on stdio, and over HTTP without authentication."""
    user = (getattr(request, "scope", None) or {}).get("user")
    return user.principal if isinstance(user, KnownUser) else None


def present_principal() -> Principal | None:
    """The same, where there is no request at hand: the SDK keeps the user of the request that is being answered."""
    user = auth_context_var.get()
    return user.principal if isinstance(user, KnownUser) else None
