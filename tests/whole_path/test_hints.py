"""The cache hints of a stateless server, through gateways in each mode, with and without auth."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from gateways import SERVERS, gateway_on_http
from mcp import Client
from warm_python import PYTHON

pytestmark = pytest.mark.anyio

LISTS = ("tools/list", "resources/list")


def config(folder: Path, mode: str, **settings: Any) -> str:
    file, hints = folder / "leafgate.yaml", folder / "hints.json"
    hints.write_text(json.dumps({"hint": {"ttlMs": 7_200_000, "cacheScope": "public"}, "tools": ["a"]}))
    servers = {"hinting": {"command": PYTHON, "args": [str(SERVERS / "hinting.py"), str(hints)]}}
    file.write_text(yaml.safe_dump({"mode": mode, "mcpServers": servers, **settings}))
    return str(file)


async def hints(client: Client) -> dict[str, tuple[int, str]]:
    tools, resources = await client.list_tools(), await client.list_resources()
    templates, read = await client.list_resource_templates(), await client.read_resource("note://one")
    answers = {"tools": tools, "resources": resources, "templates": templates, "read": read}
    return {name: (answer.ttl_ms, answer.cache_scope) for name, answer in answers.items()}


@pytest.mark.parametrize("mode", ["gateway", "transparent", "passthrough"])
async def test_hints_pass_narrowed(tmp_path: Path, mode: str) -> None:
    with gateway_on_http("--config", config(tmp_path, mode)) as gateway:
        async with Client(f"{gateway.url}/mcp", cache=None) as client:
            found = await hints(client)
            assert found["tools"] == found["resources"] == (60_000, "public")
            assert found["templates"] == (0, "private")  # no server has any
            assert found["read"] == (3_600_000, "public")


async def test_behind_auth_everything_is_private(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    auth = {"tokens": [{"name": "ann", "hash": f"sha256:{digest}"}]}
    with gateway_on_http("--config", config(tmp_path, "passthrough", auth=auth)) as gateway:
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer secret"}) as http:
            for method in LISTS:
                answer = (await ask(http, gateway.url, method, {}))["result"]
                assert (answer["ttlMs"], answer["cacheScope"]) == (60_000, "private")
            read = (await ask(http, gateway.url, "resources/read", {"uri": "note://one"}))["result"]
            assert (read["ttlMs"], read["cacheScope"]) == (3_600_000, "private")


async def ask(http: httpx2.AsyncClient, url: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"}
    headers |= {"Mcp-Method": method, **({"Mcp-Name": params["uri"]} if "uri" in params else {})}
    answer = await http.post(f"{url}/mcp", json=message, headers=headers)
    body = answer.text
    data = body if body.startswith("{") else next(line[5:] for line in body.splitlines() if line.startswith("data:"))
    return dict(json.loads(data))
