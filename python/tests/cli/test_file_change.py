"""Changes to somebody's files: previewed without secrets, whole or not at all, and taken back."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command_line import PROGRAM, Person, somebody

from leafgate.cli.file_change import FileChange, apply_all, backups, preview, undo, undo_change
from leafgate.model.errors import ConfigError

NOW = datetime(2026, 11, 16, 4, 38, 40, 5, tzinfo=UTC)
LATER = datetime(2026, 11, 16, 4, 38, 41, tzinfo=UTC)


def change(path: Path, after: str) -> FileChange:
    return FileChange(path, path.read_text() if path.exists() else None, after)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_change_keeps_the_mode_and_a_backup(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("old")
    file.chmod(0o640)
    (kept,) = apply_all([change(file, "new")], NOW)
    assert kept == tmp_path / "mcp.json.leafgate-backup-20261116T043840.000005Z"
    assert (file.read_text(), kept.read_text()) == ("new", "old")
    assert [path.stat().st_mode & 0o777 for path in (file, kept)] == [0o640, 0o640]
    assert names(tmp_path) == {"mcp.json", kept.name}


def test_a_private_change_takes_the_file_from_others_and_its_backup_too(tmp_path: Path) -> None:
    file = tmp_path / "leafgate.env"
    file.write_text("old")
    file.chmod(0o644)
    (kept,) = apply_all([FileChange(file, "old", "new", private=True)], NOW)
    assert kept is not None
    assert [path.stat().st_mode & 0o777 for path in (file, kept)] == [0o600, 0o600]


def test_a_new_file_is_the_owners_alone_and_its_folders_are_made(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "mcp.json"
    assert apply_all([change(file, "new")], NOW) == [None]
    assert file.stat().st_mode & 0o777 == 0o600


def test_changes_are_taken_back_one_by_one_and_nothing_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("one")
    apply_all([change(file, "two")], NOW)
    apply_all([change(file, "three")], LATER)
    file.write_text("three and a bit")
    kept = undo(*undo_change(file), LATER)
    assert kept is not None
    assert (file.read_text(), kept.read_text()) == ("two", "three and a bit")
    undo(*undo_change(file), NOW)
    assert file.read_text() == "one"
    with pytest.raises(ConfigError, match="no backup"):
        undo_change(file)


def test_a_file_that_has_gone_can_be_had_back(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("one")
    apply_all([change(file, "two")], NOW)
    file.unlink()
    assert undo(*undo_change(file), LATER) is None
    assert file.read_text() == "one"


def test_other_files_beside_it_are_no_backups(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    for name in (
        "mcp.json.leafgate-backup-",
        "mcp.json.leafgate-backup-x",
        "xmcp.json.leafgate-backup-20261116T043840.000005Z",
    ):
        (tmp_path / name).write_text("")
    assert backups(file) == ()


def test_all_changes_or_none(tmp_path: Path) -> None:
    first, new, taken = tmp_path / "first", tmp_path / "new", tmp_path / "taken"
    first.write_text("old")
    taken.write_text("a file, so nothing can be put below it")
    below = FileChange(taken / "below", None, "x")
    with pytest.raises(ConfigError, match="cannot be"):
        apply_all([change(first, "1"), change(new, "2"), below], NOW)
    assert first.read_text() == "old"
    assert names(tmp_path) == {"first", "taken"}


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file, other = tmp_path / "mcp.json", tmp_path / "other"
    file.write_text("old")
    seen = change(file, "new")
    file.write_text("written by the client")
    with pytest.raises(ConfigError, match="changed meanwhile"):
        apply_all([change(other, "x"), seen], NOW)
    file.unlink()
    with pytest.raises(ConfigError, match="changed meanwhile"):
        apply_all([seen], NOW)
    appeared = change(file, "new")
    file.write_text("here")
    with pytest.raises(ConfigError, match="created meanwhile"):
        apply_all([appeared], NOW)
    assert names(tmp_path) == {"mcp.json"}


def test_a_read_only_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("old")
    file.chmod(0o400)
    with pytest.raises(ConfigError, match="read-only"):
        apply_all([change(file, "new")], NOW)
    assert names(tmp_path) == {"mcp.json"}


def test_line_ends_are_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(b"\xef\xbb\xbfa\r\n")
    apply_all([FileChange(file, "\ufeffa\r\n", "\ufeffb\r\n")], NOW)
    assert file.read_bytes() == b"\xef\xbb\xbfb\r\n"
    assert backups(file)[0].read_bytes() == b"\xef\xbb\xbfa\r\n"


def test_a_preview_shows_the_change_and_no_secret() -> None:
    servers = {"a": {"command": "x", "env": {"PIN": "1234", "API_TOKEN": "abc", "PATH_OF_DATA": "/srv/data"}}}
    servers["b"] = {
        "url": "http://h/",
        "headers": {"X-Own": "sesame"},
        "args": ["--api-key", "k\u00e9y", "--token=tok"],
    }
    before = json.dumps({"mcpServers": servers}, indent=2)  # é is written as an escape, and hidden all the same
    shown = preview(FileChange(Path("mcp.json"), before, '{"mcpServers": {}}'))
    assert '-      "command": "x",' in shown
    assert '+{"mcpServers": {}}' in shown
    assert "--- mcp.json (now)" in shown
    for secret in ("abc", "/srv/data", "sesame", "k\u00e9y", "u00e9", "=tok"):
        assert secret not in shown, secret


def test_neighbours_secrets_are_hidden_too() -> None:
    before = '{"primaryKey": "ghp_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzA12",\n"mcpServers": {}}'
    shown = preview(FileChange(Path("x"), before, before.replace("{}}", '{"a": {}}}')))
    assert "ghp_" not in shown


def test_a_file_that_is_no_json_is_not_shown(tmp_path: Path) -> None:
    shown = preview(FileChange(tmp_path / "x", '{"env": {"T": "sesame"', "{}"))
    assert "not JSON" in shown
    assert "sesame" not in shown


def test_nothing_is_left_behind_when_the_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mcp.json"

    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ConfigError, match="No space left"):
        apply_all([change(file, "new")], NOW)
    assert names(tmp_path) == set()


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return somebody(tmp_path)


def on_a_terminal(person: Person, typed: str, *words: str) -> tuple[int, str]:
    """Runs the command on a terminal of its own, and types a line."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "HOME": str(person.home), "TERM": "xterm"}
    command = [str(PROGRAM), *words]
    with subprocess.Popen(command, cwd=person.folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # the other side has gone
            pass
        os.close(ours)
    return process.returncode, shown.decode()


def test_yes_writes(ada: Person) -> None:
    code, shown = on_a_terminal(ada, "y\n", "install", "cursor")
    assert code == 0, shown
    assert "Make this change? [y/N]" in shown
    assert "\x1b[" in shown, "a terminal gets colours"
    assert list(json.loads((ada.home / ".cursor/mcp.json").read_text())["mcpServers"]) == ["leafgate"]


@pytest.mark.parametrize("typed", ["n\n", "\n"])
def test_no_and_nothing_write_nothing_and_exit_1(ada: Person, typed: str) -> None:
    code, shown = on_a_terminal(ada, typed, "install", "cursor")
    assert code == 1
    assert "Aborted" in shown
    assert not (ada.home / ".cursor/mcp.json").exists()


def test_import_writes_no_half_of_it(ada: Person) -> None:
    file = ada.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    assert on_a_terminal(ada, "n\n", "import", "--client", "cursor", "--replace")[0] == 1
    assert [*ada.folder.iterdir()] == []
    assert on_a_terminal(ada, "y\n", "import", "--client", "cursor", "--replace")[0] == 0
    assert on_a_terminal(ada, "n\n", "import", "--undo", str(file))[0] == 1
    assert "leafgate" in file.read_text()
