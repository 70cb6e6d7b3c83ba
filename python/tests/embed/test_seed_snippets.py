"""The snippets of the reference documents, word for word but for their import lines.

Those about sessions as JSON lines are in test_context_seed.py.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from warm_python import PYTHON

import leafgate
from leafgate.model.tool import canonical_hash8

FOREIGN = re.compile(r"^from (?:contextweaver|stargraph)[\w.]* import", re.MULTILINE)


def ours(snippet: str) -> str:
    """The snippet with its import lines changed."""
    adapted = snippet.replace("from stargraph.adapters import mcp\n", "import leafgate as mcp\n")
    return FOREIGN.sub("from leafgate import", adapted)


# Statement by statement, because the documents await and call asyncio.run side by side.
def run(source: str, scope: dict[str, Any]) -> dict[str, Any]:
    for statement in ast.parse(source).body:
        module = ast.Module([statement], type_ignores=[])
        code: CodeType = compile(module, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        made = eval(code, scope)
        if asyncio.iscoroutine(made):
            asyncio.run(made)
    return scope


def run_ours(snippet: str, **scope: Any) -> SimpleNamespace:
    return SimpleNamespace(**run(ours(snippet), scope))


TOOL = """
from contextweaver.adapters.mcp import mcp_tool_to_selectable
mcp_tool = {
"name": "search_database",
"description": "Search records in the database",
"inputSchema": {
"type": "object",
"properties": {
"query": {"type": "string"},
"limit": {"type": "integer", "default": 10}
}
},
"outputSchema": {
"type": "object",
"properties": {
"results": {"type": "array"},
"total": {"type": "integer"}
}
}
}
item = mcp_tool_to_selectable(mcp_tool)
"""


def test_a_tool_becomes_selectable() -> None:
    found = run_ours(TOOL)
    # The document's own later chapter retires the bare "mcp:search_database" for ids with a hash.
    assert re.fullmatch(r"mcp:search_database#[0-9a-f]{8}", found.item.id)
    assert (found.item.kind, found.item.name) == ("tool", "search_database")
    assert found.item.output_schema == found.mcp_tool["outputSchema"]


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("github.create_issue", "github"),
        ("filesystem/read", "filesystem"),
        ("slack_send_message", "slack"),
        ("search_database", "mcp"),
    ],
)
def test_namespaces_are_inferred(name: str, namespace: str) -> None:
    assert leafgate.infer_namespace(name) == namespace


RESULT = """
from contextweaver.adapters.mcp import mcp_result_to_envelope
mcp_result = {
"content": [{"type": "text", "text": "Found 42 records matching query"}],
"isError": False
}
envelope, binaries, full_text = mcp_result_to_envelope(mcp_result, "search_database")
"""

STRUCTURED = """
from contextweaver.adapters.mcp import mcp_result_to_envelope
mcp_result = {
"content": [{"type": "text", "text": "query done"}],
"structuredContent": {"count": 42, "status": "done"},
}
envelope, binaries, _ = mcp_result_to_envelope(mcp_result, "query")
"""

ANNOTATED = """
from contextweaver.adapters.mcp import mcp_result_to_envelope
mcp_result = {
"content": [
{"type": "text", "text": "...", "annotations": {"audience": ["human"], "priority": 0.9}},
],
}
envelope, _, _ = mcp_result_to_envelope(mcp_result, "tool")
"""


def test_a_result_becomes_an_envelope() -> None:
    found = run_ours(RESULT)
    assert found.envelope.summary == found.full_text == "Found 42 records matching query"
    assert found.envelope.status == "ok"
    assert found.binaries == {}


def test_structured_content_becomes_an_artifact_and_facts() -> None:
    found = run_ours(STRUCTURED)
    assert json.loads(found.binaries["mcp:query:structured_content"][0]) == {"count": 42, "status": "done"}
    assert {"count: 42", "status: done"} <= set(found.envelope.facts)


def test_annotations_are_collected() -> None:
    (told,) = run_ours(ANNOTATED).envelope.provenance["content_annotations"]
    assert told == {"part_index": 0, "audience": ["human"], "priority": 0.9}


CACHED = """
import anthropic # pip install anthropic
from contextweaver.routing.cards import make_choice_cards
from contextweaver.routing.catalog import Catalog
catalog = Catalog() # populated elsewhere with stable IDs
cards = make_choice_cards(
catalog.all(),
scores={item.id: 0.5 for item in catalog.all()}, # deterministic scoring
max_cards=20,
)
# Render cards into Anthropic's `tools` array (cacheable prefix).
tools = [
{
"name": c.name,
"description": c.description,
"input_schema": {"type": "object"}, # hydrate per-call when selected
}
for c in cards
]
# Place the cache breakpoint on the LAST tool definition. As long as the
# `cards` array is stable, every request reuses the cache prefix and only
# the trailing user turn varies.
if tools:
    tools[-1]["cache_control"] = {"type": "ephemeral"}
