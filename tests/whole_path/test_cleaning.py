"""Cleaning on every surface: the policy of each server, the tokens of the client's own map, blobs, and seams."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from gateways import ROOT, SERVERS, gateway_on_stdio, text_of
from mcp import Client
from mcp.types import PromptReference
from warm_python import PYTHON

from leafgate.clean.sanitize import sanitize_text
from leafgate.model.envelope import ACCEPT_FULL, ENVELOPE_META_KEY

pytestmark = pytest.mark.anyio

NAMES = ("plain", "escaped")
ENDING = "%%END%%"  # a special token of the map of these tests, which no table of markers has


@asynccontextmanager
async def gateway(folder: Path, mode: str, *, with_map: bool = True) -> AsyncIterator[Client]:
    """A gateway with two servers, of which one has a policy of its own, and a client whose model has the map."""
    token_map = json.loads((ROOT / "maps" / "toy.json").read_text())
    token_map["special_tokens"][ENDING] = 301
    token_map["vocab_size"] += 1
    file = folder / "map.json"
    file.write_text(json.dumps({**token_map, "id": "test/ending"}))
    server = {"command": PYTHON, "args": [str(SERVERS / "marked.py")]}
    servers = {name: {**server, "args": [*server["args"], name]} for name in NAMES}
    servers["escaped"]["sanitize"] = {"escape_html": True}  # type: ignore[assignment]
    config = folder / f"{mode}.yaml"
    config.write_text(yaml.safe_dump({"mode": mode, "mcpServers": servers, "maps": {"files": [str(file)]}}))
    chosen = ("--map", "test/ending") if with_map else ()
    async with gateway_on_stdio("--config", str(config), *chosen) as client:
        await client.call_tool("tool_view", {"handle": "x", "selector": {"type": "head"}})  # waits for the servers
        yield client


def check(surface: str, shown: Any, *, own_policy: bool = True, token: bool = True) -> None:
    """Is what one surface shows of both servers clean: each by its own policy, without markers or special tokens?"""
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
    assert "]~b]" not in text, surface
    assert "‹~b›system" in text, surface
    assert (ENDING not in text) is token, surface
    if own_policy:
        assert "<b>plain</b>" in text, surface
        assert "<b>escaped" not in text, surface
        assert "&lt;b&gt;escaped&lt;/b&gt;" in text, surface


def as_json(result: Any) -> Any:
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def native_surfaces(client: Client) -> dict[str, Any]:
    return {
        "resources/list": as_json(await client.list_resources()),
        "resources/read": [as_json(await client.read_resource(f"test://{name}/text")) for name in NAMES],
        "prompts/list": as_json(await client.list_prompts()),
        "prompts/get": [as_json(await client.get_prompt(f"{name}_prompt", {"x": "y"})) for name in NAMES],
        "completion": [
            as_json(
                await client.complete(
                    PromptReference(type="ref/prompt", name=f"{name}_prompt"), {"name": "x", "value": "y"}
                )
            )
            for name in NAMES
        ],
    }


async def test_the_meta_tools_clean_by_the_policy_of_each_server(tmp_path: Path) -> None:
    async with gateway(tmp_path, "gateway") as client:

        async def call(tool: str, **args: Any) -> str:
            return text_of(await client.call_tool(tool, args))

        cards = await call("tool_browse", query="count parrots")
        ids = {name: next(w for w in cards.split() if w.startswith(f"{name}:{name}_tool")) for name in NAMES}
        pages = [await call("tool_browse", query=f"{name} tool counts parrots") for name in ids]
        surfaces = {
            "tool_browse": "".join(pages),
            "tool_hydrate": "".join([await call("tool_hydrate", tool_id=id) for id in ids.values()]),
            "tool_execute": "".join([await call("tool_execute", tool_id=id, args={}) for id in ids.values()]),
            **await native_surfaces(client),
        }
        for surface, shown in surfaces.items():
            check(surface, shown)


async def test_plain_clients_get_lists_reads_and_blobs_clean(tmp_path: Path) -> None:
    async with gateway(tmp_path, "passthrough") as client:
        surfaces = {"tools/list": as_json(await client.list_tools()), **await native_surfaces(client)}
        surfaces["instructions"] = client.instructions
        for surface, shown in surfaces.items():
            check(surface, shown)
        contents = (await client.read_resource("test://plain/blob")).contents
        wide, damaged, binary, *rest = [base64.b64decode(part.blob) for part in contents[:3]] + [contents[3].blob]
        assert "‹~b›system" in wide.decode("utf-16")
        assert "]~b]" not in damaged.decode("utf-8", "ignore")
        assert binary.startswith(bytes(range(256)))
        assert b"]~b]" in binary, "what is not a text stays byte for byte"
        assert "]~b]" not in rest[0], "what is not base64 is a text"


async def test_no_marker_forms_where_blocks_meet(tmp_path: Path) -> None:
    async with gateway(tmp_path, "passthrough", with_map=False) as client:
        check("tools/list", as_json(await client.list_tools()), token=False)
        result = await client.call_tool("plain_split", {}, meta=ACCEPT_FULL)
        texts = [block.text for block in result.content if block.type == "text"]
        assert texts[:2] == ["‹|im_st", "art|> go"]
        for joined in ("".join(texts), "\n".join(texts), as_json(result)["_meta"][ENVELOPE_META_KEY]["summary"]):
            assert "go" in joined
            assert sanitize_text(joined).value == joined
