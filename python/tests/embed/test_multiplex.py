"""Several upstreams as one: who has what, also after a refresh, and what a failing one does to the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest

from leafgate.embed.upstreams import MultiplexPrimitiveUpstream, MultiplexUpstream
from leafgate.model.errors import UpstreamFailure
from leafgate.model.request import ClientChannel
from leafgate.ports import ToolListing
from leafgate.upstream.library import StubPrimitiveUpstream, StubUpstream

pytestmark = pytest.mark.anyio


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


class Source:
    """An upstream whose list changes, is slow, or fails."""

    def __init__(self, label: str, *names: str, server: str = "") -> None:
        self.label = label
        self.names = [*names]
        self.server = server
        self.delay = 0.0
        self.failure: Exception | None = None

    async def list_tools(self) -> Sequence[ToolListing]:
        await anyio.sleep(self.delay)
        if self.failure is not None:
            raise self.failure
        return [ToolListing(self.server, tool(name, self.label)) for name in self.names]

    async def call_tool(
        self, server: str, name: str, args: Mapping[str, Any], caller: ClientChannel | None = None
    ) -> Mapping[str, Any]:
        if self.failure is not None:
            raise self.failure
        return text(f"{self.label}: {name}")

    async def settled(self) -> None:
        await anyio.sleep(self.delay)


async def whose(upstream: MultiplexUpstream) -> dict[str, str]:
    return {one.definition["name"]: one.definition["description"] for one in await upstream.list_tools()}


async def said(upstream: MultiplexUpstream, name: str, server: str = "") -> str:
    return str((await upstream.call_tool(server, name, {}))["content"][0]["text"])


async def test_the_first_source_has_a_name_that_several_have() -> None:
    both = MultiplexUpstream([Source("a", "x", "y"), Source("b", "y", "z")])
    assert await whose(both) == {"x": "a", "y": "a", "z": "b"}
    assert [await said(both, name) for name in ("x", "y", "z")] == ["a: x", "a: y", "b: z"]


async def test_and_has_it_however_slow_it_is_and_after_every_refresh() -> None:
    a, b = Source("a", "y"), Source("b", "y")
    both = MultiplexUpstream([a, b])
    for a.delay, b.delay in ((0.02, 0.0), (0.0, 0.02), (0.01, 0.01)):
        assert await whose(both) == {"y": "a"}
        assert await said(both, "y") == "a: y"


async def test_a_name_that_the_first_gives_up_goes_to_the_next() -> None:
    a = Source("a", "y")
    both = MultiplexUpstream([a, Source("b", "y")])
    await both.list_tools()
    a.names = ["other"]
    assert await whose(both) == {"other": "a", "y": "b"}
    assert await said(both, "y") == "b: y"


async def test_names_of_servers_are_kept_and_addressed() -> None:
    both = MultiplexUpstream([Source("a", "x", server="one"), Source("b", "z", server="two")])
    assert [one.server for one in await both.list_tools()] == ["one", "two"]
    assert await said(both, "z", "two") == "b: z"
    with pytest.raises(UpstreamFailure) as failed:
        await both.call_tool("one", "z", {})
    assert failed.value.code == "UPSTREAM_UNAVAILABLE"


async def test_within_one_source_nothing_is_left_out() -> None:
    inner = MultiplexUpstream([Source("a", "x", server="one")])

    class TwoServers(Source):
        async def list_tools(self) -> Sequence[ToolListing]:
            return [ToolListing(server, tool("y", server)) for server in ("one", "two")]

    both = MultiplexUpstream([inner, TwoServers("b"), Source("c", "y")])
    assert [(one.server, one.definition["name"]) for one in await both.list_tools()] == [
        ("one", "x"),
        ("one", "y"),
        ("two", "y"),
    ]


async def test_a_source_that_cannot_be_listed_keeps_what_it_had(caplog: pytest.LogCaptureFixture) -> None:
    a, b = Source("a", "x", "y"), Source("b", "y", "z")
    both = MultiplexUpstream([a, b])
    await both.list_tools()
    a.failure = UpstreamFailure("UPSTREAM_TIMEOUT", "slow today")
    b.names = ["y", "new"]
    assert await whose(both) == {"x": "a", "y": "a", "new": "b"}
    assert "slow today" in caplog.text
    with pytest.raises(UpstreamFailure) as failed:
        await both.call_tool("", "y", {})
    assert failed.value.code == "UPSTREAM_TIMEOUT"


async def test_a_source_that_was_never_listed_takes_nothing_from_the_others() -> None:
    a, b = Source("a", "y"), Source("b", "y")
    a.failure = OSError("not up yet")
    both = MultiplexUpstream([a, b])
    assert await whose(both) == {"y": "b"}
    a.failure = None
    assert await whose(both) == {"y": "a"}


async def test_if_none_can_be_listed_nothing_changes() -> None:
    a, b = Source("a", "x"), Source("b", "z")
    both = MultiplexUpstream([a, b])
    await both.list_tools()
    a.failure, b.failure = TimeoutError("a"), OSError("b")
    with pytest.raises(UpstreamFailure) as failed:
        await both.list_tools()
    assert failed.value.code == "UPSTREAM_TIMEOUT"
    a.failure = b.failure = None
    assert [await said(both, name) for name in ("x", "z")] == ["a: x", "b: z"]


async def test_a_call_before_the_first_listing_finds_its_way() -> None:
    assert await said(MultiplexUpstream([Source("a", "x"), Source("b", "z")]), "z") == "b: z"


async def test_what_a_source_raises_is_classified() -> None:
    a = Source("a", "x")
    both = MultiplexUpstream([a])
    await both.list_tools()
    a.failure = ConnectionResetError("bye")
    with pytest.raises(UpstreamFailure) as failed:
        await both.call_tool("", "x", {})
    assert failed.value.code == "UPSTREAM_UNAVAILABLE"


async def test_odd_definitions_do_no_harm() -> None:
    odd = StubUpstream([{"name": ["no", "name"]}, {}, tool("x")])
    assert len(await MultiplexUpstream([odd, odd]).list_tools()) == 5


async def test_no_sources_no_tools() -> None:
    assert await MultiplexUpstream([]).list_tools() == []
    await MultiplexUpstream([]).settled()


async def test_waiting_is_for_all_at_once() -> None:
    waiting = 0
    both = anyio.Event()

    class Waiting(Source):
        async def settled(self) -> None:
            nonlocal waiting
            waiting += 1
            if waiting == 2:
                both.set()
            await both.wait()

    with anyio.fail_after(30):
        await MultiplexUpstream([Waiting("a"), Waiting("b")]).settled()


# Resources and prompts


def resource(uri: str, **more: Any) -> dict[str, Any]:
    return {"uri": uri, "name": uri.rpartition("/")[2], **more}


def docs() -> StubPrimitiveUpstream:
    return StubPrimitiveUpstream(
        [resource("file:///a"), resource("file:///both")],
        [{"name": "greet"}],
        contents={"file:///a": "docs a", "file:///both": "docs both"},
        renderings={"greet": "docs greet"},
        server="docs",
    )


def logs() -> StubPrimitiveUpstream:
    return StubPrimitiveUpstream(
        [resource("file:///both"), resource("file:///c")],
        [{"name": "greet"}, {"name": "bye"}],
        templates=[{"uriTemplate": "log:///{day}", "name": "logs"}],
        contents={"file:///both": "logs both", "file:///c": "logs c", "log:///{day}": lambda uri: f"log of {uri}"},
        renderings={"greet": "logs greet", "bye": "logs bye"},
        server="logs",
    )


async def listed_both() -> MultiplexPrimitiveUpstream:
    both = MultiplexPrimitiveUpstream([docs(), logs()])
    await both.list_resources()
    await both.list_resource_templates()
    await both.list_prompts()
    return both


async def test_resources_go_by_uri_and_prompts_by_name() -> None:
    both = await listed_both()
    found = [(one.server, one.definition["uri"]) for one in await both.list_resources()]
    assert found == [("docs", "file:///a"), ("docs", "file:///both"), ("logs", "file:///c")]
    assert [(one.server, one.definition["name"]) for one in await both.list_prompts()] == [
        ("docs", "greet"),
        ("logs", "bye"),
    ]


@pytest.mark.parametrize(
    ("uri", "server", "content"),
    [
        ("file:///both", "docs", "docs both"),
        ("file:///c", "logs", "logs c"),
        ("log:///monday", "logs", "log of log:///monday"),
        ("log:///{day}", "logs", "log of log:///{day}"),
    ],
)
async def test_reads_go_to_the_owner(uri: str, server: str, content: str) -> None:
    both = await listed_both()
    assert both.server_of_resource(uri) == server
    assert (await both.read_resource(server, uri))["contents"][0]["text"] == content
    await both.watch(server, uri)
    await both.unwatch(server, uri)


async def test_prompts_are_got_from_the_owner() -> None:
    both = await listed_both()
    assert (await both.get_prompt("docs", "greet", {}))["messages"][0]["content"]["text"] == "docs greet"
    with pytest.raises(UpstreamFailure):
        await both.get_prompt("logs", "greet", {})


async def test_what_nobody_has_is_a_failure() -> None:
    both = await listed_both()
    assert both.server_of_resource("file:///nowhere") is None
    with pytest.raises(UpstreamFailure):
        await both.read_resource("docs", "file:///nowhere")
    with pytest.raises(UpstreamFailure):
        await both.read_resource("docs", "file:///c")
    with pytest.raises(UpstreamFailure):
        await both.request("docs", "logging/setLevel", {"level": "info"})


async def test_the_only_one_with_resources_is_asked_for_any_uri() -> None:
    alone = MultiplexPrimitiveUpstream([docs(), StubPrimitiveUpstream(prompts=[{"name": "bye"}], server="logs")])
    assert alone.server_of_resource("file:///nowhere") == "docs"
    assert alone.servers_with("prompts") == ["docs", "logs"]


class Answering(StubPrimitiveUpstream):
    """A stub that answers any request, and writes it down."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.asked: list[str] = []

    def servers_with(self, capability: str) -> Sequence[str]:
        return [self._server]

    async def request(
        self, server: str, method: str, params: Mapping[str, Any], caller: ClientChannel | None = None
    ) -> Mapping[str, Any]:
        self.asked.append(method)
        return {"by": server}


async def test_requests_go_where_they_refer_to_and_else_to_all_of_the_name() -> None:
    a = Answering(prompts=[{"name": "one"}])
    b = Answering([resource("file:///b")], [{"name": "two"}])
    both = MultiplexPrimitiveUpstream([a, b])
    await both.list_resources()
    await both.request("", "completion/complete", {"ref": {"type": "ref/prompt", "name": "two"}})
    await both.request("", "completion/complete", {"ref": {"type": "ref/resource", "uri": "file:///b"}})
    await both.request("", "logging/setLevel", {"level": "info"})
    assert a.asked == ["logging/setLevel"]
    assert b.asked == ["completion/complete", "completion/complete", "logging/setLevel"]
