"""`leafgate install`, as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import PROGRAM, Person, somebody


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return somebody(tmp_path)


CONFIG = "mcpServers: {a: {command: x}}\n"


@pytest.mark.parametrize(
    ("client", "scope", "file", "key"),
    [
        ("claude-desktop", "user", ".config/Claude/claude_desktop_config.json", "mcpServers"),
        ("claude-code", "user", ".claude.json", "mcpServers"),
        ("claude-code", "project", "../work/.mcp.json", "mcpServers"),
        ("vscode", "user", ".config/Code/User/mcp.json", "servers"),
        ("vscode", "project", "../work/.vscode/mcp.json", "servers"),
        ("cursor", "user", ".cursor/mcp.json", "mcpServers"),
        ("cursor", "project", "../work/.cursor/mcp.json", "mcpServers"),
    ],
)
def test_every_client_there_again_and_back(ada: Person, client: str, scope: str, file: str, key: str) -> None:
    (ada.folder / "leafgate.yaml").write_text(CONFIG)
    path = (ada.home / file).resolve()
    first = ada.runs("install", client, "--scope", scope, "--yes")
    assert first.code == 0, first.said
    entry = json.loads(path.read_text())[key]["leafgate"]
    assert (entry["command"], entry["args"]) == (str(PROGRAM), ["serve", "--config", str(ada.folder / "leafgate.yaml")])

    second = ada.runs("install", client, "--scope", scope, "--yes", "--json")
    assert json.loads(second.out)["needed"] is False
    assert [found.name for found in path.parent.iterdir() if found.name.startswith(path.name)] == [path.name]

    gone = ada.runs("install", client, "--scope", scope, "--remove", "--yes")
    assert gone.code == 0, gone.said
    assert json.loads(path.read_text()) == {key: {}}
    assert "nothing to do" in ada.runs("install", client, "--scope", scope, "--remove", "--yes").out


def test_what_else_is_in_the_file_stays(ada: Person) -> None:
    file = ada.home / ".claude.json"
    text = '{\n    "z": 1, // z first\n    "mcpServers": {\n        "own": {"command": "x"},\n    },\n    "a": 2\n}\n'
    file.write_text(text)
    file.chmod(0o640)
    assert ada.runs("install", "claude-code", "--yes").code == 0
    changed = file.read_text()
    assert [line for line in text.splitlines() if line not in changed.splitlines()] == []
    assert file.stat().st_mode & 0o777 == 0o640
    assert ada.runs("install", "claude-code", "--remove", "--yes").code == 0
    assert file.read_text() == text


def test_the_preview_shows_no_secret_of_a_neighbour(ada: Person) -> None:
    file = ada.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": {"own": {"command": "x", "env": {"KEY_OF_X": "sesame-open"}}}}, indent=2))
    ran = ada.runs("install", "cursor", "--dry-run")
    assert ran.code == 0
    assert '+    "leafgate": {' in ran.out
    assert "Nothing was written" in ran.out
    assert "sesame" not in ran.said
    assert "leafgate" not in file.read_text()


def test_a_gateway_that_runs(ada: Person) -> None:
    ran = ada.runs("install", "vscode", "--http", "http://127.0.0.1:8808", "--token-variable", "LG", "--yes")
    assert ran.code == 0, ran.said
    assert json.loads((ada.home / ".config/Code/User/mcp.json").read_text())["servers"]["leafgate"] == {
        "type": "http",
        "url": "http://127.0.0.1:8808/mcp",
        "headers": {"Authorization": "Bearer ${env:LG}"},
    }


def test_a_new_setting_replaces_the_old_one_and_can_be_undone(ada: Person) -> None:
    assert ada.runs("install", "cursor", "--yes").code == 0
    file = ada.home / ".cursor" / "mcp.json"
    old = file.read_text()
    ran = ada.runs("install", "cursor", "--http", "http://127.0.0.1:9000/mcp", "--yes", "--json")
    report = json.loads(ran.out)
    assert report["changed"] is True
    assert Path(report["backup"]).read_text() == old
    assert json.loads(file.read_text())["mcpServers"]["leafgate"] == {"url": "http://127.0.0.1:9000/mcp"}
    assert ada.runs("import", "--undo", str(file), "--yes").code == 0
    assert file.read_text() == old


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_file_is_filled(ada: Person, text: str) -> None:
    file = ada.home / ".claude.json"
    file.write_text(text)
    assert ada.runs("install", "claude-code", "--yes").code == 0
    assert list(json.loads(file.read_text())["mcpServers"]) == ["leafgate"]


@pytest.mark.parametrize("text", ["[]", "{", '{"mcpServers": []}', '{"mcpServers": {"a": 1}}', "mcpServers: {}"])
@pytest.mark.parametrize("remove", [(), ("--remove",)])
def test_a_file_of_another_shape_is_left_alone(ada: Person, text: str, remove: tuple[str, ...]) -> None:
    file = ada.home / ".claude.json"
    file.write_text(text)
    ran = ada.runs("install", "claude-code", "--yes", *remove)
    assert ran.code == 2
    assert str(file) in ran.err
    assert "Traceback" not in ran.err
    assert file.read_text() == text
    assert not [*ada.home.glob(".claude.json.*")]


@pytest.mark.parametrize(
    "words",
    [
        ("netscape", "--yes"),
        ("claude-desktop", "--scope", "project", "--yes"),
        ("claude-desktop", "--http", "http://127.0.0.1:8808/mcp", "--yes"),
        ("cursor", "--http", "127.0.0.1:8808", "--yes"),
        ("cursor", "--http", "http://h/mcp", "--config", "leafgate.yaml", "--yes"),
        ("cursor", "--config", "nothing.yaml", "--yes"),
        ("cursor",),
    ],
)
def test_wrong_words_exit_2_and_write_nothing(ada: Person, words: tuple[str, ...]) -> None:
    (ada.folder / "leafgate.yaml").write_text(CONFIG)
    ran = ada.runs("install", *words)
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert not (ada.home / ".cursor").exists()
