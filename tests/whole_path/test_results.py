"""What plain clients get of results: structured content of any JSON and within the budget, `_meta`, lean envelopes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from gateways import SERVERS, HttpGateway, gateway_on_http, text_of
from mcp import Client
from mcp.types import CallToolResult
from warm_python import PYTHON

from leafgate.maps.files import MapFiles

pytestmark = pytest.mark.anyio

BUDGET = 800
ENVELOPE = "leafgate/envelope"
FULL: Any = {"leafgate/accept": {"envelope": "full"}}
LINES = {"lines": 5_000}
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
CL100K = MapFiles().load("openai/cl100k_base")

TABLES = """
from pydantic import BaseModel, Field
from mcp.server import MCPServer

server = MCPServer("tables")

class Row(BaseModel):
    id: int
    name: str = Field(pattern="^row [0-9]+ of a table with a name that is long enough to be cut in a digest$")

class Table(BaseModel, extra="forbid"):
    rows: list[Row] = Field(min_length=2)
    total: int
    note: str = ""

@server.tool(structured_output=True)
def table(lines: int) -> Table:
    name = "row {} of a table with a name that is long enough to be cut in a digest"
    return Table(rows=[Row(id=n, name=name.format(n)) for n in range(lines)], total=lines, note="a note " * lines)

