"""Every client's file: its servers move behind leafgate, the rest of the file stays, and it can be taken back."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import PROGRAM, Person, somebody
from mcp import Client, StdioServerParameters
from warm_python import PYTHON

from leafgate.cli.client_files import format_of, strings_in
from leafgate.config.document import PARSERS

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
GLOBAL = ".config/Code/User/globalStorage"

WINDSURF = """\
{
  "mcpServers": {
    // runs here
    "files": {"command": "npx", "args": ["-y", "files"], "disabledTools": ["write"]},
    "web": {"serverUrl": "https://h.example/mcp", "headers": {"X-Key": "${env:WEB_KEY}"}}
  }
}
"""
GEMINI = """\
{
  "theme": "dark", // mine
  "mcpServers": {
    "files": {"command": "npx", "args": ["files"], "env": {"KEY": "$FILES_KEY"}, "timeout": 30000, "trust": true},
    "web": {"httpUrl": "https://h.example/mcp", "headers": {"X": "y"}, "includeTools": ["read"]},
    "events": {"url": "https://h.example/sse"},
    "account": {"httpUrl": "https://a.example/mcp", "oauth": {"enabled": true}},
  },
}
"""
ZED = """\
{
  "ui_font_size": 16,
  "context_servers": {
    "files": {"source": "custom", "command": "npx", "args": ["files"], "env": {"A": "b"}},
    "old": {"command": {"path": "uvx", "args": ["old"]}, "settings": {}},
    "web": {"url": "https://h.example/mcp"},
    // from the extension
    "docs": {"source": "extension", "settings": {"key": 1}}
  }
}
"""
OPENCODE = """\
{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "files": {"type": "local", "command": ["npx", "-y", "files"], "environment": {"K": "{env:FILES_KEY}"}},
    "web": {"type": "remote", "url": "https://h.example/mcp", "enabled": false}
  }
}
"""
CODEX = """\
# my settings
model = "gpt-5" # the usual

[mcp_servers.files]
command = "npx"
args = ["-y", "files"]
env_vars = ["HOME_KEY"]
startup_timeout_sec = 20

[mcp_servers.files.env]
A = "b"

[mcp_servers.web]
url = "https://h.example/mcp"
bearer_token_env_var = "WEB_TOKEN"
enabled = false

# stays
[mcp_servers.broken]
note = "neither"

[tui]
theme = "dark"
"""
GOOSE = """\
GOOSE_MODEL: gpt-4o  # the model
extensions:
  developer:  # built in
    type: builtin
    enabled: true
  files:
    type: stdio
    cmd: npx
    args: [-y, files]
    envs: {A: b}
    env_keys: [FILES_KEY]
    enabled: true
    timeout: 300
  web:
    type: streamable_http
    uri: https://h.example/mcp
    enabled: false
# the end
"""
CONTINUE = """\
name: mine  # my assistant
mcpServers:
  - name: files
    command: npx
    args: ["-y", "files"]
    env:
      K: ${{ secrets.FILES_KEY }}
  # over HTTP
  - name: web
    type: streamable-http
    url: https://h.example/mcp
    requestOptions:
      headers: {X: y}
