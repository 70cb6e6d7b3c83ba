"""Single checks of the doctor, where a machine would have to be another one to show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from leafgate.cli.doctor import check_cache_folder, check_maps, node_finding, python_finding
from leafgate.cli.doctor_config import Finding, Group, command_finding
from leafgate.cli.doctor_servers import needs_node
from leafgate.upstream import HttpServer, ServerSpec, StdioServer


def test_python() -> None:
    assert python_finding((3, 11, 0)).state == "ok"
    assert python_finding((3, 10, 9)).state == "fail"
    assert "3.11" in python_finding((2, 7, 18)).fix


@pytest.mark.parametrize(
    ("said", "needed", "state"),
    [
        ("v20.1.0", True, "ok"),
        ("v24.0.0", False, "ok"),
        ("v18.20.1", True, "fail"),
        ("v18.20.1", False, "warn"),
        (None, True, "fail"),
        (None, False, "warn"),
        ("", True, "fail"),
        ("command not found", True, "fail"),
    ],
)
def test_node(said: str | None, needed: bool, state: str) -> None:
    found = node_finding(said, needed)
    assert found.state == state
    assert bool(found.fix) is (state != "ok")


@pytest.mark.parametrize("command", ["node", "npx", "/usr/bin/npx", "C:\\nodejs\\npx.cmd"])
def test_servers_of_node_are_known_by_their_command(command: str) -> None:
    assert needs_node([ServerSpec("web", HttpServer("http://node/")), ServerSpec("a", StdioServer(command))])


def test_others_need_no_node() -> None:
    specs = [ServerSpec("web", HttpServer("http://node/")), ServerSpec("a", StdioServer("python", ("node",)))]
    assert not needs_node(specs)


@pytest.mark.parametrize(
    ("command", "fix"),
    [("npx-7.1", "full path"), ("uvx", "install uv"), ("docker", "Docker"), ("python2.6", "path of a Python")],
)
def test_a_command_that_is_not_there_comes_with_the_way_to_get_it(command: str, fix: str, tmp_path: Path) -> None:
    reach = StdioServer(command, env={"PATH": str(tmp_path)})
    found = command_finding(ServerSpec("a", reach), reach)
    assert found.state == "fail"
    assert fix in found.fix


def test_a_command_is_looked_for_as_it_is_started(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "run"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    relative = StdioServer("./bin/run", cwd=str(tmp_path))
    assert command_finding(ServerSpec("a", relative), relative).state == "fail", "it cannot be executed"
    program.chmod(0o755)
    assert command_finding(ServerSpec("a", relative), relative).state == "ok"
    by_name = StdioServer("run", env={"PATH": str(program.parent)})
    assert command_finding(ServerSpec("a", by_name), by_name).message == str(program)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    assert check_cache_folder(tmp_path / "new" / "folder").state == "ok"
    (tmp_path / "file").touch()
    assert check_cache_folder(tmp_path / "file" / "folder").state == "warn"


def test_a_damaged_map_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = '{"id": "own/map", "sha256": "%s", "file": "own.json", "bytes": 2}' % ("0" * 64)
    (tmp_path / "index.json").write_text(f'{{"maps": [{entry}]}}')
    (tmp_path / "own.json").write_text("{}")
    monkeypatch.setenv("LEAFGATE_MAPS", str(tmp_path))
    heard: list[str] = []
    found = {finding.name: finding for finding in check_maps("own/other", heard.append)}
    assert found["own/map"].state == "fail"
    assert found["toy"].state == "ok"
    assert found["default map"].state == "fail"
    assert "trying map own/map" in heard
    (tmp_path / "index.json").write_text("broken")
    assert [finding.state for finding in check_maps(None, heard.append)] == ["fail"]


def test_a_finding_without_a_fix_has_none_in_its_json() -> None:
    assert Group("g").ok("n", "s").as_json() == {"group": "g", "name": "n", "state": "ok", "said": "s"}
    assert Finding("g", "n", "warn", "s", "f").as_json()["fix"] == "f"
