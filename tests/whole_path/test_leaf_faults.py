"""Every way in which a leaf can be wrong, through the real gateway: the client gets right ids or none, and the operator
reads the reason."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from gateways import SERVERS, HttpGateway, gateway_on_http, gateway_on_stdio, text_of
from mcp import Client
from servers.leaf_faults import ANSWERS, QWEN, RESOURCE, RIGHT, SECRET, SPELLED, TEXT

from leafgate.maps.files import MapFiles
from leafgate.model.leaf import CODEC_META_KEY

pytestmark = pytest.mark.anyio

LEVELS = ("canonical", "decode", "trust")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same server three times, each checked in its own way."""
    started = {"command": sys.executable, "args": [str(SERVERS / "leaf_faults.py")]}
    servers = {level: {**started, "check": level} for level in LEVELS}
    path = tmp_path_factory.mktemp("faults") / "leafgate.yaml"
    path.write_text(json.dumps({"map": "qwen/qwen2", "mcpServers": servers}))
    return path


@pytest.fixture(scope="module")
def gateway(config: Path) -> Iterator[HttpGateway]:
    """One gateway for all faults: what one leaves behind would show in the next."""
    with gateway_on_http("--config", str(config)) as started:
        yield started


@asynccontextmanager
async def faults(gateway: HttpGateway) -> AsyncIterator[Client]:
    async with Client(f"{gateway.url}/mcp") as client:
        yield client


class Codec:
    """The gateway's codec counters since the last time they were read."""

    def __init__(self, gateway: HttpGateway) -> None:
        self._url = f"{gateway.url}/status"
        self._before = self._read()

    def _read(self) -> Counter[str]:
        codec = httpx2.get(self._url).raise_for_status().json()["codec"]
        names = ("leafBypasses", "tokenizeCalls", "detokenizeCalls")
        return Counter({name: codec[name] for name in names} | codec["rejectedLeaves"])

    def news(self) -> dict[str, int]:
        now = self._read()
        found, self._before = now - self._before, now
        return dict(found)


async def answer(client: Client, fault: str, level: str = "canonical", **meta: Any) -> Any:
    page = text_of(await client.call_tool("tool_browse", {"query": f"{level} answer", "top_k": 10}))
    tool_id = next(line.split(" ")[0] for line in page.splitlines() if line.startswith(f"{level}:answer#"))
    call = {"tool_id": tool_id, "args": {"fault": fault}}
    return await client.call_tool("tool_execute", call, meta={"ai.codec/accept": meta} if meta else None)


def ids_of(block: Any) -> list[int] | None:
    payload = (block.meta or {}).get(CODEC_META_KEY)
    assert payload is None or payload["map_id"] == QWEN.map.digest
    return None if payload is None else payload["ids"]


REASONS = {
    "lying": "text-mismatch",
    "special": "special-id",
    "foreign map": "foreign-map",
    "strings": "not-integer",
    "floats": "not-integer",
    "booleans": "not-integer",
    "nulls": "not-integer",
    "negative": "negative",
    "too large": "too-large",
    "unknown": "unknown-id",
    "too many": "too-many-ids",
    "stale": "text-mismatch",
    "odd split": "non-canonical",
    "legacy lying": "text-mismatch",
}


@pytest.mark.parametrize("level", LEVELS)
async def test_whatever_is_wrong_the_ids_are_right(gateway: HttpGateway, level: str) -> None:
    blind = {"decode": {"odd split"}, "trust": {"odd split", "lying", "stale", "legacy lying"}}.get(level, set())
    codec = Codec(gateway)
    async with faults(gateway) as client:
        for fault, reason in REASONS.items():
            result = await answer(client, fault, level)
            if fault in blind:
                assert codec.news() == {"leafBypasses": 1}, fault
                continue
            assert codec.news() == {"tokenizeCalls": 1, reason: 1}, fault
            assert all(ids_of(block) == QWEN.encode(block.text) for block in result.content), fault
            assert "_codec_meta" not in {block.type for block in result.content}


@pytest.mark.parametrize("level", LEVELS)
async def test_a_right_leaf_in_any_accepted_shape_passes(gateway: HttpGateway, level: str) -> None:
    codec = Codec(gateway)
    async with faults(gateway) as client:
        for fault in ("right", "legacy", "upper case", "bare"):
            result = await answer(client, fault, level)
            assert [block.text for block in result.content] == [TEXT]
            assert ids_of(result.content[0]) == RIGHT
            assert codec.news() == {"leafBypasses": 1}, fault


