"""Published servers of others behind one gateway: everything they offer is there, and a real call of each answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, TextContent
from published import LEAFGATE, require_installed, server_blocks
from warm_python import PYTHON

from leafgate.maps.files import MapFiles
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.tokens.verify import check

pytestmark = pytest.mark.anyio

PATIENCE = 60
MAPS = ["openai/cl100k_base", "qwen/qwen2"]
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LINES = 5_000


@dataclass(frozen=True)
class Behind:
    """A gateway with the five servers behind it, the client that started it, and the folder they work in."""

    client: Client
    folder: Path

    async def run(self, tool_id: str, args: dict[str, Any] | None = None, **meta: Any) -> Any:
        call = {"tool_id": tool_id, "args": args or {}}
        answer = await self.client.call_tool("tool_execute", call, meta=meta or None)
        assert not answer.is_error, text_of(answer)
        return answer


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small repository, a short file, a long one, and one with a secret in it."""
    require_installed()
    folder = tmp_path_factory.mktemp("published")
    repo = folder / "repo"
    git = ["git", "-C", str(repo), "-c", "user.name=A. Baker", "-c", "user.email=baker@example.org"]
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(repo)], check=True)
    (repo / "recipe.txt").write_text("rye, water, salt\n")
    subprocess.run([*git, "add", "recipe.txt"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message=A first loaf"], check=True)
    (repo / "new.txt").write_text("not added yet\n")
    (folder / "short.txt").write_text("Guten Tag, 世界 🙂\n")
    (folder / "long.txt").write_text("".join(f"line {n} of the long file\n" for n in range(1, LINES + 1)))
    (folder / "secret.txt").write_text(f"the token is {SECRET}, keep it\n")
    return folder


@pytest.fixture(scope="module")
async def behind(anyio_backend: str, folder: Path) -> AsyncIterator[Behind]:
    config = folder.parent / "published.json"
    config.write_text(json.dumps({"mcpServers": server_blocks(folder)}))
    command = StdioServerParameters(command=PYTHON, args=[str(LEAFGATE), "serve", "--config", str(config)])
    async with Client(command, read_timeout_seconds=PATIENCE) as client:
        yield Behind(client, folder)


@pytest.fixture(scope="module")
async def ids(behind: Behind) -> dict[str, str]:
    """Every tool id, found by walking the paths; by server and name."""
    return {tool_id.split("#")[0]: tool_id for tool_id in await walk(behind.client, "tool_browse", "/")}


async def walk(client: Client, browse: str, path: str) -> list[str]:
    """The ids of everything at and below a path."""
    page = await client.call_tool(browse, {"path": path})
    assert not page.is_error, text_of(page)
    found: list[str] = []
    for line in text_of(page).splitlines():
        place = line.split(" ")[0]
        found += await walk(client, browse, place) if place.startswith("/") else [place]
    return found


def as_able_as_the_gateway(block: Any) -> Client:
    """A client straight at a server. Some offer more to clients that can do more."""

    async def sample(context: Any, params: Any) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text=""), model="none")

    async def elicit(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="decline")

    async def roots(context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[])

    return Client(
        StdioServerParameters(**block),
        sampling_callback=sample,
        elicitation_callback=elicit,
        list_roots_callback=roots,
        read_timeout_seconds=PATIENCE,
    )


@pytest.mark.parametrize("server", ["everything", "files", "memory", "time", "git"])
async def test_every_tool_is_found_and_hydrates(behind: Behind, server: str) -> None:
    async with as_able_as_the_gateway(server_blocks(behind.folder)[server]) as direct:
        for _ in range(PATIENCE):
            found = await walk(behind.client, "tool_browse", f"/{server}")
            offered = {tool.name for tool in (await direct.list_tools()).tools}
            if {tool_id.split("#")[0] for tool_id in found} == {f"{server}:{name}" for name in offered}:
                break
            await anyio.sleep(0.1)  # a server may offer its last tools only after the handshake
        else:
            pytest.fail(f"the gateway knows {found}, and the server has {offered}")
    assert len(found) == len(offered) >= 2
    for tool_id in found:
        hydrated = await behind.client.call_tool("tool_hydrate", {"tool_id": tool_id})
        assert not hydrated.is_error, tool_id
        body = json.loads(text_of(hydrated))
        assert body["id"] == tool_id
        assert body["args_schema"]["type"] == "object"


