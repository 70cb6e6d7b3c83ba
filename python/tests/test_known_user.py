"""The principal on its way from the HTTP side to the MCP side."""

from __future__ import annotations

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from starlette.requests import Request

from leafgate.model.principal import ANONYMOUS, Principal
from leafgate.server.auth.known_user import KnownUser, present_principal, principal_of


def request(**scope: object) -> Request:
    return Request({"type": "http", "headers": [], **scope})


def test_it_comes_out_as_it_went_in() -> None:
    ann = Principal("ann")
    assert principal_of(request(user=KnownUser(ann))) is ann


def test_nobody_is_nobody() -> None:
    assert principal_of(None) is None
    assert principal_of(request()) is None
    assert principal_of(request(user="ann")) is None
    assert present_principal() is None


def test_the_sdk_tells_users_apart_and_holds_no_token() -> None:
    users = [KnownUser(Principal("ann")), KnownUser(Principal("ben")), KnownUser(ANONYMOUS)]
    assert all(isinstance(user, AuthenticatedUser) and user.access_token.token == "" for user in users)
    contexts = [authorization_context(user) for user in users]
    assert contexts[0] == authorization_context(KnownUser(Principal("ann")))
    assert all(contexts[0] != other for other in (contexts[1], contexts[2], None))
