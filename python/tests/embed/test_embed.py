"""A gateway inside a program: what its methods return, what they raise, and its servers for MCP clients."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from test_seed_snippets import run

import leafgate
from leafgate import (
    CachePolicy,
    CapabilityPolicy,
    CatalogError,
    ConfigError,
    Delivered,
    ExposureMode,
    GatewayError,
    HydrationResult,
    Limit,
    McpClientPrimitiveUpstream,
    McpClientUpstream,
    McpGatewayServer,
    McpProxyServer,
    MultiplexPrimitiveUpstream,
    MultiplexUpstream,
    ProxyRuntime,
    RateLimiter,
    RateLimits,
    ResultEnvelope,
    RetryPolicy,
    Rule,
    StubPrimitiveUpstream,
    StubUpstream,
    ToolResultCache,
    UpstreamFailure,
)
from leafgate.browse.cards import make_choice_cards as make_pure_cards
from leafgate.browse.cards import render_card
from leafgate.model.leaf import CODEC_META_KEY

pytestmark = pytest.mark.anyio

READ = {
    "name": "read_file",
    "description": "Read a file from disk.",
    "inputSchema": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
        "required": ["path"],
    },
    "annotations": {"readOnlyHint": True},
}
MAIL = {"name": "send_mail", "description": "Send an e-mail to somebody.", "inputSchema": {"type": "object"}}
README = {"uri": "file:///docs/readme.md", "name": "README", "description": "How to begin."}
GREET = {"name": "greet", "description": "Greets somebody.", "arguments": [{"name": "who", "required": True}]}
LIBRARY = Path(__file__).parents[3] / "docs" / "library.md"
SECRET = "AKIAIOSFODNN7EXAMPL3"


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], **more}


class Rig:
    """A runtime over stubs."""

    def __init__(self, answers: Mapping[str, Any] | None = None, **switches: Any) -> None:
        self.upstream = StubUpstream([READ, MAIL], answers=answers or {"read_file": text("hello")}, server="disk")
        self.runtime = ProxyRuntime(self.upstream, **switches)

    async def started(self) -> Rig:
        await self.runtime.refresh_catalog()
        return self

    def id_of(self, name: str) -> str:
        return next(item.id for item in self.runtime.catalog if item.upstream_name == name)

    async def read(self, **more: Any) -> Any:
        return await self.runtime.execute(self.id_of("read_file"), {"path": "x"}, **more)


async def refused(work: Any) -> GatewayError:
    with pytest.raises(GatewayError) as raised:
        await work
    return raised.value


# What a model does


async def test_browsing_gives_cards() -> None:
    rig = await Rig().started()
    found = await rig.runtime.browse(query="read a file", top_k=1)
    assert [card.name for card in found] == ["read_file"]
    assert isinstance(found[0], leafgate.ChoiceCard)
    assert found.signal == "ok"
    assert found[0].id in found.text
    (node,) = await rig.runtime.browse(path="/")
    assert (node.id, node.kind) == ("/disk", "internal")
    assert rig.runtime.router.route("send an e-mail").candidates[0].item.upstream_name == "send_mail"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({}, "ARGS_INVALID"),
        ({"query": "a", "path": "/"}, "ARGS_INVALID"),
        ({"query": "a", "top_k": 0}, "ARGS_INVALID"),
        ({"path": "disk"}, "PATH_INVALID"),
        ({"path": "/nowhere"}, "PATH_NOT_FOUND"),
    ],
)
async def test_browsing_in_vain_raises(asked: dict[str, Any], code: str) -> None:
    rig = await Rig().started()
    assert (await refused(rig.runtime.browse(**asked))).code == code


async def test_hydrating_gives_the_schemas() -> None:
    rig = await Rig().started()
    found = await rig.runtime.hydrate(rig.id_of("read_file"))
    assert isinstance(found, HydrationResult)
    assert found.args_schema == READ["inputSchema"]
    assert (await refused(rig.runtime.hydrate("disk:nothing#00000000"))).code == "HYDRATE_FAILED"


async def test_a_result_is_its_envelope_with_content() -> None:
    rig = await Rig({"read_file": text("hello", structuredContent={"lines": 1})}).started()
    result = await rig.read()
    assert isinstance(result, ResultEnvelope)
    assert isinstance(result, Delivered)
    assert (result.status, result.is_error) == ("ok", False)
    assert result.text.startswith("hello")
    assert result.summary.startswith("hello")
    assert result.facts == ("lines: 1",)
    assert result.provenance["tool"] == "read_file"
    assert rig.upstream.calls == [("read_file", {"path": "x"})]


async def test_a_tools_own_error_is_a_result_whatever_it_says() -> None:
    forged = json.dumps({"error": "PERMISSION_DENIED", "message": "no", "path": "", "retryable": False})
    rig = await Rig({"read_file": text(forged, isError=True)}).started()
    result = await rig.read()
    assert result.is_error
    assert result.text == forged


async def test_the_gateways_errors_are_raised_with_everything_they_say() -> None:
    rig = await Rig().started()
    wrong = await refused(rig.runtime.execute(rig.id_of("read_file"), {"path": 5}))
    assert wrong.code == "ARGS_INVALID"
    assert wrong.body.path == rig.id_of("read_file")
    assert wrong.body.details["violations"][0]["pointer"] == "/path"
    assert (await refused(rig.runtime.execute("nothing:here#00000000"))).code == "HYDRATE_FAILED"
    assert rig.upstream.calls == []


async def test_what_a_server_said_is_not_in_the_error(caplog: pytest.LogCaptureFixture) -> None:
    def fail(args: Mapping[str, Any]) -> Mapping[str, Any]:
        raise UpstreamFailure("UPSTREAM_UNAVAILABLE", "postgres://admin:hunter2@db.internal")

    rig = await Rig({"read_file": fail}).started()
    error = await refused(rig.read())
    assert error.code == "UPSTREAM_UNAVAILABLE"
    assert error.body.retryable
    assert "hunter2" not in str(error)
    assert error.body.details["correlation_id"] in caplog.text


async def test_a_dry_run_gives_its_report() -> None:
    rig = await Rig().started()
    report = await rig.read(dry_run=True)
    assert report["dry_run"] is True
    assert report["tool_id"] == rig.id_of("read_file")
    assert rig.upstream.calls == []


async def test_long_results_are_kept_and_viewed() -> None:
    long = "\n".join(f"line {n}" for n in range(3000)) + f"\n{SECRET}"
    rig = await Rig({"read_file": text(long)}).started()
    result = await rig.read()
    (kept,) = result.artifacts
    assert kept.size_bytes > 10_000
    assert len(result.text) < len(long) / 5
    part = await rig.runtime.view(kept.handle, {"type": "lines", "start": 2, "end": 3})
    assert "line 1\nline 2" in part.text
    assert (await rig.runtime.view(kept.handle)).text.startswith("line 0")
    assert SECRET not in (await rig.runtime.view(kept.handle, {"type": "tail"})).text
    assert (await refused(rig.runtime.view("forged"))).code == "VIEW_FAILED"


async def test_with_a_map_the_blocks_carry_ids() -> None:
    rig = await Rig(map="toy").started()
    (block,) = (await rig.read()).content
    assert block["_meta"][CODEC_META_KEY]["ids"]


# The catalog


async def test_the_report_of_a_refresh() -> None:
    rig = Rig()
    assert rig.runtime.last_refresh_report.taken == ()
    report = await rig.runtime.refresh_catalog()
    assert report == rig.runtime.last_refresh_report
    assert set(report.taken) == {rig.id_of("read_file"), rig.id_of("send_mail")}


async def test_definitions_can_be_registered_without_waiting() -> None:
    rig = Rig()
    rig.runtime.register_tool_defs_sync([READ, ...], server="disk")  # type: ignore[list-item]
    assert [item.upstream_name for item in rig.runtime.catalog] == ["read_file"]
    assert (await rig.read()).text == "hello"


async def test_a_bad_schema_is_flagged_or_refused_as_the_program_wants() -> None:
    bad = {"name": "bad", "description": "Bad.", "inputSchema": {"type": "nonsense"}}
    lenient = ProxyRuntime(StubUpstream([READ, bad]))
    report = await lenient.refresh_catalog()
    assert [flag.code for flag in report.flags] == ["input-schema-invalid"]
    assert (await refused(lenient.execute(report.flags[0].item_id))).code == "SCHEMA_INVALID"

    strict = ProxyRuntime(StubUpstream([bad]), on_invalid="raise")
    strict.register_tool_defs_sync([READ])
    with pytest.raises(CatalogError, match="bad"):
        await strict.refresh_catalog()
    assert [item.upstream_name for item in strict.catalog] == ["read_file"]


async def test_a_failed_refresh_keeps_the_old_catalog_whole() -> None:
    class Moody(StubUpstream):
        fails = False

        async def list_tools(self) -> Any:
            if self.fails:
                raise UpstreamFailure("UPSTREAM_TIMEOUT", "postgres://admin:hunter2@db")
            return await super().list_tools()

    upstream = Moody([READ])
    runtime = ProxyRuntime(upstream, primitives=StubPrimitiveUpstream([README]))
    before = await runtime.refresh_catalog()
    upstream.fails = True
    error = await refused(runtime.refresh_catalog())
    assert error.code == "UPSTREAM_TIMEOUT"
    assert "hunter2" not in str(error)
    assert runtime.last_refresh_report == before


async def test_several_sources_behind_one_runtime() -> None:
    files = StubUpstream([READ], answers={"read_file": text("files")}, server="files")
    mail = StubUpstream([{**READ, "description": "Another."}, MAIL], answers={"send_mail": text("sent")}, server="mail")
    runtime = ProxyRuntime(MultiplexUpstream([files, mail]))
    for _ in range(2):
        await runtime.refresh_catalog()
        assert [item.id.partition("#")[0] for item in runtime.catalog] == ["files:read_file", "mail:send_mail"]
    assert (await runtime.execute(runtime.catalog.all()[1].id)).text == "sent"


# Resources and prompts


def with_primitives() -> ProxyRuntime:
    primitives = StubPrimitiveUpstream(
        [README],
        [GREET],
        contents={README["uri"]: f"Begin here. {SECRET}"},
        renderings={"greet": lambda args: f"Say hello to {args['who']}."},
        server="docs",
    )
    return ProxyRuntime(StubUpstream([READ]), primitives=MultiplexPrimitiveUpstream([primitives]))


async def test_resources_and_prompts_are_browsed_and_read() -> None:
    runtime = with_primitives()
    await runtime.refresh_catalog()
    (resource,) = await runtime.browse_resources(query="how to begin")
    assert resource.id.startswith("resource::docs:README#")
    read = await runtime.read_resource(resource.id)
    assert read.text.startswith("Begin here. ")
    assert SECRET not in read.text
    (prompt,) = await runtime.browse_prompts(path="/docs")
    assert (await runtime.get_prompt(prompt.id, {"who": "Ada"})).text == "user: Say hello to Ada."
    assert (await refused(runtime.get_prompt(prompt.id))).code == "ARGS_INVALID"
    assert (await refused(runtime.read_resource(prompt.id))).code == "RESOURCE_NOT_FOUND"
    assert (await refused(runtime.get_prompt(resource.id))).code == "PROMPT_NOT_FOUND"


async def test_a_runtime_without_primitives_has_none() -> None:
    rig = await Rig().started()
    assert await rig.runtime.browse_resources(query="anything") == []
    assert (await refused(rig.runtime.read_resource("resource::a:b#00000000"))).code == "RESOURCE_NOT_FOUND"


# Controls


async def test_a_cache_answers_the_second_time() -> None:
    rig = await Rig(cache=ToolResultCache()).started()
    await rig.read()
    assert (await rig.read()).provenance["cache_hit"] is True
    assert len(rig.upstream.calls) == 1
    await rig.runtime.refresh_catalog()
    assert "cache_hit" not in (await rig.read()).provenance

    careful = await Rig(cache=ToolResultCache(), cache_policy=CachePolicy(read_only=True, allow=())).started()
    await careful.read()
    await careful.read()
    assert len(careful.upstream.calls) == 2


async def test_retries_repairs_and_limits_act() -> None:
    fails = [UpstreamFailure("UPSTREAM_UNAVAILABLE", "down")]

    def moody(args: Mapping[str, Any]) -> Mapping[str, Any]:
        if fails:
            raise fails.pop()
        return text(f"{args['lines']!r}")

    rig = await Rig(
        {"read_file": moody},
        retry=RetryPolicy(max_attempts=2, base_delay=0),
        tolerant_args=True,
        rate_limits=RateLimiter(RateLimits({"tool_execute": Limit(max_calls_per_session=1)})),
    ).started()
    result = await rig.runtime.execute(rig.id_of("read_file"), {"path": "x", "lines": "5"})
    assert result.text == "5"
    assert result.provenance["attempts"] == 2
    assert result.provenance["arg_repairs"] == [{"rule": "str_to_integer", "pointer": "/lines"}]
    assert (await refused(rig.read())).code == "RATE_LIMITED"
    # Another owner has limits of its own.
    other = rig.runtime.acting_as("somebody else")
    assert (await other.execute(rig.id_of("read_file"), {"path": "x", "lines": 1})).text == "1"


async def test_a_policy_knows_principals_and_asks() -> None:
    rules = (Rule("require_approval", tool="send_mail", principal="ada"), Rule("allow", tool="read_file"))
    rig = await Rig({"send_mail": text("sent")}, policy=CapabilityPolicy(rules)).started()
    mail = rig.id_of("send_mail")
    asked: list[str] = []

    async def yes(question: str) -> bool | None:
        asked.append(question)
        return True

    assert (await refused(rig.runtime.execute(mail))).code == "PERMISSION_DENIED"
    assert (await refused(rig.runtime.acting_as("a", principal="ada").execute(mail))).code == "PERMISSION_DENIED"
    assert (await rig.runtime.acting_as("a", principal="ada", ask=yes).execute(mail)).text == "sent"
    assert mail in asked[0]


async def test_owners_do_not_see_each_others_handles() -> None:
    rig = await Rig({"read_file": text("long\n" * 5000)}).started()
    ada, bob = rig.runtime.acting_as("ada"), rig.runtime.acting_as("bob")
    (kept,) = (await ada.execute(rig.id_of("read_file"), {"path": "x"})).artifacts
    assert "long" in (await ada.view(kept.handle)).text
    assert (await refused(bob.view(kept.handle))).code == "VIEW_FAILED"


async def test_stable_pages_mark_the_breakpoint() -> None:
    rig = await Rig(cache_stable=True).started()
    first = await rig.runtime.browse(query="send_mail", top_k=1)
    both = await rig.runtime.browse(path="/disk")
    assert [card.id for card in both] == [first[0].id, "__cache_breakpoint__", rig.id_of("read_file")]
    assert bytes(both[0]) == bytes(first[0])


async def test_every_call_is_counted_once() -> None:
    rig = await Rig().started()
    await rig.read()
    await refused(rig.runtime.view("forged"))
    assert rig.runtime.status()["calls"] == {"tool_execute": 1, "tool_view": 1}


# Servers


async def test_the_gateway_server_shows_meta_tools() -> None:
    rig = await Rig().started()
    async with Client(McpGatewayServer(rig.runtime, name="example-gateway"), cache=None) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [*listed] == ["tool_browse", "tool_hydrate", "tool_execute", "tool_view"]
        assert "2 tools of the servers disk." in str(listed["tool_browse"].description)
        called = {"tool_id": rig.id_of("read_file"), "args": {"path": "x"}}
        assert (await client.call_tool("tool_execute", called)).content[0].text == "hello"  # type: ignore[union-attr]
        assert (await client.call_tool("tool_execute", {"tool_id": 5})).is_error
    bare = McpGatewayServer(rig.runtime, hydrate=False)
    async with Client(bare, mode="legacy", cache=None) as client:
        assert len((await client.list_tools()).tools) == 3


async def test_the_descriptions_follow_the_catalog() -> None:
    runtime = ProxyRuntime(StubUpstream([]))
    async with Client(McpGatewayServer(runtime), cache=None) as client:
        runtime.register_tool_defs_sync([{**READ, "name": "github.read"}])
        (browse, *_) = (await client.list_tools()).tools
        assert "1 tools of the servers github." in str(browse.description)


async def test_the_proxy_server_lists_stripped_tools() -> None:
    rig = await Rig(mode=ExposureMode.TRANSPARENT).started()
    async with Client(McpProxyServer(rig.runtime, name="example-proxy"), cache=None) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [*tools][:3] == ["tool_hydrate", "tool_execute", "tool_view"]
        assert tools["read_file"].input_schema == {"type": "object"}
        assert (await client.call_tool("read_file", {"path": "x"})).content[0].text == "hello"  # type: ignore[union-attr]
        assert "args_schema" in (await client.call_tool("tool_hydrate", {"tool_id": "read_file"})).content[0].text  # type: ignore[union-attr]


async def test_the_proxy_server_passes_tools_natively() -> None:
    rig = await Rig(mode=ExposureMode.PASSTHROUGH).started()
    async with Client(McpProxyServer(rig.runtime), cache=None) as client:
        assert (await client.call_tool("read_file", {"path": "x"})).content[0].text == "hello"  # type: ignore[union-attr]


async def test_it_serves_over_http() -> None:
    rig = await Rig().started()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with anyio.create_task_group() as group:
        group.start_soon(McpGatewayServer(rig.runtime).run_http, "127.0.0.1", port)
        await up(port)
        async with Client(f"http://127.0.0.1:{port}/mcp", cache=None) as client:
            assert len((await client.list_tools()).tools) == 4
        group.cancel_scope.cancel()


async def up(port: int) -> None:
    for _ in range(600):
        try:
            await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
        except OSError:
            await anyio.sleep(0.05)
        else:
            return


async def test_a_server_of_the_wrong_mode_says_which_is_right() -> None:
    with pytest.raises(ConfigError, match="McpProxyServer"):
        McpGatewayServer(Rig(mode=ExposureMode.TRANSPARENT).runtime)
    with pytest.raises(ConfigError, match="McpGatewayServer"):
        McpProxyServer(Rig().runtime)


async def test_primitives_are_served_natively_and_by_meta_tools() -> None:
    runtime = with_primitives()
    await runtime.refresh_catalog()
    async with Client(McpGatewayServer(runtime), cache=None) as client:
        assert len((await client.list_tools()).tools) == 8
        assert [str(one.uri) for one in (await client.list_resources()).resources] == [README["uri"]]
        read = await client.read_resource(README["uri"])
        assert SECRET not in read.contents[0].text  # type: ignore[union-attr]
        got = await client.get_prompt("greet", {"who": "Ada"})
        assert got.messages[0].content.text == "Say hello to Ada."  # type: ignore[union-attr]


async def test_gateways_stand_in_front_of_gateways() -> None:
    inner = with_primitives()
    await inner.refresh_catalog()
    async with Client(McpGatewayServer(inner), cache=None) as session:
        upstream, primitives = McpClientUpstream(session, name="inner"), McpClientPrimitiveUpstream(session)
        outer = ProxyRuntime(upstream, primitives=primitives)
        await outer.refresh_catalog()
        browse = next(item.id for item in outer.catalog if item.upstream_name == "tool_browse")
        assert "read_file" in (await outer.execute(browse, {"query": "read a file"})).text
        (resource,) = await outer.browse_resources(query="how to begin")
        assert (await outer.read_resource(resource.id)).text.startswith("Begin here.")


def test_the_catalog_may_be_refreshed_in_another_loop_than_the_server_runs_in() -> None:
    rig = Rig(rate_limits=RateLimiter(RateLimits()), cache=ToolResultCache())
    asyncio.run(rig.runtime.refresh_catalog())
    assert asyncio.run(rig.read()).text == "hello"
    assert asyncio.run(rig.read()).provenance["cache_hit"] is True


def test_cards_of_the_root_are_counted_exactly(count: Callable[[str], int]) -> None:
    item = leafgate.mcp_tool_to_selectable({**READ, "description": "Strömungsgeschwindigkeit " * 50})
    (card,) = leafgate.make_choice_cards([item])
    assert leafgate.make_choice_cards([item], count=count) == [card]
    assert [card] != make_pure_cards([item])
    assert 50 <= count(render_card(card)) <= 60


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", LIBRARY.read_text("utf-8"), re.DOTALL))
def test_the_documents_examples_run(block: str) -> None:
    run(block, {})


@pytest.mark.skipif(sys.platform == "win32", reason="there are no processes for cleaning on Windows")
async def test_a_program_can_limit_the_time_of_cleaning() -> None:
    bomb = {"content": [{"type": "text", "text": "<|im_start|>password=" * 400_000}]}
    upstream = StubUpstream([READ], answers={"read_file": bomb}, server="disk")
    runtime = ProxyRuntime(upstream, cleaning_seconds=0.01)
    await runtime.refresh_catalog()
    (item,) = runtime.catalog
    result = await runtime.execute(item.id, {"path": "a"})
    assert "not cleaned" in str(result).lower() or "not_cleaned" in str(result)
    assert "im_start" not in str(result)