models: []
"""
PLAIN = '{\n  "mcpServers": {\n    "files": {"command": "npx", "disabled": true, "alwaysAllow": []}\n  }\n}\n'

FILES = {"command": "npx", "args": ["-y", "files"]}
WEB = {"url": "https://h.example/mcp"}


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return somebody(tmp_path)


def parse(file: Path, text: str) -> Any:
    return PARSERS[format_of(file)](text).value


CASES = {
    "windsurf": (
        ".codeium/windsurf/mcp_config.json",
        WINDSURF,
        {"files": FILES | {"exclude": ["write"]}, "web": WEB | {"headers": {"X-Key": "${env:WEB_KEY}"}}},
        [],
        {"env": {"WEB_KEY": "${env:WEB_KEY}"}},
    ),
    "gemini": (
        ".gemini/settings.json",
        GEMINI,
        {
            "files": {"command": "npx", "args": ["files"], "env": {"KEY": "${FILES_KEY}"}, "timeout": 30},
            "web": WEB | {"headers": {"X": "y"}, "include": ["read"]},
            "events": {"url": "https://h.example/sse", "type": "sse"},
        },
        ["account"],
        {"env": {"FILES_KEY": "${FILES_KEY}"}},
    ),
    "zed": (
        ".config/zed/settings.json",
        ZED,
        {
            "files": {"command": "npx", "args": ["files"], "env": {"A": "b"}},
            "old": {"command": "uvx", "args": ["old"]},
            "web": WEB,
        },
        ["docs"],
        {},
    ),
    "opencode": (
        ".config/opencode/opencode.json",
        OPENCODE,
        {"files": FILES | {"env": {"K": "${FILES_KEY}"}}, "web": WEB | {"disabled": True}},
        [],
        {"type": "local", "enabled": True, "environment": {"FILES_KEY": "{env:FILES_KEY}"}},
    ),
    "codex": (
        ".codex/config.toml",
        CODEX,
        {
            "files": FILES | {"start_timeout": 20, "env": {"HOME_KEY": "${HOME_KEY}", "A": "b"}},
            "web": WEB | {"disabled": True, "headers": {"Authorization": "Bearer ${WEB_TOKEN}"}},
        },
        ["broken"],
        {"env_vars": ["HOME_KEY", "WEB_TOKEN"]},
    ),
    "goose": (
        ".config/goose/config.yaml",
        GOOSE,
        {
            "files": FILES | {"env": {"FILES_KEY": "${FILES_KEY}", "A": "b"}, "timeout": 300},
            "web": WEB | {"disabled": True},
        },
        ["developer"],
        {"name": "leafgate", "type": "stdio", "enabled": True, "timeout": 300, "env_keys": ["FILES_KEY"]},
    ),
    "continue": (
        ".continue/config.yaml",
        CONTINUE,
        {"files": FILES | {"env": {"K": "${FILES_KEY}"}}, "web": WEB | {"headers": {"X": "y"}}},
        [],
        {"name": "leafgate", "env": {"FILES_KEY": "${{ secrets.FILES_KEY }}"}},
    ),
    "cline": (
        f"{GLOBAL}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        PLAIN,
        {"files": {"command": "npx", "disabled": True}},
        [],
        {},
    ),
    "roo": (
        f"{GLOBAL}/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        PLAIN,
        {"files": {"command": "npx", "disabled": True}},
        [],
        {},
    ),
    "lm-studio": (".lmstudio/mcp.json", PLAIN, {"files": {"command": "npx", "disabled": True}}, [], {}),
}


@pytest.mark.parametrize("client", CASES)
def test_the_servers_of_a_client_move_and_everything_else_stays(ada: Person, client: str) -> None:
    place, text, servers, remaining, fields = CASES[client]
    file = ada.home / place
    file.parent.mkdir(parents=True)
    file.write_text(text)
    ran = ada.runs("import", "--client", client, "--replace", "--yes", "--json")
    assert ran.code == 0, ran.said
    assert json.loads(ran.out)["remaining"] == remaining
    assert yaml.safe_load((ada.folder / "leafgate.yaml").read_text())["mcpServers"] == servers

    changed = file.read_text()
    lost = [line for line in text.splitlines() if line.strip() and line not in changed.splitlines()]
    assert not [line for line in lost if re.search(r"(^|\s)(//|#)\s", line)], "comments stay"
    before, after = parse(file, text), parse(file, changed)
    key = next(key for key in ("mcpServers", "context_servers", "mcp", "mcp_servers", "extensions") if key in after)
    assert {name: value for name, value in after.items() if name != key} == {
        name: value for name, value in before.items() if name != key
    }
    entries = after[key] if isinstance(after[key], dict) else {each["name"]: each for each in after[key]}
    assert {*entries} == {*remaining, "leafgate"}
    own = entries["leafgate"]
    words = [*strings_in([own.get("command"), own.get("cmd"), own.get("args")])]
    assert words == [str(PROGRAM), "serve", "--config", str(ada.folder / "leafgate.yaml")]
    assert {name: value for name, value in own.items() if name not in ("command", "cmd", "args")} == fields

    assert ada.runs("import", "--undo", str(file), "--yes").code == 0
    assert file.read_text() == text


@pytest.mark.parametrize("client", CASES)
def test_install_after_import_leaves_leafgate_in_place_of_the_imported(ada: Person, client: str) -> None:
    place, text, _, remaining, _ = CASES[client]
    file = ada.home / place
    file.parent.mkdir(parents=True)
    file.write_text(text)
    names = dict.fromkeys(("FILES_KEY", "HOME_KEY", "WEB_KEY", "WEB_TOKEN"), "x")
    assert ada.runs("import", "--client", client).code == 0
    beside = ada.runs("install", client, "--keep", "--yes", "--json", env=names)
    assert beside.code == 0, beside.said
    assert json.loads(beside.out)["replaced"] == []
    ran = ada.runs("install", client, "--yes", "--json", env=names)
    assert ran.code == 0, ran.said
    again = ada.runs("install", client, "--yes", "--json", env=names)
    assert json.loads(again.out)["needed"] is False
    imported = json.loads(ada.runs("import", str(file), "--dry-run", "--json").out or '{"servers": []}')
    assert imported["servers"] == [], "only leafgate, and what leafgate cannot take over, is left"
    assert all(name in file.read_text() for name in remaining)
    assert ada.runs("install", client, "--remove", "--yes").code == 0
    assert "leafgate" not in file.read_text()


@pytest.mark.anyio
async def test_what_goose_would_start_answers(ada: Person) -> None:
    """With the secret that moved into a variable, which Goose passes on."""
    file = ada.home / ".config/goose/config.yaml"
    file.parent.mkdir(parents=True)
    server = {"type": "stdio", "cmd": PYTHON, "args": ["-m", "leafgate.demo.notes"]}
    file.write_text("# mine\n" + yaml.safe_dump({"extensions": {"notes": server | {"envs": {"API_TOKEN": TOKEN}}}}))
    assert ada.runs("import", "--client", "goose", "--secrets", "env").code == 0
    ran = ada.runs("install", "goose", "--yes")
    assert ran.code == 0, ran.said
    assert TOKEN not in ran.said
    entry = yaml.safe_load(file.read_text())["extensions"]["leafgate"]
    assert entry["envs"] == {"API_TOKEN": TOKEN}
    env = {**os.environ, "HOME": str(ada.home), **entry["envs"]}
    async with Client(StdioServerParameters(command=entry["cmd"], args=entry["args"], env=env)) as client:
        result = await client.call_tool("tool_browse", {"query": "search notes"})
    assert any("notes:search_notes#" in block.text for block in result.content if block.type == "text")


def test_a_client_that_cannot_pass_a_variable_is_refused(ada: Person) -> None:
    (ada.folder / "leafgate.yaml").write_text('mcpServers: {a: {command: x, env: {K: "${A_KEY}"}}}\n')
    refused = ada.runs("install", "lm-studio", "--yes")
    assert refused.code == 2
    assert "needs A_KEY" in refused.err
    assert "leafgate.env" in refused.err
    (ada.folder / "leafgate.env").write_text("A_KEY=sesame-open\n")
    ran = ada.runs("install", "lm-studio", "--yes")
    assert ran.code == 0, ran.said
    assert "sesame" not in ran.said
    entry = json.loads((ada.home / ".lmstudio/mcp.json").read_text())["mcpServers"]["leafgate"]
    assert entry["env"] == {"A_KEY": "sesame-open"}
    shared = ada.runs("install", "cursor", "--scope", "project", "--yes")
    assert shared.code == 0, shared.said
    entry = json.loads((ada.folder / ".cursor/mcp.json").read_text())["mcpServers"]["leafgate"]
    assert entry["env"] == {"A_KEY": "${env:A_KEY}"}, "a file that others share gets no value"


@pytest.mark.parametrize(
    ("client", "entry"),
    [
        ("windsurf", {"serverUrl": "http://h/mcp", "headers": {"Authorization": "Bearer ${env:T}"}}),
        ("gemini", {"httpUrl": "http://h/mcp", "headers": {"Authorization": "Bearer ${T}"}}),
        (
            "opencode",
            {"type": "remote", "enabled": True, "url": "http://h/mcp", "headers": {"Authorization": "Bearer {env:T}"}},
        ),
        ("codex", {"url": "http://h/mcp", "bearer_token_env_var": "T"}),
        ("roo", {"type": "streamable-http", "url": "http://h/mcp", "headers": {"Authorization": "Bearer ${env:T}"}}),
    ],
)
def test_a_running_gateway_is_named_as_the_client_names_one(ada: Person, client: str, entry: dict[str, Any]) -> None:
    ran = ada.runs("install", client, "--http", "http://h/mcp", "--token-variable", "T", "--yes")
    assert ran.code == 0, ran.said
    file = ada.home / CASES[client][0]
    (servers,) = parse(file, file.read_text()).values()
    assert servers == {"leafgate": entry}


def test_a_part_that_cannot_be_changed_alone_is_left_as_it_is(ada: Person) -> None:
    file = ada.home / ".codex/config.toml"
    file.parent.mkdir()
    file.write_text('mcp_servers = {files = {command = "npx"}}\n')
    ran = ada.runs("install", "codex", "--yes")
    assert ran.code == 2
    assert "edit it by hand" in ran.err
    assert file.read_text() == 'mcp_servers = {files = {command = "npx"}}\n'