client = anthropic.Anthropic()
client.messages.create(
model="claude-3-5-sonnet-latest",
max_tokens=1024,
tools=tools,
messages=[{"role": "user", "content": "..."}],
)
"""


def test_cards_are_a_prefix_that_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    messages = SimpleNamespace(create=lambda **request: sent.append(request))
    stand_in = SimpleNamespace(Anthropic=lambda: SimpleNamespace(messages=messages))
    monkeypatch.setitem(sys.modules, "anthropic", stand_in)
    populated = "\n".join(
        f"catalog.register(mcp_tool_to_selectable({{'name': 'tool_{n}', 'description': 'Does {n}.'}}))"
        for n in range(30)
    )
    source = CACHED.replace(" # populated elsewhere with stable IDs", f"\n{populated}")
    for text in (CACHED, source, source):
        run_ours(text, mcp_tool_to_selectable=leafgate.mcp_tool_to_selectable)
    assert sent[0]["tools"] == []
    assert sent[1] == sent[2]
    assert len(sent[1]["tools"]) == 20
    assert sent[1]["tools"][-1]["cache_control"] == {"type": "ephemeral"}


HASH = """
import hashlib
import json

def _canonical_shape(input_schema: dict[str, object]) -> str:
    props = sorted((input_schema.get("properties") or {}).keys())
    required = sorted(input_schema.get("required") or [])
    return json.dumps(
        {"properties": props, "required": required},
        sort_keys=True,
        separators=(",", ":"),
    )

