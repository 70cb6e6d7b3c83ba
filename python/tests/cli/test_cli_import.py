"""`leafgate import`, as a person runs it: from a client's file to a gateway that answers, and back."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import PROGRAM, Person, somebody
from mcp import Client, StdioServerParameters
from warm_python import PYTHON

from leafgate.compose.servers import TIME_SERVER

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
NOTES = {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]}


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return somebody(tmp_path)


def cursor_file(person: Person, servers: dict[str, Any], before: str = "") -> Path:
    file = person.home / ".cursor" / "mcp.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(before + json.dumps({"mcpServers": servers, "theme": "dark"}, indent=2))
    return file


def three_servers(folder: Path) -> dict[str, Any]:
    """Three real servers, one of them with a secret and one in Node.js."""
    moody = Path(__file__).parents[1] / "servers" / "moody.py"
    return {
        "notes": {**NOTES, "env": {"GITHUB_TOKEN": TOKEN}},
        "time": {"type": "stdio", "command": "node", "args": [str(TIME_SERVER)]},
        "My Moody Server": {"command": sys.executable, "args": [str(moody)], "alwaysAllow": []},
    }


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def browse(command: str, args: list[str], env: dict[str, str], query: str) -> str:
    async with Client(StdioServerParameters(command=command, args=args, env={**os.environ, **env})) as client:
        result = await client.call_tool("tool_browse", {"query": query})
        return "\n".join(block.text for block in result.content if block.type == "text")


@pytest.mark.anyio
async def test_three_servers_become_a_working_gateway_in_one_command(ada: Person) -> None:
    before = "// what Ada has\n"
    file = cursor_file(ada, three_servers(ada.folder), before)
    old = file.read_text()
    ran = ada.runs("import", "--client", "cursor", "--replace", "--yes")
    assert ran.code == 0, ran.said
    assert TOKEN not in ran.said
    assert "alwaysAllow" in ran.err

    written = ada.folder / "leafgate.yaml"
    assert written.stat().st_mode & 0o777 == 0o600
    assert list(yaml.safe_load(written.read_text())["mcpServers"]) == ["notes", "time", "My Moody Server"]
    text = file.read_text()
    assert text.startswith(before)
    pointed = json.loads(text.removeprefix(before))
    assert pointed["theme"] == "dark"
    assert list(pointed["mcpServers"]) == ["leafgate"]

    # Exactly what the client would start.
    entry = pointed["mcpServers"]["leafgate"]
    assert Path(entry["command"]) == PROGRAM
    page = await browse(entry["command"], entry["args"], {"HOME": str(ada.home)}, "what is the time in a city")
    assert "time:get_current_time#" in page
    page = await browse(entry["command"], entry["args"], {"HOME": str(ada.home)}, "search notes")
    assert "notes:search_notes#" in page

    back = ada.runs("import", "--undo", str(file), "--yes")
    assert back.code == 0, back.said
    assert TOKEN not in back.said
    assert file.read_text() == old


@pytest.mark.anyio
async def test_secrets_move_into_variables_when_asked_to(ada: Person) -> None:
    server = {**NOTES, "env": {"GITHUB_TOKEN": TOKEN, "LOG_LEVEL": "debug"}}
    file = cursor_file(ada, {"notes": server})
    ran = ada.runs("import", str(file), "--secrets", "env", "--replace", "--yes")
    assert ran.code == 0, ran.said
    assert TOKEN not in ran.said
    document = yaml.safe_load((ada.folder / "leafgate.yaml").read_text())
    assert document["mcpServers"]["notes"]["env"] == {"GITHUB_TOKEN": "${env:GITHUB_TOKEN}", "LOG_LEVEL": "debug"}
    variables = ada.folder / "leafgate.env"
    assert variables.read_text() == f"GITHUB_TOKEN={TOKEN}\n"
    assert variables.stat().st_mode & 0o777 == 0o600
    entry = json.loads(file.read_text())["mcpServers"]["leafgate"]
    assert entry["env"] == {"GITHUB_TOKEN": TOKEN}, "what the client gave its server it now gives to leafgate"
    page = await browse(entry["command"], entry["args"], entry["env"], "search notes")
    assert "notes:search_notes#" in page


def test_without_replace_the_clients_file_is_not_touched(ada: Person) -> None:
    file = cursor_file(ada, {"notes": {**NOTES, "env": {"API_TOKEN": "abc"}}})
    old = (file.read_bytes(), file.stat().st_mtime_ns)
    ran = ada.runs("import", "--client", "cursor", "-o", "own.yaml", "--json")
    assert ran.code == 0, ran.said
    report = json.loads(ran.out)
    assert report["servers"] == [{"name": "notes", "reach": PYTHON, "env": ["API_TOKEN"]}]
    assert (report["plain_secrets"], report["replaced"], report["backups"]) == (["notes.API_TOKEN"], False, [])
    assert (file.read_bytes(), file.stat().st_mtime_ns) == old
    assert names(ada.folder) == {"own.yaml"}


def test_a_dry_run_writes_nothing_and_shows_no_secret(ada: Person) -> None:
    file = cursor_file(ada, three_servers(ada.folder))
    ran = ada.runs("import", "--client", "cursor", "--replace", "--dry-run")
    assert ran.code == 0
    assert '+    "leafgate": {' in ran.out
    assert TOKEN not in ran.said
    assert (names(ada.folder), names(file.parent)) == (set(), {"mcp.json"})


def test_the_only_client_with_servers_is_found(ada: Person) -> None:
    cursor_file(ada, {"notes": NOTES})
    assert ada.runs("import").code == 0
    claude = ada.home / ".claude.json"
    claude.write_text(json.dumps({"projects": {str(ada.folder): {"mcpServers": {"x": NOTES}}}}))
    ran = ada.runs("import", "-o", "other.yaml")
    assert ran.code == 2
    assert "--client cursor --scope user" in ran.err
    assert "--client claude-code --scope local" in ran.err
    local = ada.runs("import", "--client", "claude-code", "-o", "other.yaml", "--replace", "--yes")
    assert local.code == 0, local.said
    project = json.loads(claude.read_text())["projects"][str(ada.folder)]
    assert list(project["mcpServers"]) == ["leafgate"]


def test_servers_of_the_same_client_that_stay_behind_are_told(ada: Person) -> None:
    (ada.home / ".claude.json").write_text(json.dumps({"mcpServers": {"notes": NOTES}}))
    (ada.folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"others": NOTES}}))
    ran = ada.runs("import", "--client", "claude-code")
    assert ran.code == 0, ran.said
    assert [*yaml.safe_load((ada.folder / "leafgate.yaml").read_text())["mcpServers"]] == ["notes"]
    assert "not imported: --client claude-code --scope project" in ran.err


def test_vs_codes_file_with_inputs_and_placeholders(ada: Person) -> None:
    file = ada.folder / ".vscode" / "mcp.json"
    file.parent.mkdir()
    server = {"type": "stdio", "command": "${workspaceFolder}/run", "env": {"T": "${input:key}", "U": "${input:known}"}}
    inputs = [{"id": "key", "type": "promptString"}, {"id": "known", "type": "promptString", "default": "d"}]
    file.write_text(json.dumps({"inputs": inputs, "servers": {"own": server}}))
    ran = ada.runs("import", ".vscode/mcp.json", "--replace", "--yes")
    assert ran.code == 0, ran.said
    assert "LEAFGATE_INPUT_KEY" in ran.out
    document = yaml.safe_load((ada.folder / "leafgate.yaml").read_text())
    assert document["mcpServers"]["own"]["command"] == f"{ada.folder}/run"
    assert document["inputs"] == [{"id": "known", "default": "d"}]
    assert json.loads(file.read_text())["servers"]["leafgate"]["type"] == "stdio"
    checked = ada.runs("config", "check", "leafgate.yaml", env={"LEAFGATE_INPUT_KEY": "k"})
    assert checked.code == 0, checked.said


def test_an_output_that_is_there_is_replaced_only_when_forced(ada: Person) -> None:
    cursor_file(ada, {"notes": NOTES})
    (ada.folder / "leafgate.yaml").write_text("mine")
    refused = ada.runs("import")
    assert refused.code == 2
    assert "--force" in refused.err
    assert (ada.folder / "leafgate.yaml").read_text() == "mine"
    assert ada.runs("import", "--force").code == 0
    (backup,) = ada.folder.glob("leafgate.yaml.leafgate-backup-*")
    assert backup.read_text() == "mine"


@pytest.mark.parametrize("secrets", ["keep", "env"])
def test_an_output_that_others_could_read_is_private_afterwards(ada: Person, secrets: str) -> None:
    url = f"https://h.example/mcp?key={TOKEN}"
    file = cursor_file(ada, {"notes": {**NOTES, "env": {"GITHUB_TOKEN": TOKEN}}, "web": {"url": url}})
    outputs = [ada.folder / "leafgate.yaml", ada.folder / "leafgate.env"]
    for output in outputs:
        output.write_text("old")
        output.chmod(0o644)
    ran = ada.runs("import", str(file), "--force", "--secrets", secrets, "--json")
    assert ran.code == 0, ran.said
    assert TOKEN not in ran.said
    report = json.loads(ran.out)
    assert [server["reach"] for server in report["servers"]] == [NOTES["command"], "https://h.example"]
    assert report["plain_secrets"] == (["notes.GITHUB_TOKEN", "web.url"] if secrets == "keep" else [])
    for output in outputs:
        held = output.read_text()
        assert TOKEN not in held or output.stat().st_mode & 0o777 == 0o600
        assert (TOKEN in held) == (output.suffix == (".yaml" if secrets == "keep" else ".env"))


def test_nobody_to_ask_means_no(ada: Person) -> None:
    file = cursor_file(ada, {"notes": NOTES})
    old = file.read_text()
    ran = ada.runs("import", "--client", "cursor", "--replace", typed="y\n")
    assert ran.code == 2
    assert "--yes" in ran.err
    assert (file.read_text(), names(ada.folder)) == (old, set())


def test_a_link_is_followed_and_stays_a_link(ada: Person) -> None:
    target = ada.home / "dotfiles.json"
    target.write_text(json.dumps({"mcpServers": {"notes": NOTES}}))
    link = ada.home / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(target)
    assert ada.runs("import", "--client", "cursor", "--replace", "--yes").code == 0
    assert link.is_symlink()
    assert "leafgate" in target.read_text()
    assert ada.runs("import", "--undo", str(link), "--yes").code == 0
    assert list(json.loads(target.read_text())["mcpServers"]) == ["notes"]
    assert link.is_symlink()


def test_a_read_only_file_is_left_alone_and_nothing_is_half_done(ada: Person) -> None:
    file = cursor_file(ada, {"notes": NOTES})
    file.chmod(0o444)
    ran = ada.runs("import", "--client", "cursor", "--replace", "--yes")
    assert ran.code == 2
    assert "read-only" in ran.err
    assert (names(ada.folder), names(file.parent)) == (set(), {"mcp.json"})


def test_line_ends_and_byte_order_mark_survive_there_and_back(ada: Person) -> None:
    file = ada.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    raw = b'\xef\xbb\xbf{\r\n  // mine\r\n  "mcpServers": {"notes": {"command": "x"}},\r\n  "z": [1, 2]\r\n}\r\n'
    file.write_bytes(raw)
    assert ada.runs("import", "--client", "cursor", "--replace", "--yes").code == 0
    changed = file.read_bytes()
    assert changed.startswith(b'\xef\xbb\xbf{\r\n  // mine\r\n  "mcpServers": {\r\n    "leafgate": {\r\n')
    assert changed.endswith(b'},\r\n  "z": [1, 2]\r\n}\r\n')
    assert changed.count(b"\n") == changed.count(b"\r\n")
    assert ada.runs("import", "--undo", str(file), "--yes").code == 0
    assert file.read_bytes() == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b'{"mcpServers": []}',
        b'{"mcpServers": {}}',
        b'{"mcpServers": {"a": 1}}',
        b'{"mcpServers": {"a": {}}}',
        b'{"mcpServers": {"leafgate": {"command": "leafgate", "args": ["serve"]}}}',
        b'{"mcpServers": {"a": {"command": "x"}}',
        '{"mcpServers": {"a": {"command": "x"}}}'.encode("utf-16"),
    ],
)
def test_malformed_and_foreign_files_are_refused_and_nothing_is_written(ada: Person, raw: bytes) -> None:
    file = ada.home / "mcp.json"
    file.write_bytes(raw)
    ran = ada.runs("import", str(file), "--replace", "--yes")
    assert ran.code == 2
    assert str(file) in ran.err
    assert "Traceback" not in ran.err
    assert (file.read_bytes(), names(ada.folder)) == (raw, set())


@pytest.mark.parametrize(
    "words",
    [
        ("import",),
        ("import", "nothing.json"),
        ("import", "--client", "cursor"),
        ("import", "--client", "netscape"),
        ("import", "a.json", "--client", "cursor"),
        ("import", "--client", "cursor", "--scope", "local"),
        ("import", "--undo", "nothing.json", "--yes"),
    ],
)
def test_wrong_words_and_missing_files_exit_2(ada: Person, words: tuple[str, ...]) -> None:
    ran = ada.runs(*words)
    assert ran.code == 2
    assert ran.out == ""
    assert "Traceback" not in ran.err
