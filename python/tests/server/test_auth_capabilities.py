"""The principal on its way from the HTTP side to the MCP side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from mcp import MCPError
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from starlette.requests import Request

from leafgate.model.rights import ANONYMOUS, CLIENT_CAPABILITIES, EVERY_CAPABILITY, Capability, Principal
from leafgate.model.tool import ALL_META_TOOLS, META_TOOLS, ExposureMode
from leafgate.server.auth.capabilities import (
    KnownUser,
    ScopeGrants,
    needed_for,
    present_principal,
    principal_in,
)
from leafgate.server.front import CapabilityGate


def request(**scope: object) -> Request:
    return Request({"type": "http", "headers": [], **scope})


def test_it_comes_out_as_it_went_in() -> None:
    ann = Principal("ann")
    assert principal_in(request(user=KnownUser(ann))) is ann


def test_nobody_is_nobody() -> None:
    assert principal_in({}) is None
    assert principal_in(request().scope) is None
    assert principal_in(request(user="ann")) is None
    assert present_principal() is None


def test_the_sdk_tells_users_apart_and_holds_no_token() -> None:
    users = [KnownUser(Principal("ann")), KnownUser(Principal("ben")), KnownUser(ANONYMOUS)]
    assert all(isinstance(user, AuthenticatedUser) and user.access_token.token == "" for user in users)
    contexts = [authorization_context(user) for user in users]
    assert contexts[0] == authorization_context(KnownUser(Principal("ann")))
    assert all(contexts[0] != other for other in (contexts[1], contexts[2], None))


NO_TABLE = ScopeGrants()
TABLE = ScopeGrants(
    {
        "all": EVERY_CAPABILITY,
        "look": frozenset({"browse"}),
        "work": frozenset({"execute", "view"}),
        "nothing": frozenset(),
    }
)


def test_without_a_table_the_operators_own_tokens_may_do_everything() -> None:
    assert NO_TABLE.grant_token(None) == EVERY_CAPABILITY
    assert NO_TABLE.grant_jwt(["operate", "whatever"]) == CLIENT_CAPABILITIES


@pytest.mark.parametrize(
    ("scopes", "granted"), [([], set()), (["browse"], {"browse"}), (["view", "operate", "x"], {"view", "operate"})]
)
def test_without_a_table_a_tokens_scopes_are_capabilities(scopes: list[str], granted: set[str]) -> None:
    assert NO_TABLE.grant_token(scopes) == granted


@pytest.mark.parametrize(
    ("scopes", "granted"),
    [
        (["look"], {"browse"}),
        (["look", "work"], {"browse", "execute", "view"}),
        (["all"], EVERY_CAPABILITY),
        (["nothing"], set()),
        (["browse"], set()),
        (["operate"], set()),
        (["LOOK", "unknown"], set()),
        ([], set()),
    ],
)
def test_with_a_table_only_what_it_grants(scopes: list[str], granted: set[str]) -> None:
    assert TABLE.grant_token(scopes) == granted
    assert TABLE.grant_jwt(scopes) == granted


def test_with_a_table_a_token_without_scopes_may_do_nothing() -> None:
    assert TABLE.grant_token(None) == frozenset()


@pytest.mark.parametrize(
    ("needed", "scopes"),
    [(["browse"], ("look",)), (["execute", "view"], ("work",)), (["operate"], ("all",)), ([], ())],
)
def test_the_scopes_to_ask_for_grant_no_more_than_needed(needed: list[Capability], scopes: tuple[str, ...]) -> None:
    assert TABLE.scopes_for(needed) == scopes
    assert NO_TABLE.scopes_for(needed) == ()


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        ("initialize", None),
        ("ping", None),
        ("server/discover", None),
        ("notifications/initialized", None),
        ("notifications/cancelled", None),
        ("tools/list", "browse"),
        ("prompts/list", "browse"),
        ("resources/templates/list", "browse"),
        ("resources/read", "execute"),
        ("prompts/get", "execute"),
        ("completion/complete", "execute"),
        ("leafgate/status", "operate"),
        ("leafgate/anything", "operate"),
        ("tasks/get", "execute"),
        ("", "execute"),
        ("TOOLS/LIST", "execute"),
    ],
)
def test_methods(method: str, needed: str | None) -> None:
    assert needed_for(method, {}, ALL_META_TOOLS) == needed


@pytest.mark.parametrize(
    ("params", "needed"),
    [
        ({"name": "tool_browse"}, "browse"),
        ({"name": "tool_hydrate"}, "browse"),
        ({"name": "resource_browse"}, "browse"),
        ({"name": "tool_view"}, "view"),
        ({"name": "tool_execute"}, "execute"),
        ({"name": "resource_read"}, "execute"),
        ({"name": "prompt_get"}, "execute"),
        ({"name": "of a server"}, "execute"),
        ({"name": ["tool_browse"]}, "execute"),
        ({"name": None}, "execute"),
        ({}, "execute"),
        (None, "execute"),
    ],
)
def test_calls(params: dict[str, Any] | None, needed: str) -> None:
    assert needed_for("tools/call", params, ALL_META_TOOLS) == needed


def test_a_servers_tool_with_one_of_our_names_is_executed() -> None:
    listed = META_TOOLS[ExposureMode.PASSTHROUGH]
    assert needed_for("tools/call", {"name": "tool_browse"}, listed) == "execute"
    assert needed_for("tools/call", {"name": "tool_view"}, listed) == "view"


pytestmark = pytest.mark.anyio


@dataclass
class Context:
    """As much of a request's context as the gate looks at."""

    method: str
    params: dict[str, Any] | None = None
    request: Any = None


