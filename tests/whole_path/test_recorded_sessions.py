"""Real sessions: published servers behind a recording gateway, driven by real clients; then packs of what was recorded.

`pytest tests/whole_path/test_recorded_sessions.py -s` prints the table of docs/context.md.
"""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateways import LEAFGATE, ROOT, gateway_on_http, gateway_on_stdio, text_of
from mcp import Client
from real_servers.published import require_installed, server_blocks
from warm_python import PYTHON

from leafgate import ContextItem, ContextManager, ItemKind, Phase, load_mcp_session_jsonl
from leafgate.maps.files import MapFiles

BUDGETS = (2000, 4000, 8000)
LEAST_EVENTS = 200
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

Drive = Callable[[Client, Path], Awaitable[None]]


@dataclass(frozen=True)
class Recorded:
    """A recording, what a person would ask after it, and what it was made with."""

    name: str
    query: str
    file: Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts to read, and a repository with their history."""
    require_installed()
    folder = tmp_path_factory.mktemp("sessions")
    texts = sorted((ROOT / "spec").glob("*.md")) + sorted((ROOT / "docs").glob("*.md"))
    repo = folder / "repo"
    repo.mkdir()
    for text in texts:
        shutil.copy(text, folder / text.name)
    git = ["git", "-C", str(repo), "-c", "user.name=A. Baker", "-c", "user.email=baker@example.org"]
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(repo)], check=True)
    for number in range(40):
        text = texts[number % len(texts)]
        lines = text.read_text().splitlines()
        (repo / text.name).write_text("\n".join(lines[: 10 + 5 * (number // len(texts))]) + "\n")
        subprocess.run([*git, "add", "."], check=True)
        message = f"Chapter {number + 1}: {lines[0].lstrip('# ')}"
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", message], check=True)
    return folder


def documents_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.md"))


async def tool_ids(client: Client, *servers: str) -> dict[str, str]:
    """Tool ids by their names, as a model finds them: by walking the paths of the servers."""
    found: dict[str, str] = {}
    waiting = [f"/{server}" for server in servers]
    while waiting:
        page = text_of(await client.call_tool("tool_browse", {"path": waiting.pop()}))
        places = [line.split(" ")[0] for line in page.splitlines()]
        waiting += [place for place in places if place.startswith("/")]
        found |= {place.split(":")[1].split("#")[0]: place for place in places if "#" in place}
    return found


async def execute(client: Client, tool_id: str, **args: Any) -> str:
    return text_of(await client.call_tool("tool_execute", {"tool_id": tool_id, "args": args}))


async def read_files(client: Client, folder: Path) -> None:
    """Somebody reads the documents of a project, searches in them, and drills into what was shortened."""
    ids = await tool_ids(client, "files")
    texts = documents_in(folder)
    await execute(client, ids["list_directory"], path=str(folder))
    for _ in range(3):
        for text in texts:
            await execute(client, ids["get_file_info"], path=str(text))
            shown = await client.call_tool(
                "tool_execute", {"tool_id": ids["read_text_file"], "args": {"path": str(text)}}
            )
            for kept in (shown.meta or {}).get("leafgate/envelope", {}).get("artifacts", ()):
                search = {"type": "search", "pattern": "error"}
                await client.call_tool("tool_view", {"handle": kept["handle"], "selector": search})
    for word in ("*budget*", "*errors*", "*leaf*", "*.md"):
        await execute(client, ids["search_files"], path=str(folder), pattern=word)
    for number in range(30):
        await execute(client, ids["read_text_file"], path=str(texts[number % len(texts)]), head=5 + number)
    await execute(client, ids["read_text_file"], path=f"{folder}/absent-{SECRET}.md")


async def read_history(client: Client, folder: Path) -> None:
    """Somebody goes through the history of a repository, commit by commit."""
    repo = str(folder / "repo")
    await client.call_tool("git_log", {"repo_path": repo, "max_count": 40})
    commits = [f"HEAD~{number}" for number in range(40)]
    for commit in commits:
        await client.call_tool("git_show", {"repo_path": repo, "revision": commit})
    for commit in commits:
        await client.call_tool("git_diff", {"repo_path": repo, "target": commit})
    for zone in ("Europe/Lisbon", "Asia/Tokyo", "America/Lima"):
        for _ in range(8):
            await client.call_tool("get_current_time", {"timezone": zone})
    await client.call_tool("git_status", {"repo_path": repo})


async def remember(client: Client, folder: Path) -> None:
    """Somebody fills a memory with people, asks it about them, and plays with a server that can do everything."""
    ids = await tool_ids(client, "memory", "everything")
    towns = ("Lisbon", "Kyoto", "Lima", "Oslo")
    for number in range(40):
        person = {"name": f"Person {number}", "entityType": "person"}
        told = [f"lives in {towns[number % 4]}", f"likes dish number {number % 7}", f"was born in {1950 + number}"]
        await execute(client, ids["create_entities"], entities=[{**person, "observations": told}])
    for number in range(40):
        await execute(client, ids["search_nodes"], query=f"dish number {number % 7}")
    for number in range(20):
        await execute(client, ids["open_nodes"], names=[f"Person {number}", f"Person {number + 1}"])
        await execute(client, ids["get-sum"], a=number, b=number)
    await execute(client, ids["read_graph"])


@pytest.fixture(scope="module")
def recorded(folder: Path) -> list[Recorded]:
    """Three sessions, over stdio and HTTP, in two modes, with ids and without."""
    sessions = [
        Recorded("documents", "how are errors told to the client?", folder.parent / "documents.jsonl"),
        Recorded("history", "what changed in the chapter about leaf tokens?", folder.parent / "history.jsonl"),
        Recorded("memory", "who lives in Kyoto and likes dish number 3?", folder.parent / "memory.jsonl"),
    ]
    blocks = server_blocks(folder)
    documents, history, memory = sessions
    anyio.run(_record_on_stdio, documents, {"files": blocks["files"]}, read_files, folder)
    servers = {"git": blocks["git"], "time": blocks["time"]}
    _record_on_http(history, servers, read_history, folder, "legacy", mode="passthrough")
    servers = {"memory": blocks["memory"], "everything": blocks["everything"]}
    _record_on_http(memory, servers, remember, folder, "auto")
    return sessions


async def _record_on_stdio(session: Recorded, servers: dict[str, Any], drive: Drive, folder: Path) -> None:
    options = ("--config", _config(session, servers), "--record", str(session.file), "--map", "qwen2")
    async with gateway_on_stdio(*options) as client:
        await drive(client, folder)


def _record_on_http(
    session: Recorded, servers: dict[str, Any], drive: Drive, folder: Path, era: Any, **settings: Any
) -> None:
    async def drive_it(url: str) -> None:
        async with Client(f"{url}/mcp", mode=era) as client:
            await drive(client, folder)

    options = ("--config", _config(session, servers, **settings), "--record", str(session.file))
    with gateway_on_http(*options) as running:
        anyio.run(drive_it, running.url)


def _config(session: Recorded, servers: dict[str, Any], **settings: Any) -> str:
    file = session.file.with_suffix(".yaml")
    file.write_text(json.dumps({**settings, "mcpServers": servers}))  # JSON is YAML
    return str(file)


def ingested(session: Recorded, **settings: Any) -> tuple[ContextManager, list[ContextItem]]:
    items = list(load_mcp_session_jsonl(session.file))
    manager = ContextManager(**settings)
    for item in items:
        manager.ingest(item)
    return manager, items


def test_every_call_is_in_the_recording_with_its_result(recorded: list[Recorded]) -> None:
    for session in recorded:
        _, items = ingested(session)
        calls = {item.id for item in items if item.kind is ItemKind.tool_call}
        results = [item for item in items if item.kind is ItemKind.tool_result]
        assert {result.parent_id for result in results} == calls
        assert len(calls) == len(results)
        assert len(items) >= LEAST_EVENTS, session.name
        assert sum(item.kind is ItemKind.policy for item in items) == 1


def test_a_recording_is_its_owners_and_has_no_secrets(recorded: list[Recorded]) -> None:
    for session in recorded:
        assert stat.S_IMODE(session.file.stat().st_mode) == 0o600
        said = session.file.read_text()
        assert SECRET not in said
        assert "mcp-session-id" not in said.lower()
        assert "user-agent" not in said.lower()


def test_packs_keep_budget_and_closure_and_save_tokens(recorded: list[Recorded]) -> None:
    table = ["| session | events | transcript | 2,000 | 4,000 | 8,000 |", "|---|---:|---:|---:|---:|---:|"]
    for session in recorded:
        manager, items = ingested(session)
        whole = sum(manager.count(item.text) for item in items)
        cells = []
        for budget in BUDGETS:
            for phase in Phase:
                pack = manager.build_sync(phase, session.query, budget)
                assert pack.tokens == manager.count(pack.prompt) <= budget
                taken = {each.item.id for each in pack.taken}
                assert all(each.item.parent_id is None or each.item.parent_id in taken for each in pack.taken)
                assert all(each.taken for each in pack.items if each.item.kind is ItemKind.policy)
                assert all(each.reason for each in pack.left)
            assert pack.tokens > budget * 0.8
            cells.append(f"{pack.tokens:,} ({1 - pack.tokens / whole:.0%} saved)")
        assert whole > 2 * BUDGETS[-1], session.name
        table.append(f"| {session.name} | {len(items)} | {whole:,} | {' | '.join(cells)} |")
    print("\n" + "\n".join(table))


def test_what_bears_on_the_question_is_in_the_pack(recorded: list[Recorded]) -> None:
    *_, memory = recorded
    manager, _ = ingested(memory)
    pack = manager.build_sync(Phase.answer, memory.query, 2000)
    assert "dish number 3" in pack.prompt
    assert "Kyoto" in pack.prompt


def test_the_ids_of_a_recorded_session_are_used(recorded: list[Recorded]) -> None:
    documents, *_ = recorded
    manager, _ = ingested(documents, map="qwen2", check="decode")
    qwen = MapFiles().load("qwen2")
    pack = manager.build_sync(Phase.interpret, documents.query, 8000)
    assert list(pack.ids or ()) == qwen.encode(pack.prompt)
    results = sum(each.tokens or 0 for each in pack.taken if each.item.kind is ItemKind.tool_result)
    assert results > pack.tokens / 2
    assert manager.build_sync(Phase.interpret, documents.query, 8000).tokenized.new == 0


def test_a_recording_can_be_replayed_on_the_command_line(recorded: list[Recorded]) -> None:
    *_, memory = recorded
    command = [PYTHON, str(LEAFGATE), "context", "replay", str(memory.file), "--budget", "2000", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(steps) > LEAST_EVENTS / 3
    assert all(step["pack_tokens"] <= 2000 for step in steps)
    assert steps[-1]["raw_tokens"] > 10 * steps[0]["raw_tokens"]