async def test_what_is_no_payload_is_plain_text(gateway: HttpGateway) -> None:
    codec = Codec(gateway)
    async with faults(gateway) as client:
        for fault in ("no list", "no digest", "empty text"):
            (block,) = (await answer(client, fault)).content
            assert ids_of(block) == (RIGHT if block.text else None)
            assert codec.news() == ({"tokenizeCalls": 1} if block.text else {"empty-text": 1}), fault


async def test_a_lone_surrogate_becomes_a_replacement_character_with_right_ids(gateway: HttpGateway) -> None:
    codec = Codec(gateway)
    async with faults(gateway) as client:
        result = await answer(client, "surrogate")
        assert not result.is_error
        assert text_of(result) == "a\ufffdb"
        assert ids_of(result.content[0]) == QWEN.encode("a\ufffdb")
        assert codec.news() == {"tokenizeCalls": 1, "text-mismatch": 1}


async def test_each_block_is_judged_by_itself(gateway: HttpGateway) -> None:
    codec = Codec(gateway)
    async with faults(gateway) as client:
        result = await answer(client, "mixed")
        assert [ids_of(block) for block in result.content] == [QWEN.encode(block.text) for block in result.content]
        assert codec.news() == {"leafBypasses": 1, "tokenizeCalls": 2, "text-mismatch": 1}


@pytest.mark.parametrize("level", LEVELS)
async def test_a_secret_cannot_be_recovered_from_ids(gateway: HttpGateway, level: str) -> None:
    async with faults(gateway) as client:
        for form in ("both", "ids"):
            result = await answer(client, "secret", level, map_id=QWEN.map.digest, form=form)
            assert SECRET not in result.model_dump_json()
            (block,) = result.content
            spelled = QWEN.decode_bytes(ids_of(block) or []).decode()
            assert spelled.startswith("the key is ")
            assert SECRET not in spelled
            assert block.text == (spelled if form == "both" else "")


@pytest.mark.parametrize("form", ["both", "ids", "text"])
async def test_nor_from_ids_in_any_other_place(gateway: HttpGateway, form: str) -> None:
    async with faults(gateway) as client:
        assert not spells_secret(await answer(client, "ids elsewhere", map_id=QWEN.map.digest, form=form))
        assert not spells_secret(await client.read_resource(RESOURCE["uri"]))
        page = text_of(await client.call_tool("resource_browse", {"query": "secret"}))
        resource_id = page.split(" ")[0]
        assert not spells_secret(await client.call_tool("resource_read", {"resource_id": resource_id}))
        listed = await client.list_prompts()
        (prompt, *_) = [prompt for prompt in listed.prompts if "secret" in prompt.name]
        assert not spells_secret(await client.get_prompt(prompt.name))
        assert not spells_secret(listed)
        assert not spells_secret(await client.list_resources())


@pytest.fixture
def passthrough(tmp_path: Path) -> Iterator[HttpGateway]:
    server = {"command": sys.executable, "args": [str(SERVERS / "leaf_faults.py")]}
    path = tmp_path / "leafgate.yaml"
    path.write_text(json.dumps({"mode": "passthrough", "mcpServers": {"faults": server}}))
    with gateway_on_http("--config", str(path)) as started:
        yield started


async def test_nor_from_ids_in_definitions(passthrough: HttpGateway) -> None:
    async with faults(passthrough) as client:
        tools = await client.list_tools()
        assert "answer" in [tool.name for tool in tools.tools]
        assert not spells_secret(tools)


def spells_secret(result: Any) -> bool:
    """Whether the ids of the secret are somewhere in it, as JSON or within a text."""
    shown = result.model_dump_json(by_alias=True).replace(" ", "")
    ids = json.dumps(SPELLED[CODEC_META_KEY]["ids"], separators=(",", ":"))
    return SECRET in shown or ids[1:-1] in shown


