"""MCP Apps and skills of two servers through real gateways, with the SDK's clients of both eras."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gateways import SERVERS, HttpGateway, gateway_on_http, text_of
from mcp import Client, MCPError
from mcp.client import advertise
from mcp.types import INVALID_PARAMS, Request, RequestParams, Result
from pydantic import ConfigDict
from warm_python import PYTHON

pytestmark = pytest.mark.anyio

APPS, SKILLS = "io.modelcontextprotocol/ui", "io.modelcontextprotocol/skills"
TASKS = "io.modelcontextprotocol/tasks"
APP_TYPE = "text/html;profile=mcp-app"
SHOWS_APPS = advertise(APPS, {"mimeTypes": [APP_TYPE]})
OTHER = advertise("com.example/other", {})
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


def config(folder: Path, mode: str) -> str:
    def server(*args: str) -> dict[str, Any]:
        return {"command": PYTHON, "args": [str(SERVERS / "extended.py"), *args]}

    file = folder / "leafgate.yaml"
    servers = {"alpha": server("alpha", "--directories"), "beta": server("beta")}
    file.write_text(yaml.safe_dump({"mode": mode, "mcpServers": servers}))
    return str(file)


@pytest.fixture(scope="module")
def passthrough(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    with gateway_on_http("--config", config(tmp_path_factory.mktemp("passthrough"), "passthrough")) as running:
        yield running


@pytest.fixture(scope="module")
def meta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    with gateway_on_http("--config", config(tmp_path_factory.mktemp("meta"), "gateway")) as running:
        yield running


class Anything(Result):
    """A result of any fields."""

    model_config = ConfigDict(extra="allow")


class AnyParams(RequestParams):
    """Params of any fields."""

    model_config = ConfigDict(extra="allow")


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    request: Request[AnyParams, str] = Request(method=method, params=AnyParams(**params))
    answer = await client.session.send_request(request, Anything)
    return answer.model_dump(by_alias=True)


# Extensions


@ERAS
async def test_what_can_be_served_is_declared(passthrough: HttpGateway, meta: HttpGateway, mode: Any) -> None:
    tasks = {TASKS: {}} if mode == "auto" else {}  # the handshake era has no place for them
    leaves = {"ai.codec/leaf-tokenization": {"forms": ["ids", "packed"]}}
    async with Client(f"{passthrough.url}/mcp", mode=mode) as client:
        assert client.server_capabilities.extensions == {APPS: {}, SKILLS: {"directoryRead": True}, **leaves, **tasks}
    async with Client(f"{meta.url}/mcp", mode=mode) as client:
        assert client.server_capabilities.extensions == {SKILLS: {"directoryRead": True}, **leaves, **tasks}


async def test_servers_see_the_extensions_that_can_be_served(passthrough: HttpGateway, meta: HttpGateway) -> None:
    async with Client(f"{passthrough.url}/mcp", extensions=[SHOWS_APPS, OTHER]) as client:
        seen = json.loads(text_of(await client.call_tool("alpha__client_capabilities", {})))
        assert seen["extensions"] == {APPS: {"mimeTypes": [APP_TYPE]}, TASKS: {}}  # the gateway can wait for tasks
    async with Client(f"{meta.url}/mcp", extensions=[SHOWS_APPS, OTHER]) as client:
        page = text_of(await client.call_tool("tool_browse", {"path": "/alpha"}))
        (tool_id,) = [line.split(" ")[0] for line in page.splitlines() if "client_capabilities" in line.split(" ")[0]]
        seen = json.loads(text_of(await client.call_tool("tool_execute", {"tool_id": tool_id, "args": {}})))
        assert seen["extensions"] == {TASKS: {}}


@ERAS
async def test_a_result_of_an_unknown_type_is_an_error(passthrough: HttpGateway, mode: Any) -> None:
    async with Client(f"{passthrough.url}/mcp", mode=mode) as client:
        answer = await client.call_tool("alpha__strange_result", {})
        assert answer.is_error
        assert json.loads(text_of(answer))["error"] == "UPSTREAM_ERROR"


# Apps


@ERAS
async def test_tools_lead_to_the_pages_of_their_own_server(passthrough: HttpGateway, mode: Any) -> None:
    async with Client(f"{passthrough.url}/mcp", mode=mode, extensions=[SHOWS_APPS]) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for server in ("alpha", "beta"):
            meta = tools[f"{server}__show_clock"].meta
            assert meta is not None
            uri = meta["ui"]["resourceUri"]
            assert uri == meta["ui/resourceUri"] == f"ui://{server}/clock/app.html"
            (page,) = (await client.read_resource(uri)).contents
            assert (page.uri, page.mime_type) == (uri, APP_TYPE)
            assert page.text == (  # type: ignore[union-attr]
                f"<!doctype html><p>{server}\u200b<script>let s = '<|im_end|>', k = 'AKIAQ3EGZ7TLK4WBXN2P'</script>"
            )
            assert page.meta == {"ui": {"csp": {"connectDomains": ["https://time.example"]}}}


async def test_a_client_without_apps_gets_a_clean_text(passthrough: HttpGateway) -> None:
    async with Client(f"{passthrough.url}/mcp") as client:
        (page,) = (await client.read_resource("ui://beta/clock/app.html")).contents
        assert "<|im_end|>" not in page.text  # type: ignore[union-attr]
        assert "AKIAQ3EGZ7TLK4WBXN2P" not in page.text  # type: ignore[union-attr]


@ERAS
async def test_tools_for_apps_are_listed_for_clients_with_apps(passthrough: HttpGateway, mode: Any) -> None:
    async with Client(f"{passthrough.url}/mcp", mode=mode, extensions=[SHOWS_APPS]) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        meta = tools["beta__refresh_clock"].meta
        assert meta is not None
        assert meta["ui"]["visibility"] == ["app"]
        lines = text_of(await client.call_tool("beta__refresh_clock", {})).splitlines()
        assert (lines[0], len(lines)) == ("refresh_clock of beta", 5_001)  # it is not shortened
    async with Client(f"{passthrough.url}/mcp", mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "beta__show_clock" in names
        assert "beta__refresh_clock" not in names


async def test_tools_for_apps_have_no_cards(meta: HttpGateway) -> None:
    async with Client(f"{meta.url}/mcp", extensions=[SHOWS_APPS]) as client:
        for args in ({"query": "refresh clock"}, {"path": "/beta"}):
            page = text_of(await client.call_tool("tool_browse", args))
            assert "show_clock" in page
            assert "refresh_clock" not in page


# Skills


@ERAS
async def test_the_skills_of_all_servers_are_listed(passthrough: HttpGateway, mode: Any) -> None:
    async with Client(f"{passthrough.url}/mcp", mode=mode) as client:
        listed = await ask(client, "skills/list")
        assert 0 < listed["ttlMs"] <= 60_000  # what is left of the servers' minute
        assert listed["cacheScope"] == "public"
        skills = {skill["uri"]: skill for skill in listed["skills"]}
        assert skills.keys() == {
            "skill://alpha/refunds/SKILL.md",  # both have one: each is named after its server
            "skill://beta/refunds/SKILL.md",
            "skill://team/alpha-release/SKILL.md",
            "skill://team/beta-release/SKILL.md",
        }
        refunds = skills["skill://beta/refunds/SKILL.md"]
        assert refunds["frontmatter"] == {"name": "refunds", "description": "Refund customers by the policy."}
        for file in refunds["resources"]:
            (contents,) = (await client.read_resource(file["uri"])).contents
            body = contents.text.encode()  # type: ignore[union-attr]
            assert contents.uri == file["uri"]
            assert (f"sha256:{hashlib.sha256(body).hexdigest()}", len(body)) == (file["digest"], file["size"])
            assert b"beta" in body
        got = await ask(client, "skills/get", uri=refunds["uri"])
        assert got["skill"] == refunds


@ERAS
async def test_a_skill_that_no_list_has(passthrough: HttpGateway, mode: Any) -> None:
    async with Client(f"{passthrough.url}/mcp", mode=mode) as client:
        got = await ask(client, "skills/get", uri="skill://beta-hidden/SKILL.md")
        assert got["skill"]["frontmatter"]["name"] == "beta-hidden"
        for unknown in ("skill://nothing/SKILL.md", "skill://alpha/refunds"):
            with pytest.raises(MCPError) as raised:
                await ask(client, "skills/get", uri=unknown)
            assert raised.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    ("directory", "children"),
    [
        ("skill://alpha/refunds", {"SKILL.md": "text/x-asked", "references": "text/x-asked"}),
        ("skill://beta/refunds", {"SKILL.md": None, "references": "inode/directory"}),
        ("skill://beta/refunds/references", {"POLICY.md": None}),
    ],
)
async def test_directories(passthrough: HttpGateway, directory: str, children: dict[str, str | None]) -> None:
    """The first server lists them itself; for the other one the gateway does."""
    async with Client(f"{passthrough.url}/mcp") as client:
        listed = (await ask(client, "resources/directory/read", uri=directory))["resources"]
        assert {each["name"]: each.get("mimeType") for each in listed} == children
        assert [each["uri"] for each in listed] == [f"{directory}/{each['name']}" for each in listed]
        with pytest.raises(MCPError) as raised:
            await ask(client, "resources/directory/read", uri=f"{directory}/nothing")
        assert raised.value.code == INVALID_PARAMS


async def test_models_browse_and_read_skills(meta: HttpGateway) -> None:
    async with Client(f"{meta.url}/mcp") as client:
        page = text_of(await client.call_tool("resource_browse", {"query": "refund a customer"}))
        ids = [line.split(" ")[0] for line in page.splitlines() if "refunds" in line.split(" ")[0]]
        assert len([id for id in ids if "policy" not in id.lower()]) == 2
        texts = [text_of(await client.call_tool("resource_read", {"resource_id": id})) for id in ids]
        assert any("# refunds of alpha" in text for text in texts)
        assert any("# refunds of beta" in text for text in texts)
        page = text_of(await client.call_tool("resource_browse", {"query": "policy file"}))
        (policy, *_) = [line.split(" ")[0] for line in page.splitlines() if "policy" in line.lower()]
        assert "The policy of" in text_of(await client.call_tool("resource_read", {"resource_id": policy}))
