"""leafgate as clients name it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leafgate.cli.own_entry import child_entry, http_entry, own_command
from leafgate.model.errors import ConfigError


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
