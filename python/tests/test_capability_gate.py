"""The gate on every MCP message, between requests with a user and what would serve them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from mcp import MCPError

from leafgate.model.mode import ALL_META_TOOLS
from leafgate.model.principal import ANONYMOUS, Capability, Principal
from leafgate.server.auth.capability_gate import CapabilityGate
from leafgate.server.auth.known_user import KnownUser

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