server.run()
"""


def tokens(value: Any) -> int:
    return len(CL100K.encode(value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))))


def configured(folder: Path, **settings: Any) -> str:
    tables = folder / "tables.py"
    tables.write_text(TABLES)
    commands = {"reference": [str(SERVERS / "reference_server.py"), "--stdio", "--rich"], "tables": [str(tables)]}
    servers = {name: {"command": PYTHON, "args": args} for name, args in commands.items()}
    file = folder / "leafgate.yaml"
    file.write_text(yaml.safe_dump({**settings, "mcpServers": servers}))
    return str(file)


@pytest.fixture(scope="module")
def passthrough(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    with gateway_on_http("--config", configured(tmp_path_factory.mktemp("plain"), mode="passthrough")) as running:
        yield running


@asynccontextmanager
async def connected(gateway: HttpGateway, era: str) -> AsyncIterator[Client]:
    async with Client(f"{gateway.url}/mcp", mode=era) as client:
        await client.list_tools()  # the client then checks structured content against the output schemas
        yield client


def read_by_a_model(result: CallToolResult) -> str:
    """All that a library might put before a model: it may print the whole result."""
    return result.model_dump_json(by_alias=True, exclude_none=True)


def meta_of(result: CallToolResult) -> dict[str, Any]:
    """Its `_meta`, without what the protocol itself adds in the stateless era."""
    return {key: value for key, value in (result.meta or {}).items() if not key.startswith("io.modelcontextprotocol/")}


@ERAS
async def test_a_large_table_fits_the_budget_and_its_output_schema(passthrough: HttpGateway, era: str) -> None:
    async with connected(passthrough, era) as client:
        result = await client.call_tool("table", LINES)
        assert not result.is_error
        assert tokens(read_by_a_model(result)) <= BUDGET + 200  # with what JSON and MCP add
        assert result.structured_content["total"] == 5_000
        assert 2 <= len(result.structured_content["rows"]) < 100
        handle = result.meta[ENVELOPE]["artifacts"][0]["handle"]
        selector = {"type": "json", "pointer": "/rows/4999/id"}
        assert text_of(await client.call_tool("tool_view", {"handle": handle, "selector": selector})).startswith("4999")
        small = await client.call_tool("table", {"lines": 3})
        assert (len(small.structured_content["rows"]), meta_of(small)) == (3, {})


@ERAS
async def test_structured_content_beside_a_short_text_is_held_to_the_budget(passthrough: HttpGateway, era: str) -> None:
    async with connected(passthrough, era) as client:
        result = await client.call_tool("rich_large_structured", LINES)
        assert tokens(read_by_a_model(result)) <= BUDGET + 200
        assert text_of(result).startswith("5000 rows.")
        shown = result.structured_content
        assert shown["rows"][0] == {"id": 0, "text": "row 0 of the table"}
        handle = result.meta[ENVELOPE]["artifacts"][0]["handle"]
        assert handle in shown["_shortened"], "a client that reads only structured content learns how to read the rest"
        view = {"handle": handle, "selector": {"type": "json", "pointer": "/rows/4321/text"}}
        assert text_of(await client.call_tool("tool_view", view)).startswith("row 4321 of the table")


async def test_structured_content_is_not_repeated_as_a_text(passthrough: HttpGateway) -> None:
    async with connected(passthrough, "auto") as client:
        result = await client.call_tool("rich_large_structured", {"lines": 2})
        assert [block.text for block in result.content] == ["2 rows."]
        assert result.structured_content["total"] == 2


VALUES = {"array": [1, 2, 3], "string": "a text", "integer": 9_007_199_254_740_993, "number": 2.5, "boolean": False}


@pytest.mark.parametrize(("kind", "value"), VALUES.items())
async def test_structured_content_of_every_json_type_passes(passthrough: HttpGateway, kind: str, value: Any) -> None:
    async with connected(passthrough, "auto") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools[f"rich_structured_{kind}"].output_schema["type"] == kind
        assert (await client.call_tool(f"rich_structured_{kind}", {})).structured_content == value


@pytest.mark.parametrize(("kind", "value"), VALUES.items())
async def test_clients_before_2026_get_it_as_text_and_no_schema_that_they_refuse(
    passthrough: HttpGateway, kind: str, value: Any
) -> None:
    async with connected(passthrough, "legacy") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools[f"rich_structured_{kind}"].output_schema is None
        result = await client.call_tool(f"rich_structured_{kind}", {})
        assert json.loads(text_of(result)) == value
        assert result.structured_content is None


async def test_the_meta_of_a_servers_result_passes_clean(passthrough: HttpGateway) -> None:
    async with connected(passthrough, "auto") as client:
        result = await client.call_tool("rich_annotated", {})
        assert meta_of(result) == {"example.test/note": {"on": "the result", "n": 1}}


async def test_meta_is_lean_unless_a_client_asks_for_all_of_it(tmp_path: Path) -> None:
    with gateway_on_http("--config", configured(tmp_path)) as gateway:
        async with Client(f"{gateway.url}/mcp") as client:
            page = await client.call_tool("tool_browse", {"query": "rich_large_text"})
            assert not meta_of(page)
            tool_id = text_of(page).split(" ")[0]
            assert (await client.call_tool("tool_browse", {"query": "rich"}, meta=FULL)).meta["leafgate/browse"][
                "cards"
            ]
            small = {"tool_id": tool_id, "args": {"lines": 2}}
            assert not meta_of(await client.call_tool("tool_execute", small))
            refused = await client.call_tool("tool_execute", {"tool_id": "no:such#00000000"})
            assert (refused.is_error, meta_of(refused)) == (True, {})
            full = (await client.call_tool("tool_execute", small, meta=FULL)).meta[ENVELOPE]
            assert full["provenance"]["tool"] == "rich_large_text"
            large = {"tool_id": tool_id, "args": LINES}
            lean = meta_of(await client.call_tool("tool_execute", large))
            assert tokens(lean) <= 40
            (artifact,) = lean[ENVELOPE]["artifacts"]
            assert artifact["handle"] in text_of(await client.call_tool("tool_execute", large))
            full = (await client.call_tool("tool_execute", large, meta=FULL)).meta[ENVELOPE]
            assert full["artifacts"][0]["lines"] == 5_000
            wrong = await client.call_tool("tool_execute", small, meta={"leafgate/accept": {"envelope": "huge"}})  # type: ignore[arg-type]
            assert json.loads(text_of(wrong))["error"] == "ARGS_INVALID"


async def test_the_operator_can_choose_full_envelopes(tmp_path: Path) -> None:
    with gateway_on_http("--config", configured(tmp_path, mode="passthrough", envelope="full")) as gateway:
        async with Client(f"{gateway.url}/mcp") as client:
            assert (await client.call_tool("rich_unicode", {})).meta[ENVELOPE]["provenance"]["server"] == "reference"
            lean: Any = {"leafgate/accept": {"envelope": "lean"}}
            assert not meta_of(await client.call_tool("rich_unicode", {}, meta=lean))
