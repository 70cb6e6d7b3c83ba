"""Definitions with every field of every wrong type: what is wrong is left out and flagged, and no list fails.

One server lists them, another one lists what is right, and clients of both eras read the lists of both in every mode.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
from gateways import SERVERS, gateway_on_http, text_of
from mcp import Client

pytestmark = pytest.mark.anyio

ICONS = [{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "light"}]
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"a": {"type": "string"}},
}
ANNOTATIONS = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}
PROSE = {"title": "Title", "description": "Description.", "_meta": {"vendor/key": {"deep": [1]}}, "icons": ICONS}
# A right definition of each kind with every field there is, and the member that names it.
WHOLE: dict[str, tuple[str, dict[str, Any]]] = {
    "tools": (
        "name",
        {
            "name": "tool",
            "inputSchema": {**SCHEMA, "required": ["a"]},
            "outputSchema": {**SCHEMA, "required": ["a"]},
            "annotations": {"title": "T", "readOnlyHint": True, "destructiveHint": False, "openWorldHint": True},
            "execution": {"taskSupport": "optional"},
            **PROSE,
        },
    ),
    "resources": (
        "uri",
        {"uri": "x://", "name": "r", "mimeType": "text/plain", "size": 5, "annotations": ANNOTATIONS, **PROSE},
    ),
    "resourceTemplates": (
        "uriTemplate",
        {"uriTemplate": "t://{a}", "name": "t", "mimeType": "text/plain", "annotations": ANNOTATIONS, **PROSE},
    ),
    "prompts": (
        "name",
        {"name": "p", "arguments": [{"name": "a", "title": "A", "description": "An a.", "required": True}], **PROSE},
    ),
}


def nest(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"deeper": value}
    return value


WRONG: list[Any] = [
    5, -0.5, True, "text", [], {}, [5], ["text"], [[]], [{}], {"a": 5}, {"type": 5}, {"a": [None]}, None,
    float("nan"), 10**400, nest(100), "half \ud83d of a pair", "x" * 2_000_000,
]  # fmt: skip


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*place, key)
        yield from places(each, (*place, key))


def change(definition: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(definition)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


@cache
def variants(key: str) -> tuple[list[Any], set[str]]:
    """Every field of a kind with every wrong value, and the names of those that still have a right name."""
    member, whole = WHOLE[key]
    definitions: list[Any] = [5, None, "text", [], {}]
    names: set[str] = set()
    for place in places(whole):
        for value in WRONG:
            if value == WRONG[-1] and len(place) > 1:
                continue  # some are enough for what is too large
            name = f"{whole[member]}_{len(definitions)}"
            if place != (member,):
                names.add(name)
            definitions.append(change({**whole, member: name}, place, value))
    return definitions, names


RIGHT = {key: [whole | {member: f"good-{whole[member]}"}] for key, (member, whole) in WHOLE.items()}


def server(file: Path, lists: dict[str, Any], era: str) -> dict[str, Any]:
    file.write_text(json.dumps(lists))
    env = {"LISTING_FILE": str(file), "LISTING_ERA": era}
    return {"command": sys.executable, "args": [str(SERVERS / "listing.py")], "env": env}


async def read_all(read: Any, key: str) -> list[Any]:
    entries: list[Any] = []
    cursor = None
    while True:
        page = await read(cursor=cursor)
        entries += getattr(page, key)
        cursor = page.next_cursor
        if cursor is None:
            return entries


@asynccontextmanager
async def connected(url: str, mode: str) -> AsyncIterator[Client]:
    async with Client(f"{url}/mcp", mode=mode) as client:
        yield client


@pytest.mark.parametrize(
    ("mode", "era"), [("gateway", "handshake"), ("transparent", "handshake"), ("passthrough", "stateless")]
)
async def test_no_wrong_field_of_a_server_keeps_a_list_from_clients(tmp_path: Path, mode: str, era: str) -> None:
    wrong = {key: variants(key)[0] for key in WHOLE}
    servers = {"wrong": server(tmp_path / "wrong.json", wrong, era), "good": server(tmp_path / "r.json", RIGHT, era)}
    config = tmp_path / "leafgate.json"
    config.write_text(json.dumps({"mode": mode, "mcpServers": servers}))
    with gateway_on_http("--config", str(config)) as gateway:
        for client_era in ("legacy", "auto"):
            async with connected(gateway.url, client_era) as client:
                tools = {tool.name: tool for tool in await read_all(client.list_tools, "tools")}
                if mode != "gateway":
                    assert {"good-tool", *variants("tools")[1]} <= tools.keys()
                lists = {
                    "resources": {str(each.uri) for each in await read_all(client.list_resources, "resources")},
                    "resourceTemplates": {
                        each.uri_template
                        for each in await read_all(client.list_resource_templates, "resource_templates")
                    },
                    "prompts": {each.name for each in await read_all(client.list_prompts, "prompts")},
                }
                for key, names in lists.items():
                    member = WHOLE[key][0]
                    assert {RIGHT[key][0][member], *variants(key)[1]} <= names
        if mode == "passthrough":
            good = tools["good-tool"]
            assert good.annotations.read_only_hint is True
            assert good.icons[0].src == ICONS[0]["src"]
        if mode == "gateway":
            async with connected(gateway.url, "auto") as client:
                for kind in ("tool", "resource", "prompt"):
                    page = await client.call_tool(f"{kind}_browse", {"path": "/good"})
                    assert not page.is_error, text_of(page)
        flagged = httpx2.get(f"{gateway.url}/status").json()["flagged"]
        assert {flag["server"] for flag in flagged if flag["code"] == "does-not-fit-lists"} == {"wrong"}
        places_flagged = {flag["where"] for flag in flagged}
        assert {
            "/annotations/priority",
            "/icons/0/theme",
            "/arguments/0/required",
            "/_meta",
            "/title",
        } <= places_flagged


SCHEMAS = {"inputSchema": SCHEMA}
SPOILING = {
    "type": {"properties": {"a": {"type": "banana"}}},
    "pattern": {"properties": {"a": {"pattern": "(?i)abc"}}},
    "reference": {"properties": {"a": {"$ref": "#/$defs/none"}}},
    "booleans": {"properties": {"a": True, "b": False}},
    "same-id": {"$id": "https://example.com/result", "properties": {"text": {"type": "number"}}},
    "inner-id": {"properties": {"a": {"$id": "https://example.com/result"}}},
}


def test_no_schema_of_a_server_keeps_a_list_from_a_client_that_compiles_it(tmp_path: Path) -> None:
    """The client of the TypeScript SDK compiles all output schemas, into one table of ids, when it lists tools."""
    tools = [
        {"name": f"{name}_{key}", key: {"type": "object", **schema}, **({} if key == "inputSchema" else SCHEMAS)}
        for name, schema in SPOILING.items()
        for key in ("inputSchema", "outputSchema")
    ]
    times = ["yesterday", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01T00:00:00Z"]
    resources = [
        {"uri": f"x://{n}", "name": f"r{n}", "annotations": {"lastModified": time}} for n, time in enumerate(times)
    ]
    good = {"name": "good", **SCHEMAS, "outputSchema": {"type": "object", "$id": "https://example.com/result"}}
    servers = {
        "wrong": server(tmp_path / "w.json", {"tools": tools, "resources": resources}, "handshake"),
        "good": server(tmp_path / "good.json", {"tools": [good]}, "handshake"),
    }
    config = tmp_path / "leafgate.json"
    config.write_text(json.dumps({"mode": "passthrough", "mcpServers": servers}))
    with gateway_on_http("--config", str(config)) as gateway:
        node = ["node", str(SERVERS / "list-tools.mjs"), f"{gateway.url}/mcp"]
        listing = subprocess.run(node, capture_output=True, text=True, check=False, timeout=60)
        assert listing.returncode == 0, listing.stderr
        listed = json.loads(listing.stdout)
        assert {"good", *(tool["name"] for tool in tools)} <= {*listed["tools"]}
        assert listed["resources"] == len(times)
        flags = httpx2.get(f"{gateway.url}/status").json()["flagged"]
    places = {(flag["name"], flag["where"]) for flag in flags if flag["code"] == "does-not-fit-lists"}
    spoilt = {(f"{name}_outputSchema", "/outputSchema") for name in ("type", "pattern", "reference", "inner-id")}
    assert places == spoilt | {(f"r{n}", "/annotations/lastModified") for n in range(3)}
