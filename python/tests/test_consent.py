"""Asked on a real terminal: what is shown, and what yes and no do."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
from command_line import PROGRAM, Person, somebody


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
    assert "Change it so? [y/N]" in shown
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
