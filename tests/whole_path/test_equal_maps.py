"""One server with leaves of Qwen 2, and clients that ask for each map of the family: all are bypasses."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from gateways import SERVERS, HttpGateway, gateway_on_http, text_of
from mcp import Client
from servers.leaf_faults import QWEN, TEXT

from leafgate.maps.files import MapFiles
from leafgate.model.leaf import CODEC_META_KEY, digest_of

pytestmark = pytest.mark.anyio

QWEN2: dict[str, Any] = json.loads(MapFiles().find("qwen/qwen2").path.read_bytes())
# As Qwen 2.5 differs from Qwen 2, in its name and its special tokens; and one token that is not in Qwen 2.
SPECIALS = {**QWEN2["special_tokens"], "<x>": 160_000}
EQUAL = json.dumps({**QWEN2, "id": "qwen/equal", "special_tokens": SPECIALS}).encode()
NEAR = json.dumps({**QWEN2, "id": "qwen/near", "vocab": {**QWEN2["vocab"], "ĠUTCĠ": 160_000}}).encode()
MAPS = {
    "qwen2": QWEN.map.digest,
    "qwen3": str(MapFiles().find("qwen/qwen3").digest),
    "equal": digest_of(EQUAL),
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    folder = tmp_path_factory.mktemp("equal")
    for name, raw in (("equal", EQUAL), ("near", NEAR)):
        (folder / f"{name}.json").write_bytes(raw)
    server = {"command": sys.executable, "args": [str(SERVERS / "leaf_faults.py")]}
    files = [str(folder / "equal.json"), str(folder / "near.json")]
    path = folder / "leafgate.yaml"
    path.write_text(json.dumps({"map": "qwen/qwen2", "maps": {"files": files}, "mcpServers": {"leaves": server}}))
    with gateway_on_http("--config", str(path)) as started:
        yield started


async def call(gateway: HttpGateway, digest: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The payload that a client of this map gets, and what the gateway counted for it."""
    before = counts(gateway)
    async with Client(f"{gateway.url}/mcp") as client:
        page = text_of(await client.call_tool("tool_browse", {"query": "answer", "top_k": 10}))
        tool_id = next(line.split(" ")[0] for line in page.splitlines() if line.startswith("leaves:answer#"))
        arguments = {"tool_id": tool_id, "args": {"fault": "right"}}
        result = await client.call_tool("tool_execute", arguments, meta={"ai.codec/accept": {"map_id": digest}})
    block = result.content[0]
    assert block.text == TEXT
    after = counts(gateway)
    return block.meta[CODEC_META_KEY], {name: after[name] - before.get(name, 0) for name in after}


def counts(gateway: HttpGateway) -> dict[str, int]:
    codec = httpx2.get(f"{gateway.url}/status").raise_for_status().json()["codec"]
    return {"bypasses": codec["leafBypasses"], "foreign": codec["rejectedLeaves"].get("foreign-map", 0)}


@pytest.mark.parametrize("name", MAPS)
async def test_a_leaf_serves_every_map_of_its_family(gateway: HttpGateway, name: str) -> None:
    payload, counted = await call(gateway, MAPS[name])
    assert payload == {"map_id": MAPS[name], "ids": QWEN.encode(TEXT)}
    assert counted == {"bypasses": 1, "foreign": 0}


async def test_a_map_that_differs_by_one_token_is_foreign(gateway: HttpGateway) -> None:
    payload, counted = await call(gateway, digest_of(NEAR))
    assert payload["map_id"] == digest_of(NEAR)
    assert counted == {"bypasses": 0, "foreign": 1}
