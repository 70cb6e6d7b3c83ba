"""Where clients keep their servers, on each system, and what is refused to be read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from leafgate.cli.client_files import (
    CLIENTS,
    Machine,
    child_entry,
    http_entry,
    own_command,
    place_of,
    places,
    read_file,
    read_place,
)
from leafgate.model.errors import ConfigError

HOME = Path("/home/ada")
HERE = Path("/home/ada/project")


def machine(platform: str = "linux", **environment: str) -> Machine:
    return Machine(platform, HOME, HERE, environment)


@pytest.mark.parametrize(
    ("platform", "client", "scope", "file", "key"),
    [
        (
            "darwin",
            "claude-desktop",
            "user",
            "Library/Application Support/Claude/claude_desktop_config.json",
            "mcpServers",
        ),
        ("linux", "claude-desktop", "user", ".config/Claude/claude_desktop_config.json", "mcpServers"),
        ("win32", "claude-desktop", "user", "AppData/Roaming/Claude/claude_desktop_config.json", "mcpServers"),
        ("linux", "claude-code", "user", ".claude.json", "mcpServers"),
        ("linux", "claude-code", "project", "project/.mcp.json", "mcpServers"),
        ("darwin", "vscode", "user", "Library/Application Support/Code/User/mcp.json", "servers"),
        ("linux", "vscode", "user", ".config/Code/User/mcp.json", "servers"),
        ("win32", "vscode", "user", "AppData/Roaming/Code/User/mcp.json", "servers"),
        ("linux", "vscode", "project", "project/.vscode/mcp.json", "servers"),
        ("darwin", "cursor", "user", ".cursor/mcp.json", "mcpServers"),
        ("linux", "cursor", "project", "project/.cursor/mcp.json", "mcpServers"),
    ],
)
def test_each_client_has_its_place(platform: str, client: str, scope: str, file: str, key: str) -> None:
    place = place_of(client, scope, machine(platform))  # type: ignore[arg-type]  # from the table
    assert (place.file, place.key) == (HOME / file, (key,))


def test_the_environment_moves_places() -> None:
    moved = machine(XDG_CONFIG_HOME="/etc/ada", CLAUDE_CONFIG_DIR="/srv/claude")
    assert place_of("vscode", "user", moved).file == Path("/etc/ada/Code/User/mcp.json")
    assert place_of("claude-code", "user", moved).file == Path("/srv/claude/.claude.json")
    assert place_of("cursor", "user", machine("win32", APPDATA="/roaming")).file == HOME / ".cursor/mcp.json"
    assert place_of("vscode", "user", machine("win32", APPDATA="/roaming")).file == Path("/roaming/Code/User/mcp.json")
    assert place_of("vscode", "user", machine(XDG_CONFIG_HOME="relative")).file == HOME / ".config/Code/User/mcp.json"


def test_claude_code_has_servers_of_one_folder_in_its_own_file() -> None:
    assert place_of("claude-code", "local", machine()).key == ("projects", str(HERE), "mcpServers")


def test_a_scope_that_a_client_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="Claude Desktop has no project scope; it has: user"):
        place_of("claude-desktop", "project", machine())
    with pytest.raises(ConfigError, match="it has: user, project"):
        place_of("cursor", "local", machine())


def test_every_client_has_a_user_scope() -> None:
    assert {place.client for place in places(machine()) if place.scope == "user"} == set(CLIENTS)


def test_a_place_without_a_file_has_no_servers(tmp_path: Path) -> None:
    found = read_place(place_of("cursor", "user", Machine("linux", tmp_path, tmp_path, {})))
    assert (found.exists, found.servers) == (False, {})


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff"])
def test_an_empty_file_has_no_servers(tmp_path: Path, text: str) -> None:
    (tmp_path / ".mcp.json").write_text(text)
    found = read_place(place_of("claude-code", "project", Machine("linux", tmp_path, tmp_path, {})))
    assert (found.exists, found.servers, found.text) == (True, {}, text)


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ({"mcpServers": {"a": {"command": "x"}}, "theme": 1}, ("mcpServers",)),
        ({"servers": {"a": {"command": "x"}}, "inputs": []}, ("servers",)),
        ({"editor.fontSize": 12, "mcp": {"servers": {"a": {"command": "x"}}}}, ("mcp", "servers")),
    ],
)
def test_any_file_is_known_by_its_shape(tmp_path: Path, document: object, key: tuple[str, ...]) -> None:
    file = tmp_path / "some.json"
    file.write_text(json.dumps(document))
    found = read_file(file)
    assert (found.key, found.servers) == (key, {"a": {"command": "x"}})


def test_comments_line_ends_and_a_byte_order_mark_are_taken_as_they_are(tmp_path: Path) -> None:
    raw = b'\xef\xbb\xbf{\r\n  // mine\r\n  "mcpServers": {"a": {"command": "x"},},\r\n}\r\n'
    (tmp_path / "mcp.json").write_bytes(raw)
    found = read_file(tmp_path / "mcp.json")
    assert found.servers == {"a": {"command": "x"}}
    assert found.text.encode() == raw


def test_a_link_is_followed(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_text('{"mcpServers": {}}')
    (tmp_path / "mcp.json").symlink_to(target)
    assert read_file(tmp_path / "mcp.json").path == target


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "the text ends"),
        (b"mcpServers: {}", "a value is needed"),
        (b'{"mcpServers": {}', "comma or }"),
        (b'{"mcpServers": {}} trailing', "text after the end"),
        (b'{"mcpServers": {"a": {}, "a": {}}}', "given twice"),
        (b"[]", "an object"),
        (b'{"theme": "dark"}', "neither an mcpServers nor a servers object"),
        (b'{"mcpServers": []}', "not an object of servers"),
        (b'{"mcpServers": {"a": "npx"}}', "mcpServers.a is not an object"),
        (b'{"mcpServers": {"a": null}}', "mcpServers.a is not an object"),
        ('{"mcpServers": {}}'.encode("utf-16"), "not UTF-8"),
        (b"\x00\xff\xfe", "not UTF-8"),
        (b'{"a":' * 500, "nested too deeply"),
    ],
)
def test_what_is_no_clients_file_is_refused(tmp_path: Path, raw: bytes, told: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(raw)
    with pytest.raises(ConfigError, match=told) as refused:
        read_file(file)
    assert str(file) in str(refused.value)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_file(tmp_path / "nothing.json")
    with pytest.raises(ConfigError, match="Is a directory"):
        read_file(tmp_path)


def test_this_program_is_named_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "leafgate"
    program.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["./leafgate", "install"])
    assert [Path(word) for word in own_command()] == [program]
    monkeypatch.setattr(sys, "argv", ["/somewhere/leafgate/cli/__main__.py"])
    assert own_command() == (sys.executable, "-m", "leafgate.cli")


def test_clients_that_name_the_transport_are_told() -> None:
    assert child_entry("vscode", None)["type"] == "stdio"
    assert child_entry("claude-code", None)["type"] == "stdio"
    assert "type" not in child_entry("cursor", None)
    assert child_entry("cursor", Path("/a/b.yaml"), {"T": "1"})["args"][-2:] == ["--config", "/a/b.yaml"]
    assert child_entry("cursor", None, {"T": "1"})["env"] == {"T": "1"}
    assert "env" not in child_entry("cursor", None, {})


def test_a_gateway_that_runs_is_named_by_its_url() -> None:
    assert http_entry("cursor", "http://127.0.0.1:8808") == {"url": "http://127.0.0.1:8808/mcp"}
    assert http_entry("vscode", "https://h/own/") == {"type": "http", "url": "https://h/own/"}
    token = {"headers": {"Authorization": "Bearer ${TOKEN}"}}
    assert http_entry("claude-code", "http://h/mcp", "TOKEN") == {"type": "http", "url": "http://h/mcp"} | token
    assert http_entry("cursor", "http://h/mcp", "TOKEN")["headers"] == {"Authorization": "Bearer ${env:TOKEN}"}


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8808", "ftp://h/", "http://", "https:///mcp", "http://ada:secret@h/mcp"]
)
def test_what_is_no_url_or_holds_a_password_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--http") as refused:
        http_entry("cursor", url)
    assert "ada:secret" not in str(refused.value)


def test_claude_desktop_takes_no_url() -> None:
    with pytest.raises(ConfigError, match="names commands, not URLs"):
        http_entry("claude-desktop", "http://127.0.0.1:8808/mcp")