@pytest.mark.parametrize("level", LEVELS)
async def test_resources_and_prompts_have_ids_and_no_leaves(gateway: HttpGateway, level: str) -> None:
    """A prompt's text gets its role in front of it: ids that were right before are not believed, and are no lie."""
    codec = Codec(gateway)
    async with faults(gateway) as client:
        page = text_of(await client.call_tool("prompt_browse", {"path": f"/{level}"}))
        prompt_id = next(line.split(" ")[0] for line in page.splitlines() if ":right#" in line)
        prompt = await client.call_tool("prompt_get", {"prompt_id": prompt_id})
        assert text_of(prompt) == f"user: {TEXT}"
        page = text_of(await client.call_tool("resource_browse", {"path": f"/{level}"}))
        resource = await client.call_tool("resource_read", {"resource_id": page.split(" ")[0]})
        for read in (prompt, resource):
            assert [ids_of(block) for block in read.content] == [QWEN.encode(block.text) for block in read.content]
    assert codec.news() == {}
    graduates = httpx2.get(f"{gateway.url}/status").json()["graduate_next"]
    assert {tool["tool"] for tool in graduates} <= {"answer"}


async def test_clients_that_did_not_ask_get_no_ids(gateway: HttpGateway) -> None:
    async with faults(gateway) as client:
        for fault in ANSWERS:
            result = await answer(client, fault, form="text")
            assert CODEC_META_KEY not in result.model_dump_json()
            assert "_codec_meta" not in result.model_dump_json()


async def test_without_a_default_map_there_are_no_ids(config: Path) -> None:
    async with gateway_on_stdio("--config", str(config), "--map", "none") as client:
        result = await answer(client, "right")
        assert text_of(result) == TEXT
        assert CODEC_META_KEY not in result.model_dump_json()


async def test_twenty_clients_with_three_maps_each_get_their_own(gateway: HttpGateway) -> None:
    """At once, on one gateway; each asks in its own way, and again and again."""
    maps = [MapFiles().load(name) for name in ("qwen/qwen2", "openai/cl100k_base", "openai/o200k_base")]
    wrong: list[str] = []

    async def one(url: str, number: int) -> None:
        encoder = maps[number % 3]
        wish = {"map_id": encoder.map.digest, "form": ("both", "ids")[number % 2]}
        async with Client(f"{url}/mcp", mode="legacy" if number % 4 == 0 else "auto") as client:
            for fault in ("right", "lying", "mixed", "legacy", "foreign map"):
                result = await answer(client, fault, **wish)
                for block in result.content:
                    payload = block.meta[CODEC_META_KEY]
                    text = encoder.decode_bytes(payload["ids"]).decode()
                    if payload["map_id"] != encoder.map.digest or encoder.encode(text) != payload["ids"]:
                        wrong.append(f"client {number}, {fault}")
                    if wish["form"] == "both" and text != block.text:
                        wrong.append(f"client {number}, {fault}: ids of another text")

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, gateway.url, number)
    assert wrong == []


async def test_arguments_may_come_as_ids(gateway: HttpGateway) -> None:
    codec = Codec(gateway)
    async with faults(gateway) as client:
        page = text_of(await client.call_tool("tool_browse", {"query": "canonical answer"}))
        tool_id = next(line.split(" ")[0] for line in page.splitlines() if line.startswith("canonical:answer#"))

        def as_ids(text: str, map_id: str = QWEN.map.digest) -> dict[str, Any]:
            return {"_codec_meta": {"map_id": map_id, "ids": QWEN.encode(text)}}

        inner = {"tool_id": tool_id, "args": as_ids('{"fault": "right"}')}
        assert text_of(await client.call_tool("tool_execute", inner)) == TEXT
        whole = as_ids(json.dumps({"tool_id": tool_id, "args": {"fault": "right"}}))
        assert text_of(await client.call_tool("tool_execute", whole)) == TEXT
        assert codec.news() == {"leafBypasses": 2, "detokenizeCalls": 2}

        for wrong in (
            {"tool_id": tool_id, "args": as_ids('{"fault": ')},
            {"tool_id": tool_id, "args": as_ids("[1]")},
            {"tool_id": tool_id, "args": as_ids('{"fault": "right"}', "sha256:" + "0" * 64)},
            {"tool_id": tool_id, "args": as_ids('{"fault": "no such fault"}')},
            {"tool_id": tool_id, "args": {"_codec_meta": {"map_id": QWEN.map.digest, "ids": ["1"]}}},
        ):
            refused = await client.call_tool("tool_execute", wrong)
            assert refused.is_error
            assert json.loads(refused.content[0].text)["error"] == "ARGS_INVALID"
            assert ids_of(refused.content[0]) == QWEN.encode(refused.content[0].text)  # errors are tokenized too
