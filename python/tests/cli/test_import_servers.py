"""What of a client's servers leafgate takes over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leafgate.cli.import_command import import_servers

FOLDER = Path("/home/ada/project")


def carried(entry: dict[str, Any]) -> dict[str, Any]:
    return dict(import_servers({"a": entry}, FOLDER).servers["a"])


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"type": "stdio", "command": "npx", "args": ["-y", "x"]}, {"command": "npx", "args": ["-y", "x"]}),
        ({"command": "x", "env": {}, "args": [], "cwd": None}, {"command": "x"}),
        ({"type": "http", "url": "http://h/mcp"}, {"url": "http://h/mcp"}),
        ({"type": "sse", "url": "http://h/sse"}, {"url": "http://h/sse", "type": "sse"}),
        ({"transport": "sse", "url": "http://h/sse", "args": []}, {"url": "http://h/sse", "type": "sse"}),
        ({"command": "x", "disabled": True}, {"command": "x", "disabled": True}),
        ({"command": "x", "timeout": 30000}, {"command": "x", "timeout": 30}),
        ({"command": "x", "timeout": 30}, {"command": "x", "timeout": 30}),
        ({"command": "x", "envFile": "secrets.env"}, {"command": "x", "envFile": f"{FOLDER}/secrets.env"}),
        ({"command": "x", "envFile": "~/secrets.env"}, {"command": "x", "envFile": "~/secrets.env"}),
        ({"command": "./x"}, {"command": "./x", "cwd": str(FOLDER)}),
        ({"command": "node", "args": ["../x.js"]}, {"command": "node", "args": ["../x.js"], "cwd": str(FOLDER)}),
        ({"command": "./x", "cwd": "/srv"}, {"command": "./x", "cwd": "/srv"}),
        ({"command": "${workspaceFolder}/x"}, {"command": f"{FOLDER}/x"}),
        ({"command": "x", "args": ["${workspaceFolderBasename}"]}, {"command": "x", "args": ["project"]}),
        ({"command": "x", "env": {"T": "${env:T}"}}, {"command": "x", "env": {"T": "${env:T}"}}),
    ],
)
def test_entries_become_leafgates(entry: dict[str, Any], expected: dict[str, Any]) -> None:
    assert carried(entry) == expected


def test_what_only_the_client_knows_is_told() -> None:
    found = import_servers({"a": {"command": "x", "autoApprove": ["y"], "gallery": True}}, FOLDER)
    assert found.notices == ("a: only for the client, not imported: autoApprove, gallery",)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"command": ""},
        {"command": 5},
        {"url": "unix:///tmp/socket"},
        {"url": 5},
        {"type": "http"},
        {"command": "x", "args": "-y"},
        {"command": "x", "env": ["A=b"]},
        {"command": "x", "env": "A=b"},
        {"url": "http://h/mcp", "headers": "Authorization: x"},
        {"command": "/usr/bin/leafgate", "args": ["serve"]},
        {"command": "C:\\\\tools\\\\leafgate.exe", "args": ["serve", "--config", "x"]},
        {"command": "uvx", "args": ["leafgate", "serve"]},
        {"command": "python", "args": ["-m", "leafgate.cli", "serve"]},
    ],
)
def test_what_leafgate_cannot_stand_in_front_of_is_passed_over(entry: dict[str, Any]) -> None:
    found = import_servers({"a": entry, "b": {"command": "x"}}, FOLDER)
    assert list(found.servers) == ["b"]
    assert "skipped" in found.notices[0]


def test_leafgate_over_http_is_known_by_its_name() -> None:
    found = import_servers({"leafgate": {"url": "http://127.0.0.1:8808/mcp"}, "other": {"url": "http://h/mcp"}}, FOLDER)
    assert list(found.servers) == ["other"]


def test_what_the_client_would_ask_for_becomes_a_variable() -> None:
    found = import_servers({"a": {"command": "x", "env": {"T": "${input:my-key}", "U": "${input:my-key}"}}}, FOLDER)
    assert found.variables == ("LEAFGATE_INPUT_MY_KEY",)


def test_names_that_would_clash_get_namespaces() -> None:
    names = ("my server", "my-server", "my.server", "my-server-2")
    found = import_servers({name: {"command": "x"} for name in names}, FOLDER)
    assert [found.servers[name].get("namespace") for name in names] == [None, "my-server-3", "my-server-4", None]