@dataclass
class Asked:
    scope: dict[str, Any]


def by(*capabilities: Capability) -> Asked:
    return Asked({"user": KnownUser(Principal("ann", frozenset(capabilities)))})


async def outcome(context: Context) -> str:
    """`served`, or the code of the refusal."""

    async def served(ctx: Any) -> dict[str, Any]:
        return {"error": "served"}

    try:
        answer = await CapabilityGate(ALL_META_TOOLS)(context, served)  # type: ignore[arg-type]
    except MCPError as refused:
        answer = refused.error.data
    assert isinstance(answer, dict)
    return str(answer["error"])


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (Context("tools/list", request=by("browse")), True),
        (Context("tools/list", request=by("execute")), False),
        (Context("tools/call", {"name": "tool_view"}, by("view")), True),
        (Context("tools/call", {"name": "tool_view"}, by("browse", "execute")), False),
        (Context("tools/call", {"name": "x"}, by("execute")), True),
        (Context("tools/call", {"name": "x"}, by("browse", "view", "operate")), False),
        (Context("tools/call", None, by("browse")), False),
        (Context("leafgate/status", request=by("operate")), True),
        (Context("leafgate/status", request=by("browse", "execute", "view")), False),
        (Context("leafgate/status", request=Asked({"user": KnownUser(ANONYMOUS)})), False),
        (Context("ping", request=by()), True),
        (Context("initialize", request=by()), True),
    ],
)
async def test_a_message_needs_its_capability(context: Context, expected: bool) -> None:
    assert await outcome(context) == ("served" if expected else "PERMISSION_DENIED")


@pytest.mark.parametrize("request_", [None, Asked({})])
async def test_where_nobody_is_asked_everything_passes(request_: Any) -> None:
    assert await outcome(Context("leafgate/status", request=request_)) == "served"
    assert await outcome(Context("tools/call", {"name": "x"}, request_)) == "served"


def test_tasks_need_what_calls_need() -> None:
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        assert needed_for(method, {"taskId": "x"}, ()) == "execute"
    assert needed_for("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, ()) == "browse"
    assert needed_for("subscriptions/listen", {"notifications": {"taskIds": ["x"]}}, ()) == "execute"
