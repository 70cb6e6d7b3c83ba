import json
from pathlib import Path

import pytest

from leafgate.cli.config import load_config
from leafgate.model.errors import ConfigError
from leafgate.upstream.server_spec import HttpServer, StdioServer


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_yaml_with_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_TEST", "s3cret")
    config = load_config(
        write(
            tmp_path,
            "leafgate.yaml",
            """
transport: http
port: 9000
map: qwen/qwen2
budget: 500
check: decode
cache_stable: true
mcpServers:
  files:
    command: npx
    args: [-y, server-filesystem, /tmp]
    env: {LEVEL: "${UNSET_IN_TESTS:-info}"}
    timeout: 5
  remote:
    url: https://mcp.example/mcp
    headers: {Authorization: "Bearer ${env:TOKEN_OF_TEST}"}
  old: {type: sse, url: "http://127.0.0.1:1/sse"}
  off: {command: nothing, disabled: true}
""",
        )
    )
    files, remote, old = config.servers
    assert (config.transport, config.port, config.map, config.budget) == ("http", 9000, "qwen/qwen2", 500)
    assert (config.check, config.cache_stable) == ("decode", True)
    assert files.reach == StdioServer("npx", ("-y", "server-filesystem", "/tmp"), {"LEVEL": "info"}, None)
    assert files.timeout == 5
    assert remote.reach == HttpServer("https://mcp.example/mcp", {"Authorization": "Bearer s3cret"})
    assert isinstance(old.reach, HttpServer)
    assert old.reach.transport == "sse"


def test_a_clients_own_file_works_as_it_is(tmp_path: Path) -> None:
    document = {
        "mcpServers": {"a": {"command": "x", "autoApprove": ["y"]}},
        "globalShortcut": "Ctrl+Space",
    }
    config = load_config(write(tmp_path, "claude_desktop_config.json", json.dumps(document, indent="\t")))
    assert [server.name for server in config.servers] == ["a"]
    assert any("globalShortcut" in notice for notice in config.notices)
    assert any("autoApprove" in notice for notice in config.notices)


def test_the_servers_block_of_other_editors_works_too(tmp_path: Path) -> None:
    file = write(
        tmp_path, "mcp.json", json.dumps({"servers": {"a": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}})
    )
    assert load_config(file).servers[0].reach == HttpServer("http://127.0.0.1:1/mcp")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mcpServers: {a: {command: x}}\ntransprt: http", "did you mean transport"),
        ("mcpServers: {a: {comand: x}}", "did you mean command"),
        ("mcpServers: {}", "at least one server"),
        ("mcpServers: [1]", "at least one server"),
        ("{}", "at least one server"),
        ("mcpServers: {a: 5}", "an object with a command or a url"),
        ("mcpServers: {a: {}}", "either a command or a url"),
        ("mcpServers: {a: {command: x, url: 'http://y'}}", "either a command or a url"),
        ("mcpServers: {a: {url: 'ftp://y'}}", "http:// or https://"),
        ("mcpServers: {a: {command: x, args: y}}", "args is a list"),
        ("mcpServers: {a: {command: x, env: [1]}}", "an object is needed"),
        ("mcpServers: {a: {command: x, timeout: -1}}", "seconds"),
        ("mcpServers: {a: {command: '${NOT_SET_IN_TESTS}'}}", "the environment has no NOT_SET_IN_TESTS"),
        ("mcpServers: {a: {command: x}}\nport: 70000", "0 to 65535"),
        ("mcpServers: {a: {command: x}}\ntransport: htp", "did you mean http"),
        ("mcpServers: {a: {command: x}}\nbudget: lots", "a whole number"),
        ("mcpServers: {a: {command: x}}\nport: true", "a whole number"),
        ("just text", "does not hold an object"),
        ("a: b: c", "line 1"),
    ],
)
def test_a_bad_file_is_refused_with_the_place_and_the_fix(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path, "leafgate.yaml", text)
    with pytest.raises(ConfigError) as raised:
        load_config(file)
    assert said in str(raised.value)
    assert str(file) in str(raised.value)


def test_broken_json_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 2"):
        load_config(write(tmp_path, "x.json", '{"mcpServers":\n {,}}'))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.yaml")
