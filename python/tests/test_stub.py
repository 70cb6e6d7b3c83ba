"""The upstream inside this process: what it lists, what it answers, and how its functions fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from leafgate.model.errors import UpstreamFailure
from leafgate.upstream.stub import StubUpstream

pytestmark = pytest.mark.anyio

ECHO = {"name": "echo", "inputSchema": {"type": "object"}}
HELLO = {"content": [{"type": "text", "text": "hello"}]}


async def test_it_lists_its_definitions_under_its_server() -> None:
    (listing,) = await StubUpstream([ECHO], server="disk").list_tools()
    assert (listing.server, listing.definition) == ("disk", ECHO)


async def test_what_is_no_object_is_no_definition() -> None:
    assert [one.definition for one in await StubUpstream([..., ECHO, None]).list_tools()] == [ECHO]  # type: ignore[list-item]


async def test_a_result_a_function_and_a_coroutine_answer() -> None:
    async def later(args: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"content": [], "structuredContent": dict(args)}

    upstream = StubUpstream([ECHO], answers={"a": HELLO, "b": lambda args: {**HELLO, "args": args}, "c": later})
    assert await upstream.call_tool("", "a", {}) == HELLO
    assert (await upstream.call_tool("", "b", {"x": 1}))["args"] == {"x": 1}
    assert (await upstream.call_tool("", "c", {"x": 1}))["structuredContent"] == {"x": 1}
    assert upstream.calls == [("a", {}), ("b", {"x": 1}), ("c", {"x": 1})]


async def test_a_tool_without_an_answer_says_so() -> None:
    result = await StubUpstream([ECHO]).call_tool("", "echo", {})
    assert "no canned answer" in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (TimeoutError("slow"), "UPSTREAM_TIMEOUT"),
        (ConnectionRefusedError("gone"), "UPSTREAM_UNAVAILABLE"),
        (ValueError("odd"), "UPSTREAM_ERROR"),
        (UpstreamFailure("AUTH_FAILED", "no"), "AUTH_FAILED"),
    ],
)
async def test_what_a_function_raises_is_classified(raised: Exception, code: str) -> None:
    def fail(args: Mapping[str, Any]) -> Mapping[str, Any]:
        raise raised

    with pytest.raises(UpstreamFailure) as failed:
        await StubUpstream([ECHO], answers={"echo": fail}).call_tool("", "echo", {})
    assert failed.value.code == code


async def test_there_is_nothing_to_wait_for() -> None:
    await StubUpstream([]).settled()
