"""`leafgate catalog`, as an operator runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from warm_python import PYTHON

from leafgate.cli.catalog import command
from leafgate.model.errors import CatalogError, ConfigError, GatewayError, LeafgateError

NAMES = ("create_issue", "list_issues", "get_issue", "get_user", "list_users", "get_pull_request", "list_pull_requests")


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    tools = [
        {"server": "github", "tool": {"name": name, "description": f"{name}.", "inputSchema": {"type": "object"}}}
        for name in [
            "create_issue",
            "list_issues",
            "get_issue",
            "get_user",
            "list_users",
            "get_pull_request",
            "list_pull_requests",
        ]
    ]
    path = tmp_path / "catalog.json"
    path.write_text(json.dumps(tools))
    return str(path)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    return result.exit_code, result.output


def test_ls(catalog: str) -> None:
    assert run("ls", "--catalog", catalog) == (0, "/github — 7 tools: issues, pull-requests, users\n")
    code, output = run("ls", "--catalog", catalog, "/github/issues", "--json")
    assert code == 0
    assert [card["name"] for card in json.loads(output)] == ["create_issue", "get_issue", "list_issues"]
    with pytest.raises(GatewayError, match="/github/issues"):
        run("ls", "--catalog", catalog, "/github/isues")


def test_show(catalog: str) -> None:
    code, output = run("show", "--catalog", catalog, "create_issue", "--json")
    shown = json.loads(output)
    assert code == 0
    assert (shown["name"], shown["args_schema"], len(shown["digest"])) == ("create_issue", {"type": "object"}, 64)
    assert "create_issue." in run("show", "--catalog", catalog, shown["id"])[1]
    with pytest.raises(CatalogError, match="no item"):
        run("show", "--catalog", catalog, "nothing")


def test_lint(catalog: str, tmp_path: Path) -> None:
    code, output = run("lint", "--catalog", catalog)
    assert (code, output.startswith("taken: 7 tools; left out: 0")) == (0, True)
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps([{"name": 5}, {"name": "x", "inputSchema": {"$ref": "http://host.invalid/s"}}]))
    code, output = run("lint", "--catalog", str(bad), "--json")
    report = json.loads(output)
    assert code == 1
    assert {"no-usable-name", "input-schema-remote-ref"} <= {flag["code"] for flag in report["flags"]}
    assert run("lint", "--catalog", str(bad))[0] == 1
    with pytest.raises(ConfigError, match=r"missing\.json"):
        run("lint", "--catalog", str(tmp_path / "missing.json"))


def configured(folder: Path, **servers: dict[str, object]) -> str:
    file = folder / "leafgate.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return str(file)


NOTES: dict[str, object] = {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"], "exclude": ["export_*"]}


def test_servers_of_a_configuration_are_asked_and_can_be_saved(tmp_path: Path) -> None:
    config, saved, lock = configured(tmp_path, notes=NOTES), str(tmp_path / "saved.json"), str(tmp_path / "lock.json")
    assert run("ls", "--config", config) == (0, "/notes — 3 tools: count_notes, read_note, search_notes\n")
    assert run("save", "--config", config, "-o", saved) == (0, f"saved 3 tools in {saved}\n")
    assert run("pin", "--config", config, "--lock", lock)[0] == 0
    assert run("diff", "--catalog", saved, "--lock", lock)[0] == 0


def test_a_server_that_does_not_answer_is_told_and_never_counts_as_gone(tmp_path: Path) -> None:
    config = configured(tmp_path, notes=NOTES, away={"command": "no-such-program"})
    code, output = run("ls", "--config", config)
    assert code == 0
    assert "/notes" in output
    assert "no answer from away" in output
    with pytest.raises(LeafgateError, match="no answer from away"):
        run("pin", "--config", config, "--lock", str(tmp_path / "lock.json"))
    assert not (tmp_path / "lock.json").exists()
