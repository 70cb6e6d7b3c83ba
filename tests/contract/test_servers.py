"""Real servers: the Node time server under the Python reader, and a Python server under the Node reader. Over stdio."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any

import anyio
import pytest
from implementations import HERE, ROOT, TIME_LIMIT
from mcp import Client, StdioServerParameters
from nasty_texts import nasty_texts
from warm_python import PYTHON

from leafgate.codec.leaf import has_codec_meta, read_codec_meta, verify_codec_meta
from leafgate.maps.files import MapFiles
from leafgate.model.leaf import CODEC_META_KEY

TIME_SERVER = ROOT / "typescript" / "dist" / "examples" / "time-server" / "main.js"
SERVED = ("qwen/qwen2", "openai/cl100k_base", "toy-metaspace")  # the other maps differ in their tables only
TEXTS = ["the cat", "", "<|im_end|> it'ſ 👩‍👩‍👧‍👦", *nasty_texts(11, 20)]


def call_time_server(tool: str, arguments: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    """The result as plain JSON, as the Python SDK's client sees it."""

    async def call() -> dict[str, Any]:
        parameters = StdioServerParameters(
            command="node", args=[str(TIME_SERVER)], env={"PATH": os.environ["PATH"], **environment}
        )
        with anyio.fail_after(TIME_LIMIT):
            async with Client(parameters) as client:
                result = await client.call_tool(tool, arguments)
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    return anyio.run(call)


@pytest.mark.parametrize("map_id", SERVED)
def test_the_node_time_server_under_the_python_reader(map_id: str) -> None:
    entry = MapFiles().find(map_id)
    environment = {"CODEC_MAP_URL": entry.path.as_uri(), "CODEC_MAP_HASH": str(entry.digest)}
    result = call_time_server("get_current_time", {"timezone": "UTC"}, environment)
    encoder = MapFiles().load(map_id)
    [read] = read_codec_meta(result, expected_map_hash=str(entry.digest))
    assert read.source == "meta"
    assert read.map_id == entry.digest
    assert list(read.ids or ()) == encoder.encode(read.text)
    assert re.search(r"\d\d:\d\d", read.text)
    [judged] = verify_codec_meta(result, encoder, level="canonical")
    assert (judged.verdict, judged.reason) == ("accept", None)


def test_an_error_of_the_time_server_carries_its_leaf_too() -> None:
    result = call_time_server("get_current_time", {"timezone": "Nowhere/Land"}, {"CODEC_MAP_URL": "toy"})
    assert result["isError"] is True
    assert [v.verdict for v in verify_codec_meta(result, MapFiles().load("toy"))] == ["accept"]


def test_the_time_server_serves_plain_results_without_its_map() -> None:
    environment = {"CODEC_MAP_URL": "toy", "CODEC_MAP_HASH": "0" * 64}
    result = call_time_server("get_current_time", {}, environment)
    assert not has_codec_meta(result)
    assert re.search(r"\d\d:\d\d", result["content"][0]["text"])


@pytest.mark.parametrize("map_id", SERVED)
def test_a_python_server_under_the_node_reader(map_id: str) -> None:
    texts = [text for text in TEXTS if "▁" not in text]
    server = [str(HERE / "leaf_server.py"), map_id, str(MapFiles().find(map_id).digest)]
    question = {"command": PYTHON, "args": server, "map": map_id, "texts": texts}
    ran = subprocess.run(
        ["node", str(HERE / "read-leaf-server.mjs")],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    answer = json.loads(ran.stdout)
    encoder = MapFiles().load(map_id)
    expected = [encoder.encode(text) or None for text in texts]
    assert [entry["ids"] for entry in answer["entries"]] == expected
    assert [entry["text"] for entry in answer["entries"]] == texts
    assert [v["verdict"] for v in answer["verdicts"]] == ["accept" if text else "absent" for text in texts]
    blocks = answer["result"]["content"]
    assert blocks[0]["type"] == "image"
    assert all(block["_meta"]["mine"] == 1 for block in blocks[1:])
    assert [CODEC_META_KEY in block["_meta"] for block in blocks[1:]] == [bool(text) for text in texts]
