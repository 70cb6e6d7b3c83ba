"""A Node leaf server behind a gateway: it makes the ids that a client wants, and none where none are wanted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from gateways import SERVERS, HttpGateway, gateway_on_http

from leafgate.client import LeafgateClient
from leafgate.maps.files import MapFiles
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.tokens.ids import TokenIds

QWEN, QWEN3, CL100K = (MapFiles().load(name) for name in ("qwen/qwen2", "qwen/qwen3", "openai/cl100k_base"))
# The client's map, and those that give the same ids.
WISHES = {
    QWEN.map.digest: [QWEN.map.digest, QWEN3.map.digest],
    QWEN3.map.digest: [QWEN3.map.digest, QWEN.map.digest],
    CL100K.map.digest: [CL100K.map.digest],
}
TEXT = "The garden was quiet, and the bread was still warm. 的 é"
NODE = Path(SERVERS) / "wishes.mjs"


@dataclass(frozen=True)
class Place:
    gateway: HttpGateway
    folder: Path

    def wishes(self, server: str) -> list[Any]:
        return [json.loads(line) for line in (self.folder / f"{server}.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("wishes")

    def server(name: str, maps: str) -> dict[str, Any]:
        return {"command": "node", "args": [str(NODE), maps, str(folder / f"{name}.jsonl")], "env": dict(os.environ)}

    servers = {"both": server("both", "qwen/qwen2,openai/cl100k_base"), "qwen": server("qwen", "qwen/qwen2")}
    servers["plain"] = {"command": sys.executable, "args": [str(Path(SERVERS) / "echo.py")]}
    file = folder / "gateway.json"
    file.write_text(json.dumps({"mode": "passthrough", "mcpServers": servers}))
    with gateway_on_http("--config", str(file)) as gateway:
        yield Place(gateway, folder)


def call(place: Place, server: str, **options: Any) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        async with LeafgateClient(f"{place.gateway.url}/mcp", **options) as client:
            result = await client.call_tool(f"{server}__echo", {"text": TEXT})
            assert result.meta["leafgate/envelope"]["provenance"].get("codec", {}).get("rejected") is None
            return dict(result.raw)

    return anyio.run(run)


def payload_of(result: dict[str, Any]) -> Any:
    return result["content"][0].get("_meta", {}).get(CODEC_META_KEY)


@pytest.mark.parametrize(("form", "packed", "binary"), [*product(("both", "ids"), (True, False), (True, False))])
def test_the_ids_of_the_map_that_is_wanted_in_the_form_that_is_wanted(
    place: Place, form: str, packed: bool, binary: bool
) -> None:
    for encoder in (QWEN, CL100K):
        result = call(place, "both", encoder=encoder, form=form, packed=packed, binary=binary)
        ids = encoder.encode(TEXT)
        wanted = TokenIds.from_list(ids).packed if packed else ids
        assert payload_of(result) == {"map_id": encoder.map.digest, "ids": wanted}
        assert result["content"][0]["text"] == (TEXT if form == "both" else "")
        codec = result["_meta"]["leafgate/envelope"]["provenance"]["codec"]
        assert codec == {"leafBypasses": 1, "tokenizeCalls": 0}
        assert place.wishes("both")[-1] == {"maps": WISHES[encoder.map.digest], "form": "packed"}


def test_a_server_with_an_equal_map_makes_leaves_of_it(place: Place) -> None:
    """They are passed on under the map that the client asked for."""
    result = call(place, "qwen", encoder=QWEN3, packed=True)
    ids = TokenIds.from_list(QWEN3.encode(TEXT)).packed
    assert payload_of(result) == {"map_id": QWEN3.map.digest, "ids": ids}
    assert result["_meta"]["leafgate/envelope"]["provenance"]["codec"] == {"leafBypasses": 1, "tokenizeCalls": 0}
    assert place.wishes("qwen")[-1] == {"maps": WISHES[QWEN3.map.digest], "form": "packed"}


def from_node(place: Place, **options: Any) -> dict[str, Any]:
    """What the client of the Node package gets of the same call."""
    command = ["node", str(Path(__file__).with_name("packed-client.mjs")), f"{place.gateway.url}/mcp"]
    ran = subprocess.run([*command, json.dumps({"tool": "both__echo", "text": TEXT, **options})],
                         capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


@pytest.mark.parametrize(("form", "packed", "frames"), [*product(("both", "ids"), (True, False), (True, False))])
def test_the_node_client_gets_packed_ids(place: Place, form: str, packed: bool, frames: bool) -> None:
    """It gives them to its caller as numbers, verified, with the text that they decode to."""
    answer = from_node(place, map="qwen/qwen2", form=form, packed=packed, frames=frames)
    ids = QWEN.encode(TEXT)
    assert (answer["texts"], answer["ids"], answer["speaksFrames"]) == ([TEXT], [ids], frames)
    sent = TokenIds.from_list(ids).packed if packed else ids
    assert answer["sent"] == {"text": TEXT if form == "both" else "", "ids": sent}
    assert answer["codec"] == {"leafBypasses": 1, "tokenizeCalls": 0}


def test_no_ids_are_made_where_none_are_wanted(place: Place) -> None:
    result = call(place, "both", form="text")
    assert payload_of(result) is None
    assert result["content"][0]["text"] == TEXT
    assert place.wishes("both")[-1] == {"maps": [], "form": "none"}


def test_a_server_without_the_map_sends_none_and_the_gateway_makes_them(place: Place) -> None:
    result = call(place, "qwen", encoder=CL100K, packed=True)
    assert payload_of(result)["ids"] == TokenIds.from_list(CL100K.encode(TEXT)).packed
    assert result["_meta"]["leafgate/envelope"]["provenance"]["codec"] == {"leafBypasses": 0, "tokenizeCalls": 1}


def test_checks_are_counted_by_level(place: Place) -> None:
    for _ in range(3):
        call(place, "both", encoder=QWEN)
    rows = httpx2.get(f"{place.gateway.url}/status").json()["leaves"]
    checks = [row["checks"] for row in rows if row["server"] == "both"]
    assert sum(sum(each.values()) for each in checks) >= 3
    assert sum(each.get("canonical", 0) for each in checks) >= 1