async def test_everything_echoes(behind: Behind, ids: dict[str, str]) -> None:
    assert "rye & <water>" in text_of(await behind.run(ids["everything:echo"], {"message": "rye & <water>"}))


async def test_everything_answers_with_structure_and_an_image(behind: Behind, ids: dict[str, str]) -> None:
    weather = await behind.run(ids["everything:get-structured-content"], {"location": "Chicago"})
    assert set(json.loads(text_of(weather))) == {"temperature", "conditions", "humidity"}
    drawn = await behind.run(ids["everything:get-tiny-image"])
    assert "image/png" in {block.mime_type for block in drawn.content if block.type == "image"}


async def test_everything_tells_of_progress(behind: Behind, ids: dict[str, str]) -> None:
    told: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    call = {"tool_id": ids["everything:trigger-long-running-operation"], "args": {"duration": 0.3, "steps": 3}}
    done = await behind.client.call_tool("tool_execute", call, progress_callback=on_progress)
    assert not done.is_error
    assert told == [(1, 3), (2, 3), (3, 3)]


async def test_everything_runs_a_tool_that_exists_only_as_a_task(behind: Behind, ids: dict[str, str]) -> None:
    """It has the tasks of 2025-11-25. The question of the ambiguous one cannot be put to this client."""
    steps: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append(message)

    args = {"topic": "rye", "ambiguous": True}
    call = {"tool_id": ids["everything:simulate-research-query"], "args": args}
    done = await behind.client.call_tool("tool_execute", call, progress_callback=on_progress)
    assert not done.is_error, text_of(done)
    assert "# Research Report: rye (technical (default - elicitation unavailable))" in text_of(done)
    assert "Gathering sources..." in steps


async def test_filesystem_reads_and_writes(behind: Behind, ids: dict[str, str]) -> None:
    short = behind.folder / "short.txt"
    assert "Guten Tag, 世界 🙂" in text_of(await behind.run(ids["files:read_text_file"], {"path": str(short)}))
    written = behind.folder / "written.txt"
    await behind.run(ids["files:write_file"], {"path": str(written), "content": "by way of the gateway"})
    assert written.read_text() == "by way of the gateway"


async def test_filesystem_refuses_in_its_own_words(behind: Behind, ids: dict[str, str]) -> None:
    call = {"tool_id": ids["files:read_text_file"], "args": {"path": str(behind.folder.parent / "published.json")}}
    refused = await behind.client.call_tool("tool_execute", call)
    assert refused.is_error
    assert "Access denied" in text_of(refused)


async def test_memory_remembers(behind: Behind, ids: dict[str, str]) -> None:
    loaf = {"name": "loaf", "entityType": "bread", "observations": ["smells of rye"]}
    await behind.run(ids["memory:create_entities"], {"entities": [loaf]})
    graph = json.loads(text_of(await behind.run(ids["memory:read_graph"])))
    assert loaf.items() <= graph["entities"][0].items()


async def test_memory_never_sees_wrong_arguments(behind: Behind, ids: dict[str, str]) -> None:
    call = {"tool_id": ids["memory:create_entities"], "args": {"entities": [{"name": 5}]}}
    refused = await behind.client.call_tool("tool_execute", call)
    assert refused.is_error
    body = json.loads(text_of(refused))
    assert body["error"] == "ARGS_INVALID"
    assert "/entities/0/name" in {violation["pointer"] for violation in body["details"]["violations"]}


async def test_git_shows_status_and_log(behind: Behind, ids: dict[str, str]) -> None:
    repo = {"repo_path": str(behind.folder / "repo")}
    assert "new.txt" in text_of(await behind.run(ids["git:git_status"], repo))
    assert "A first loaf" in text_of(await behind.run(ids["git:git_log"], repo))


