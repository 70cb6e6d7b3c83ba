"""Upstreams over a session that the program owns: the SDK's Client and ClientSession, both eras, and a real process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.server import Server
from mcp.types import (
    CallToolResult,
    EmptyResult,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListToolsResult,
    Prompt,
    PromptMessage,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
    Tool,
)

from leafgate.model.errors import UpstreamFailure
from leafgate.upstream.library import McpClientPrimitiveUpstream, McpClientUpstream

pytestmark = pytest.mark.anyio

MOODY = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).parents[1] / "servers" / "moody.py")])
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


class Asker:
    """A client behind the gateway."""

    owner = user = "me"
    resume: Mapping[str, Any] = {}
    meta: Mapping[str, Any] = {}
    log_level = None

    def __init__(self, *, takes_input_requests: bool = False) -> None:
        self.takes_input_requests = takes_input_requests
        self.capabilities: Mapping[str, Any] = {"elicitation": {"form": {}}}
        self.heard: list[float] = []

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.heard.append(progress)

    async def log(self, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        raise AssertionError("a session that somebody else owns asks its owner")


def server() -> Server[Any]:
    async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
        page = int(params.cursor) if params is not None and params.cursor else 0
        found = [Tool(name=f"tool-{page}", input_schema={"type": "object"})]
        return ListToolsResult(tools=found, next_cursor=str(page + 1) if page < 2 else None)

    async def call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "fail":
            raise MCPError(-32001, "postgres://admin:hunter2@db")
        if params.name == "ask":
            return InputRequiredResult(request_state="more")
        await ctx.session.report_progress(1, 2, "half")
        able = ctx.session.client_capabilities
        told = [] if able is None else sorted(able.model_dump(exclude_none=True))
        return CallToolResult(content=[TextContent(text=f"{params.name} {params.arguments} {told}")])

    async def list_resources(ctx: Any, params: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=[Resource(uri="file:///a", name="a")])

    async def read(ctx: Any, params: Any) -> ReadResourceResult:
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text="content")])

    async def list_prompts(ctx: Any, params: Any) -> ListPromptsResult:
        return ListPromptsResult(prompts=[Prompt(name="greet")])

    async def get(ctx: Any, params: Any) -> GetPromptResult:
        said = TextContent(text=f"hello {(params.arguments or {}).get('who')}")
        return GetPromptResult(messages=[PromptMessage(role="user", content=said)])

    async def subscribe(ctx: Any, params: Any) -> EmptyResult:
        return EmptyResult()

    return Server(
        "sdk",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read,
        on_list_prompts=list_prompts,
        on_get_prompt=get,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=subscribe,
    )


@ERAS
async def test_a_client_and_its_session_list_every_page_and_call(mode: str) -> None:
    async with Client(server(), mode=mode, cache=None) as client:
        for session in (client, client.session):
            upstream = McpClientUpstream(session, name="sdk")
            await upstream.settled()
            found = [(one.server, one.definition["name"]) for one in await upstream.list_tools()]
            assert found == [("sdk", "tool-0"), ("sdk", "tool-1"), ("sdk", "tool-2")]
            result = await upstream.call_tool("sdk", "tool-1", {"x": 1})
            assert "tool-1 {'x': 1}" in result["content"][0]["text"]
        # The session is the program's: it goes on working.
        assert len((await client.list_tools()).tools) == 1


@ERAS
async def test_progress_reaches_the_caller(mode: str) -> None:
    asker = Asker()
    async with Client(server(), mode=mode, cache=None) as client:
        await McpClientUpstream(client).call_tool("", "tool-0", {}, asker)
    assert asker.heard == [1]


async def test_a_caller_that_takes_questions_is_known_to_a_stateless_server_and_no_other_is() -> None:
    async with Client(server(), cache=None) as client:
        upstream = McpClientUpstream(client)
        able = await upstream.call_tool("", "tool-0", {}, Asker(takes_input_requests=True))
        unable = await upstream.call_tool("", "tool-0", {}, Asker())
        assert "elicitation" in able["content"][0]["text"]
        assert "elicitation" not in unable["content"][0]["text"]
        asked = await upstream.call_tool("", "ask", {}, Asker(takes_input_requests=True))
        assert asked["resultType"] == "input_required"
        with pytest.raises(UpstreamFailure, match="no client to ask"):
            await upstream.call_tool("", "ask", {}, Asker())


@ERAS
async def test_an_error_answer_is_classified_and_its_code_kept(mode: str) -> None:
    async with Client(server(), mode=mode, cache=None) as client:
        with pytest.raises(UpstreamFailure) as failed:
            await McpClientUpstream(client).call_tool("", "fail", {})
    assert failed.value.rpc_code == -32001
    assert failed.value.message == ""


@ERAS
async def test_resources_and_prompts(mode: str) -> None:
    async with Client(server(), mode=mode, cache=None) as client:
        upstream = McpClientPrimitiveUpstream(client, name="sdk")
        assert [one.definition["uri"] for one in await upstream.list_resources()] == ["file:///a"]
        assert await upstream.list_resource_templates() == []
        assert [one.definition["name"] for one in await upstream.list_prompts()] == ["greet"]
        read = await upstream.read_resource("sdk", "file:///a")
        assert read["contents"][0]["text"] == "content"
        got = await upstream.get_prompt("sdk", "greet", {"who": "Ada"})
        assert got["messages"][0]["content"]["text"] == "hello Ada"
        assert upstream.server_of_resource("file:///anything") == "sdk"
        assert upstream.servers_with("prompts") == ["sdk"]
        assert upstream.servers_with("logging") == []
        with pytest.raises(UpstreamFailure):
            await upstream.request("sdk", "completion/complete", {})


async def test_watching_works_where_the_session_can_subscribe() -> None:
    async with Client(server(), mode="legacy", cache=None) as client:
        upstream = McpClientPrimitiveUpstream(client)
        await upstream.watch("", "file:///a")
        await upstream.unwatch("", "file:///a")
    async with Client(server(), cache=None) as client:
        with pytest.raises(UpstreamFailure):
            await McpClientPrimitiveUpstream(client).watch("", "file:///a")


async def test_what_a_server_does_not_declare_is_not_asked_for() -> None:
    async with Client(Server("bare"), mode="legacy", cache=None) as client:
        assert await McpClientUpstream(client).list_tools() == []
        upstream = McpClientPrimitiveUpstream(client)
        assert await upstream.list_resources() == []
        assert upstream.server_of_resource("file:///a") is None


async def test_a_client_that_is_not_connected_is_unavailable() -> None:
    client = Client(server(), cache=None)
    for upstream in (McpClientUpstream(client), McpClientUpstream(client, name="sdk")):
        with pytest.raises(UpstreamFailure) as failed:
            await upstream.list_tools()
        assert failed.value.code == "UPSTREAM_UNAVAILABLE"
        with pytest.raises(UpstreamFailure):
            await upstream.call_tool("", "tool-0", {})
    assert McpClientPrimitiveUpstream(client).servers_with("resources") == []


def test_nothing_else_is_a_session() -> None:
    with pytest.raises(TypeError, match="ClientSession"):
        McpClientUpstream(object())  # type: ignore[arg-type]


async def test_a_real_process_raw_results_timeouts_and_its_death() -> None:
    async with stdio_client(MOODY) as (read, write), ClientSession(read, write) as session:
        upstream = McpClientUpstream(session, name="moody", timeout=1)
        with pytest.raises(UpstreamFailure, match="not initialized"):
            await upstream.list_tools()
        await session.initialize()
        assert [one.definition["name"] for one in await upstream.list_tools()] == [
            "echo",
            "die",
            "sleep",
            "grow",
            "pid",
        ]
        raw = await upstream.call_tool("moody", "echo", {"text": "hi"})
        assert raw["content"][0] == {"type": "text", "text": "hi", "oddField": 1}
        assert raw["content"][1]["type"] == "_codec_meta"
        with pytest.raises(UpstreamFailure) as slow:
            await upstream.call_tool("moody", "sleep", {})
        assert slow.value.code == "UPSTREAM_TIMEOUT"
        with pytest.raises(UpstreamFailure) as died:
            await upstream.call_tool("moody", "die", {})
        assert died.value.code == "UPSTREAM_UNAVAILABLE"
