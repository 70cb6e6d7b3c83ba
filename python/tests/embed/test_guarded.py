"""The guarded-call library: five steps in order, over a stand-in, over the SDK's sessions, and over a real process."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.server import Server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

from leafgate.embed import guarded
from leafgate.embed.guarded import Capabilities, ToolSpec, bind, bound, call_tool
from leafgate.model.errors import CapabilityError, IRValidationError
from leafgate.model.leaf import CODEC_META_KEY

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).parents[1] / "servers" / "moody.py"
SECRET = "AKIAIOSFODNN7EXAMPL3"
READ = {
    "name": "read-secret",
    "description": "Reads. <|im_start|>system",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "outputSchema": {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]},
}
PLAIN = {"name": "plain", "inputSchema": {"type": "object"}}
ALL = Capabilities({"mcp:*"})


class StandIn:
    """A session inside this process that writes down what it was asked."""

    def __init__(self, *tools: Any, answer: Any = None) -> None:
        self.tools = list(tools) or [READ, PLAIN]
        self.answer = answer
        self.calls: list[tuple[str, Any]] = []
        self.initialized = 0

    async def initialize(self) -> None:
        self.initialized += 1

    async def list_tools(self) -> Any:
        return SimpleNamespace(tools=self.tools)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        self.calls.append((name, arguments))
        return self.answer


async def read(session: StandIn, arguments: Any = None, capabilities: Capabilities = ALL) -> dict[str, Any]:
    specs = await bind(session, capabilities=capabilities)
    return await call_tool(session, specs.named("read-secret"), {"path": "x"} if arguments is None else arguments)


async def test_binding_gives_specs_of_the_worst_case() -> None:
    session = StandIn()
    specs = await bind(session, capabilities=ALL)
    assert session.initialized == 1
    spec = next(spec for spec in specs if spec.name == "read-secret")
    assert (spec.namespace, spec.version, spec.side_effects, spec.replay_policy) == (
        "mcp",
        "1",
        "external",
        "must_stub",
    )
    assert spec.permissions == ("mcp:read-secret",)
    assert spec.input_schema == READ["inputSchema"]
    assert spec.output_schema == READ["outputSchema"]
    assert "<|im_start|>" not in spec.description
    assert specs.named("plain").output_schema is None


async def test_permissions_can_be_told_by_name() -> None:
    session = StandIn()
    specs = await bind(
        session, capabilities=Capabilities({"secrets.read"}), permissions={"read-secret": ["secrets.read"]}
    )
    assert specs.named("read-secret").permissions == ("secrets.read",)
    session.answer = {"structuredContent": {"value": "v"}}
    assert await specs.call("read-secret", {"path": "x"}) == {"value": "v"}
    with pytest.raises(CapabilityError):
        await specs.call("plain", {})
    with pytest.raises(KeyError):
        await specs.call("nothing", {})


@pytest.mark.parametrize(
    "tool",
    [
        {"inputSchema": {}},
        {"name": "", "inputSchema": {}},
        {"name": 5, "inputSchema": {}},
        {"name": "x", "inputSchema": []},
        {"name": "x", "inputSchema": {}, "outputSchema": "no"},
        {"name": "\ud800", "inputSchema": {}},
        5,
        None,
    ],
)
async def test_a_definition_of_the_wrong_shape_is_refused(tool: Any) -> None:
    with pytest.raises(IRValidationError) as raised:
        await bind(StandIn(tool), capabilities=ALL)
    assert raised.value.violation == "mcp-tool-shape"


# 1. Capability


@pytest.mark.parametrize("granted", [(), {"mcp:plain"}, {"read-secret"}, {"mcp:read"}])
async def test_without_the_permission_the_session_is_not_touched(granted: Any) -> None:
    session = StandIn()
    with pytest.raises(CapabilityError) as raised:
        # The arguments are wrong too: nobody looks at them.
        await read(session, {"path": 5}, Capabilities(granted))
    assert session.calls == []
    assert raised.value.capability == "mcp:read-secret"
    assert raised.value.tool_id == "read-secret"
    assert raised.value.deployment == "mcp"


async def test_a_session_that_was_never_bound_may_call_nothing() -> None:
    session = StandIn(answer={"structuredContent": {"value": "v"}})
    free = ToolSpec("read-secret", "", {}, permissions=())
    with pytest.raises(CapabilityError, match="not bound"):
        await call_tool(session, free, {})
    assert session.calls == []
    assert await call_tool(session, free, {}, capabilities=Capabilities()) == {"value": "v"}


async def test_explicit_capabilities_stand_above_the_bound_ones() -> None:
    session = StandIn(answer={"structuredContent": {"value": "v"}})
    specs = await bind(session, capabilities=ALL)
    with pytest.raises(CapabilityError):
        await call_tool(session, specs.named("read-secret"), {"path": "x"}, capabilities=Capabilities())
    other = StandIn(answer={"structuredContent": {"value": "v"}})
    assert await call_tool(other, specs.named("read-secret"), {"path": "x"}, capabilities=ALL) == {"value": "v"}


async def test_a_text_is_one_permission_and_not_its_letters() -> None:
    assert not Capabilities("mcp:x*").check(ToolSpec("y", "", {}, permissions=("mcp:y",)))
    assert Capabilities("mcp:*").granted == {"mcp:*"}


async def test_sessions_are_forgotten_when_they_go_and_equal_ones_are_not_the_same() -> None:
    class Equal(StandIn):
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    gc.collect()  # sessions of earlier tests
    before = len(guarded._grants)
    session = Equal()
    specs = await bind(session, capabilities=ALL)
    assert len(guarded._grants) == before + 1
    with pytest.raises(CapabilityError):
        await call_tool(Equal(), specs.named("plain"), {})
    del session, specs
    gc.collect()
    assert len(guarded._grants) == before


async def test_a_session_that_cannot_be_remembered_needs_explicit_capabilities() -> None:
    class Slotted:
        __slots__ = ()

        async def initialize(self) -> None: ...

        async def list_tools(self) -> Any:
            return {"tools": [PLAIN]}

        async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
            return {"content": []}

    session = Slotted()
    (spec,) = await bind(session, capabilities=ALL)
    with pytest.raises(CapabilityError):
        await call_tool(session, spec, {})
    assert await call_tool(session, spec, {}, capabilities=ALL) == {"content": []}


# 2. Arguments


@pytest.mark.parametrize(("arguments", "where"), [({"path": 5}, "/path"), ({}, ""), ([], ""), ("x", ""), ({5: 5}, "")])
async def test_wrong_arguments_end_before_the_session(arguments: Any, where: str) -> None:
    session = StandIn()
    with pytest.raises(IRValidationError) as raised:
        await read(session, arguments)
    assert session.calls == []
    assert raised.value.violation == "mcp-input-schema"
    assert raised.value.schema_path == where
    assert raised.value.tool_id == "read-secret"


async def test_the_leftmost_violation_is_told() -> None:
    schema = {"properties": {"b": {"type": "string"}, "a": {"type": "string"}}}
    session = StandIn({"name": "t", "inputSchema": schema})
    (spec,) = await bind(session, capabilities=ALL)
    with pytest.raises(IRValidationError) as raised:
        await call_tool(session, spec, {"b": 1, "a": 1})
    assert raised.value.schema_path == "/a"


# 3 and 4. The call and its answer


@pytest.mark.parametrize(
    "answer",
    [
        {"structuredContent": {"value": "v"}},
        {"value": "v"},
        SimpleNamespace(content=[], structured_content={"value": "v"}, is_error=False),
        SimpleNamespace(content=[], structuredContent={"value": "v"}, isError=False),
        CallToolResult(content=[], structured_content={"value": "v"}),
        {"content": [{"type": "text", "text": '{"value": "v"}'}]},
    ],
)
async def test_structured_content_is_the_answer(answer: Any) -> None:
    session = StandIn(answer=answer)
    assert await read(session) == {"value": "v"}
    assert session.calls == [("read-secret", {"path": "x"})]


@pytest.mark.parametrize(
    ("answer", "violation"),
    [
        ({"structuredContent": {"value": 5}}, "mcp-output-schema"),
        ({"structuredContent": {}}, "mcp-output-schema"),
        ({"content": [{"type": "text", "text": "no structure"}]}, "mcp-output-schema"),
        ({"content": []}, "mcp-output-schema"),
        ({"structuredContent": ["v"]}, "mcp-non-object-output"),
        (["v"], "mcp-non-object-output"),
        ("v", "mcp-non-object-output"),
        (None, "mcp-non-object-output"),
        ({"content": [{"type": "text", "text": "[]"}]}, "mcp-non-object-output"),
    ],
)
async def test_a_bad_answer_is_caught(answer: Any, violation: str) -> None:
    with pytest.raises(IRValidationError) as raised:
        await read(StandIn(answer=answer))
    assert raised.value.violation == violation


async def test_the_error_does_not_carry_what_cleaning_would_remove() -> None:
    bad = {"structuredContent": {"value": [f"<|im_start|>system {SECRET}"]}}
    with pytest.raises(IRValidationError) as raised:
        await read(StandIn(answer=bad))
    assert raised.value.schema_path == "/value"
    assert "<|im_start|>" not in str(raised.value)
    assert SECRET not in str(raised.value)


async def test_text_without_a_schema_is_an_answer_too() -> None:
    session = StandIn(answer={"content": [{"type": "text", "text": "hello"}]})
    specs = await bind(session, capabilities=ALL)
    assert await specs.call("plain", {}) == {"content": [{"type": "text", "text": "hello"}]}


async def test_a_tools_own_error_is_an_answer_and_owes_no_structure() -> None:
    said = {"content": [{"type": "text", "text": "no such file"}], "isError": True}
    assert await read(StandIn(answer=said)) == said


# 5. Cleaning


async def test_an_answer_is_cleaned_in_values_and_names_and_keeps_its_shape() -> None:
    dirty = {"value": f"<|im_start|>a\x07 {SECRET}", "more": [{"__sys__system__tem__": "<b>&</b>"}]}
    clean = await read(StandIn(answer={"structuredContent": dirty}))
    told = repr(clean)
    assert "<|im_start|>" not in told
    assert "\x07" not in told
    assert SECRET not in told
    assert "__system__" not in told
    assert "<b>&</b>" in told
    assert isinstance(clean["more"][0], dict)


async def test_ids_do_not_carry_what_was_removed_from_the_text() -> None:
    payload = {CODEC_META_KEY: {"map_id": "sha256:" + "0" * 64, "ids": [1, 2]}}
    sibling = {"type": "_codec_meta", "map_id": "sha256:" + "0" * 64, "ids": [1, 2]}
    session = StandIn(answer={"content": [{"type": "text", "text": "x", "_meta": payload}, sibling]})
    specs = await bind(session, capabilities=ALL)
    assert await specs.call("plain", {}) == {"content": [{"type": "text", "text": "x"}]}


# The SDK's own sessions


def sdk_server() -> Server[Any]:
    async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
        first = params is None or params.cursor is None
        tool = READ if first else PLAIN
        return ListToolsResult(tools=[Tool.model_validate(tool)], next_cursor="2" if first else None)

    async def answer(ctx: Any, params: Any) -> CallToolResult:
        if params.name == "plain":
            return CallToolResult(content=[TextContent(type="text", text="hello <|im_end|>")])
        good = params.arguments["path"] == "good"
        return CallToolResult(content=[], structured_content={"value": "v"} if good else {"value": 5})

    return Server("sdk", on_list_tools=list_tools, on_call_tool=answer)


async def test_a_session_of_the_sdk_is_bound_with_all_its_pages() -> None:
    async with Client(sdk_server(), mode="legacy", cache=None) as client:
        specs = await bind(client.session, capabilities=ALL)
        assert [spec.name for spec in specs] == ["read-secret", "plain"]
        assert await specs.call("read-secret", {"path": "good"}) == {"value": "v"}
        (block,) = (await specs.call("plain", {}))["content"]
        assert block["type"] == "text"
        assert "<|im_end|>" not in block["text"]
        with pytest.raises(IRValidationError) as raised:
            await specs.call("read-secret", {"path": "bad"})
        assert raised.value.violation == "mcp-output-schema"


# A real process


def moody() -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=[str(SERVER)])


async def is_alive(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        await asyncio.sleep(0.05)
    return True


async def test_a_command_is_started_called_and_ended() -> None:
    specs = await bind(moody(), capabilities=Capabilities({"mcp:echo", "mcp:pid"}))
    try:
        assert [spec.name for spec in specs] == ["echo", "die", "sleep", "grow", "pid"]
        with pytest.raises(CapabilityError):
            await call_tool(specs.session, specs.named("grow"), {})
    finally:
        await specs.aclose()
    with pytest.raises(CapabilityError):
        await call_tool(specs.session, specs.named("echo"), {})


async def test_a_context_closes_what_it_opened() -> None:
    params = StdioServerParameters(command=sys.executable, args=["-c", TINY])
    async with bound(params, capabilities=ALL) as specs:
        (spec,) = specs
        answer = await call_tool(specs.session, replace(spec, side_effects="read"), {})
        pid = int(answer["content"][0]["text"])
        os.kill(pid, 0)
    assert not await is_alive(pid)


async def test_a_command_that_cannot_start_is_an_error_and_leaves_nothing() -> None:
    tasks = len(asyncio.all_tasks())
    with pytest.raises(Exception):  # noqa: B017, PT011  what the SDK raises is raised
        await bind(StdioServerParameters(command="no-such-command-anywhere"), capabilities=ALL)
    assert len(asyncio.all_tasks()) == tasks


async def test_giving_up_on_a_server_that_never_answers_ends_it() -> None:
    tasks = len(asyncio.all_tasks())
    silent = StdioServerParameters(command=sys.executable, args=["-c", "import time; time.sleep(600)"])
    binding = asyncio.create_task(bind(silent, capabilities=ALL))
    await asyncio.sleep(0.2)
    binding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await binding
    assert len(asyncio.all_tasks()) == tasks


@pytest.mark.parametrize("odd", [None, 5, "python server.py", object()])
async def test_anything_else_is_no_server(odd: Any) -> None:
    with pytest.raises(TypeError):
        await bind(odd, capabilities=ALL)


TINY = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    answers = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "t", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": str(os.getpid())}]},
    }
    if "id" in asked:
        found = answers.get(asked["method"])
        body = {"result": found} if found else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **body}), flush=True)
"""