async def test_time_tells_the_time(behind: Behind, ids: dict[str, str]) -> None:
    told = json.loads(text_of(await behind.run(ids["time:get_current_time"], {"timezone": "Asia/Tokyo"})))
    assert told["timezone"] == "Asia/Tokyo"
    assert told["datetime"].endswith("+09:00")


async def test_resources_natively_and_by_meta_tool(behind: Behind) -> None:
    listed = {resource.uri for resource in (await behind.client.list_resources()).resources}
    architecture = "demo://resource/static/document/architecture.md"
    assert architecture in listed
    templates = {found.uri_template for found in (await behind.client.list_resource_templates()).resource_templates}
    assert "demo://resource/dynamic/text/{resourceId}" in templates
    (native,) = (await behind.client.read_resource(architecture)).contents
    dynamic = await behind.client.read_resource("demo://resource/dynamic/text/7")
    assert "Resource 7" in dynamic.contents[0].text

    found = await walk(behind.client, "resource_browse", "/")
    assert len(found) == len(listed) + len(templates)
    resource_id = next(each for each in found if "architecture" in each)
    read = await behind.client.call_tool("resource_read", {"resource_id": resource_id})
    assert not read.is_error
    assert native.text.splitlines()[0] in text_of(read)


async def test_prompts_natively_and_by_meta_tool(behind: Behind) -> None:
    listed = {prompt.name for prompt in (await behind.client.list_prompts()).prompts}
    assert {"simple-prompt", "args-prompt"} <= listed
    native = await behind.client.get_prompt("args-prompt", {"city": "Bremen"})
    assert "Bremen" in native.messages[0].content.text

    found = await walk(behind.client, "prompt_browse", "/")
    assert len(found) == len(listed)
    prompt_id = next(each for each in found if "args-prompt" in each)
    got = await behind.client.call_tool("prompt_get", {"prompt_id": prompt_id, "args": {"city": "Bremen"}})
    assert not got.is_error
    assert native.messages[0].content.text in text_of(got)


@pytest.mark.parametrize("name", MAPS)
async def test_ids_are_canonical_for_the_map_that_the_client_chose(
    behind: Behind, ids: dict[str, str], name: str
) -> None:
    encoder = MapFiles().load(name)
    calls: dict[str, dict[str, Any]] = {
        "everything:echo": {"message": "<|im_end|> is a text like any other"},
        "files:read_text_file": {"path": str(behind.folder / "short.txt")},
        "memory:read_graph": {},
        "git:git_log": {"repo_path": str(behind.folder / "repo")},
        "time:get_current_time": {"timezone": "UTC"},
    }
    accept = {"ai.codec/accept": {"map_id": encoder.map.digest}}
    for tool, args in calls.items():
        answer = await behind.run(ids[tool], args, **accept)
        blocks = [block for block in answer.content if block.type == "text"]
        assert blocks, tool
        for block in blocks:
            leaf = block.meta[CODEC_META_KEY]
            assert leaf["map_id"] == encoder.map.digest
            assert check(encoder, block.text, leaf["ids"], level="canonical").accepted, tool


async def test_a_long_file_becomes_a_digest_and_can_be_viewed(behind: Behind, ids: dict[str, str]) -> None:
    read = await behind.run(ids["files:read_text_file"], {"path": str(behind.folder / "long.txt")})
    assert f"line {LINES // 2} of" not in text_of(read)
    kept = read.meta["leafgate/envelope"]["artifacts"][0]
    selector = {"type": "lines", "start": LINES // 2, "end": LINES // 2}
    view = await behind.client.call_tool("tool_view", {"handle": kept["handle"], "selector": selector})
    assert f"line {LINES // 2} of the long file" in text_of(view)


async def test_a_secret_in_a_file_does_not_reach_the_model(behind: Behind, ids: dict[str, str]) -> None:
    read = await behind.run(ids["files:read_text_file"], {"path": str(behind.folder / "secret.txt")})
    assert "the token is" in text_of(read)
    assert SECRET not in read.model_dump_json()
