"""The upstream inside this process: what it lists, what it answers, and how its functions fail."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from leafgate.model.errors import UpstreamFailure
from leafgate.upstream.library import UNKNOWN_RESOURCE, StubPrimitiveUpstream, StubUpstream
from leafgate.upstream.raw_session import fits_template

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


# Resources and prompts

README = {"uri": "file:///docs/readme.md", "name": "README", "mimeType": "text/markdown"}
LOGO = {"uri": "file:///logo.png", "name": "logo"}
LOGS = {"uriTemplate": "log:///{day}", "name": "logs"}
GREET = {"name": "greet", "arguments": [{"name": "who", "required": True}]}


def stub(**more: Any) -> StubPrimitiveUpstream:
    return StubPrimitiveUpstream([README, LOGO], [GREET], templates=[LOGS], server="docs", **more)


async def test_it_lists_resources_and_prompts_under_its_server() -> None:
    upstream = stub()
    assert [one.definition for one in await upstream.list_resources()] == [README, LOGO]
    assert [one.definition for one in await upstream.list_resource_templates()] == [LOGS]
    assert [(one.server, one.definition) for one in await upstream.list_prompts()] == [("docs", GREET)]


async def test_a_text_bytes_a_whole_result_and_a_function_are_read() -> None:
    whole = {"contents": [{"uri": "log:///monday", "text": "whole"}]}
    contents = {
        README["uri"]: "# Hello",
        LOGO["uri"]: b"\x89PNG",
        "log:///monday": whole,
        "log:///{day}": lambda uri: f"the log of {uri}",
    }
    upstream = stub(contents=contents)
    assert (await upstream.read_resource("docs", README["uri"]))["contents"] == [
        {"uri": README["uri"], "mimeType": "text/markdown", "text": "# Hello"}
    ]
    (blob,) = (await upstream.read_resource("docs", LOGO["uri"]))["contents"]
    assert base64.b64decode(blob["blob"]) == b"\x89PNG"
    assert await upstream.read_resource("docs", "log:///monday") == whole
    (part,) = (await upstream.read_resource("docs", "log:///tuesday"))["contents"]
    assert part["text"] == "the log of log:///tuesday"
    assert upstream.reads == [README["uri"], LOGO["uri"], "log:///monday", "log:///tuesday"]


async def test_a_prompt_is_rendered() -> None:
    async def greet(args: Mapping[str, str]) -> str:
        return f"Say hello to {args['who']}."

    rendered = await stub(renderings={"greet": greet}).get_prompt("docs", "greet", {"who": "Ada"})
    assert rendered["messages"] == [{"role": "user", "content": {"type": "text", "text": "Say hello to Ada."}}]
    whole = {"messages": [], "description": "none"}
    assert await stub(renderings={"greet": whole}).get_prompt("docs", "greet", {}) == whole


async def test_what_is_not_canned_says_so() -> None:
    (part,) = (await stub().read_resource("docs", README["uri"]))["contents"]
    assert "no canned content" in part["text"]
    (message,) = (await stub().get_prompt("docs", "greet", {}))["messages"]
    assert "no canned rendering" in message["content"]["text"]


async def test_what_is_not_there_is_a_failure() -> None:
    with pytest.raises(UpstreamFailure) as failed:
        await stub().read_resource("docs", "file:///secret")
    assert failed.value.rpc_code == UNKNOWN_RESOURCE
    with pytest.raises(UpstreamFailure):
        await stub().get_prompt("docs", "nothing", {})
    with pytest.raises(UpstreamFailure):
        await stub().request("docs", "completion/complete", {})


async def test_what_a_function_of_a_uri_raises_is_classified() -> None:
    def fail(uri: str) -> str:
        raise TimeoutError(uri)

    with pytest.raises(UpstreamFailure) as failed:
        await stub(contents={README["uri"]: fail}).read_resource("docs", README["uri"])
    assert failed.value.code == "UPSTREAM_TIMEOUT"


async def test_it_knows_what_it_has() -> None:
    upstream = stub()
    assert upstream.server_of_resource(README["uri"]) == "docs"
    assert upstream.server_of_resource("log:///monday") == "docs"
    assert upstream.server_of_resource("file:///secret") is None
    assert upstream.servers_with("resources") == ["docs"]
    assert upstream.servers_with("logging") == []
    assert StubPrimitiveUpstream().servers_with("prompts") == []


@pytest.mark.parametrize(
    ("template", "uri", "fits"),
    [
        ("log:///{day}", "log:///monday", True),
        ("log:///{day}", "file:///monday", False),
        ("log:///{", "log:///{", False),
        (None, "log:///monday", False),
    ],
)
def test_templates(template: object, uri: str, fits: bool) -> None:
    assert fits_template(template, uri) is fits