def _hash8(upstream_name: str, input_schema: dict[str, object]) -> str:
    canonical = upstream_name + "\\n" + _canonical_shape(input_schema)
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()[:8]
"""


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("read_file", {}),
        ("github.create_issue", {"properties": {"title": {}, "body": {}}, "required": ["title"]}),
        ("größe", {"properties": {"ß": {}, "a": {}}, "required": ["ß", "a"]}),
    ],
)
def test_hashes_agree(name: str, schema: dict[str, Any]) -> None:
    assert run_ours(HASH)._hash8(name, schema) == canonical_hash8(name, schema)


GATEWAY = """
import asyncio
from contextweaver.adapters import ProxyRuntime, StubUpstream
from contextweaver.adapters.mcp_gateway_server import McpGatewayServer
runtime = ProxyRuntime(StubUpstream([...]))
await runtime.refresh_catalog()
server = McpGatewayServer(runtime, name="example-gateway")
asyncio.run(server.run_stdio())
"""

PROXY = """
import asyncio
from contextweaver.adapters import ExposureMode, ProxyRuntime, StubUpstream
from contextweaver.adapters.mcp_proxy_server import McpProxyServer
runtime = ProxyRuntime(StubUpstream([...]), mode=ExposureMode.TRANSPARENT)
await runtime.refresh_catalog()
server = McpProxyServer(runtime, name="example-proxy")
asyncio.run(server.run_stdio())
"""
DEFINITION = {"name": "github.create_issue", "description": "Create an issue.", "inputSchema": {"type": "object"}}


def as_program(source: str) -> list[str]:
    program = "import sys; sys.path[:0] = sys.argv[2:]; import test_seed_snippets as t; t.run(sys.argv[1], {})"
    return ["-c", program, ours(source), str(Path(__file__).parent), str(Path(__file__).parents[1])]


@pytest.mark.parametrize("snippet", [GATEWAY, PROXY], ids=["gateway", "proxy"])
def test_the_servers_run_as_they_are_written(snippet: str) -> None:
    """`[...]` is a list, too; without a client they end."""
    ended = subprocess.run(
        [PYTHON, *as_program(snippet)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("snippet", "name", "listed"),
    [
        (GATEWAY, "example-gateway", ["tool_browse", "tool_hydrate", "tool_execute", "tool_view"]),
        (PROXY, "example-proxy", ["tool_hydrate", "tool_execute", "tool_view", "github_create_issue_"]),
    ],
    ids=["gateway", "proxy"],
)
async def test_clients_find_the_servers_over_stdio(snippet: str, name: str, listed: list[str]) -> None:
    program = as_program(snippet.replace("[...]", repr([DEFINITION])))
    async with Client(StdioServerParameters(command=PYTHON, args=program), cache=None) as client:
        assert client.server_info is not None
        assert client.server_info.name == name
        tools = (await client.list_tools()).tools
        assert [re.sub("_[0-9a-f]{8}$", "_", tool.name) for tool in tools] == listed
        schema: dict[str, Any] = {"properties": {}, "required": []}
        tool_id = f"github:create_issue#{canonical_hash8('github.create_issue', schema)}"
        called = await client.call_tool("tool_execute", {"tool_id": tool_id})
        assert not called.is_error


GUARDED = """
from stargraph.adapters import mcp
from stargraph.security import Capabilities

caps = Capabilities(...)
specs = await mcp.bind(server_params, capabilities=caps)

read_secret = next(s for s in specs if s.name == "read-secret")
result = await mcp.call_tool(
    session,
    read_secret,
    {"path": "/secrets/api-key"},
)
"""


class Session:
    """Session-shaped, as the document's own tests use it."""

    async def initialize(self) -> None: ...

    async def list_tools(self) -> Any:
        return SimpleNamespace(tools=[{"name": "read-secret", "inputSchema": {"type": "object"}}])

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        return {"content": [], "structuredContent": {"value": f"<|im_start|>{arguments['path']}"}}


def test_guarded_calls() -> None:
    session = Session()
    granted = GUARDED.replace("Capabilities(...)", 'Capabilities({"mcp:read-secret"})')
    value = run_ours(granted, server_params=session, session=session).result["value"]
    assert value.endswith("/secrets/api-key")
    assert "<|im_start|>" not in value
    refused = GUARDED.replace("Capabilities(...)", "Capabilities()")
    with pytest.raises(leafgate.CapabilityError) as raised:
        run_ours(refused, server_params=session, session=session)
    assert (raised.value.tool_id, raised.value.deployment) == ("read-secret", "mcp")


def test_a_selection_is_bounded_before_and_checked_afterwards() -> None:
    catalog = leafgate.Catalog([leafgate.mcp_tool_to_selectable(DEFINITION)])
    (item,) = catalog.all()
    found: leafgate.RouteResult = leafgate.Router(catalog).route("create an issue")
    assert found.selection_schema()["properties"]["selection"]["enum"] == [item.id]
    assert found.selection_schema("openai")["type"] == "json_schema"
    assert found.selection_schema(provider="anthropic")["input_schema"]["required"] == ["selection"]
    assert found.validate_selection(item.id).status == "accepted"
    assert found.validate_selection(item.id.upper()).id == item.id
    assert found.validate_selection("something else").status == "rejected"
    with pytest.raises(leafgate.RouteError):
        leafgate.RouteResult((), "no_match", 0.0).selection_schema()
