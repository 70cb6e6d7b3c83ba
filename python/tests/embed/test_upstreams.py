"""Objects that a program writes with the documented methods are upstreams; the optional methods may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from mcp import Client

from leafgate import GatewayError, McpGatewayServer, MultiplexPrimitiveUpstream, ProxyRuntime, UpstreamFailure
from leafgate.embed.upstreams import ProgramUpstream
from leafgate.ports import ToolListing

pytestmark = pytest.mark.anyio

ECHO = {"name": "echo", "inputSchema": {"type": "object"}}
README = {"uri": "file:///readme", "name": "readme"}


class Tools:
    """The documented methods of an upstream with tools, and no others."""

    def __init__(self) -> None:
        self.failure: Exception | None = None

    async def list_tools(self) -> Sequence[ToolListing]:
        if self.failure is not None:
            raise self.failure
        return [ToolListing("own", ECHO)]

    async def call_tool(self, server: str, name: str, args: Mapping[str, Any], caller: Any = None) -> Mapping[str, Any]:
        if self.failure is not None:
            raise self.failure
        return {"content": [{"type": "text", "text": f"{server} {name} {dict(args)}"}]}


class Primitives:
    """The documented methods of an upstream with resources and prompts, and no others."""

    async def list_resources(self) -> Sequence[ToolListing]:
        return [ToolListing("own", README)]

    async def read_resource(self, server: str, uri: str, caller: Any = None) -> Mapping[str, Any]:
        if uri != README["uri"]:
            raise FileNotFoundError(uri)
        return {"contents": [{"uri": uri, "text": f"read by {server}"}]}

    async def list_prompts(self) -> Sequence[ToolListing]:
        return [ToolListing("own", {"name": "greet", "arguments": [{"name": "who"}]})]

    async def get_prompt(
        self, server: str, name: str, args: Mapping[str, str], caller: Any = None
    ) -> Mapping[str, Any]:
        return {"messages": [{"role": "user", "content": {"type": "text", "text": f"{name} {args['who']}"}}]}


async def test_tools_of_a_program_are_browsed_and_called() -> None:
    runtime = ProxyRuntime(Tools())
    await runtime.refresh_catalog()
    (card,) = await runtime.browse("echo")
    assert (await runtime.execute(card.id, {"x": 1})).text == "own echo {'x': 1}"


async def test_what_a_program_raises_is_classified() -> None:
    tools = Tools()
    runtime = ProxyRuntime(tools)
    await runtime.refresh_catalog()
    (card,) = await runtime.browse("echo")
    for tools.failure, code in (
        (ConnectionResetError("hunter2"), "UPSTREAM_UNAVAILABLE"),
        (TimeoutError("hunter2"), "UPSTREAM_TIMEOUT"),
        (GatewayError("RATE_LIMITED", "a message of the program"), "RATE_LIMITED"),
    ):
        with pytest.raises(GatewayError) as refused:
            await runtime.execute(card.id)
        assert refused.value.code == code
        assert "hunter2" not in str(refused.value)
    tools.failure = ConnectionResetError("hunter2")
    with pytest.raises(GatewayError) as refused:
        await runtime.refresh_catalog()
    assert refused.value.code == "UPSTREAM_UNAVAILABLE"
    assert [item.upstream_name for item in runtime.catalog] == ["echo"]


@pytest.mark.parametrize("primitives", [Primitives(), MultiplexPrimitiveUpstream([Primitives()])], ids=["one", "many"])
async def test_resources_and_prompts_of_a_program_are_served(primitives: Any) -> None:
    runtime = ProxyRuntime(Tools(), primitives=primitives)
    await runtime.refresh_catalog()
    (resource,) = await runtime.browse_resources(path="/own")
    assert (await runtime.read_resource(resource.id)).text == "read by own"
    (prompt,) = await runtime.browse_prompts(path="/own")
    assert "greet Ada" in (await runtime.get_prompt(prompt.id, {"who": "Ada"})).text
    async with Client(McpGatewayServer(runtime), cache=None) as client:
        assert (await client.read_resource(README["uri"])).contents[0].text == "read by own"  # type: ignore[union-attr]
        assert len((await client.list_prompts()).prompts) == 1


async def test_what_a_program_left_out_is_worked_out_or_refused() -> None:
    upstream = ProgramUpstream(Tools(), Primitives())
    await upstream.wait_for_start()
    offers = await upstream.list_offers()
    assert [len(kind) for kind in (offers.tools, offers.resources, offers.templates, offers.prompts)] == [1, 1, 0, 1]
    assert upstream.server_of_resource(README["uri"]) == "own"
    assert upstream.servers_with("resources") == ["own"]
    assert upstream.servers_with("completions") == []
    for refused in (
        upstream.request("own", "completion/complete", {}),
        upstream.watch("own", README["uri"]),
        upstream.unwatch("own", README["uri"]),
        upstream.request("own", "resources/read", {"uri": "file:///other"}),
    ):
        with pytest.raises(UpstreamFailure):
            await refused


async def test_without_primitives_there_are_none() -> None:
    upstream = ProgramUpstream(Tools())
    assert (await upstream.list_offers()).resources == ()
    assert upstream.server_of_resource(README["uri"]) is None
    assert upstream.servers_with("resources") == []
    with pytest.raises(UpstreamFailure):
        await upstream.request("own", "prompts/get", {"name": "greet", "arguments": {}})
