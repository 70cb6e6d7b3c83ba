from pathlib import Path

import pytest

from leafgate.config.document import document_of
from leafgate.config.load import is_client_file, load_config
from leafgate.config.models import Config
from leafgate.model.errors import ConfigError
from leafgate.upstream import HttpServer, StdioServer

CLIENTS = Path(__file__).parents[1] / "data" / "clients"
SECRETS = {
    "API_KEY": "s3cret-1",
    "DB_URL": "s3cret-2",
    "MY_SERVICE_TOKEN": "s3cret-3",
    "LEAFGATE_INPUT_PERPLEXITY_KEY": "s3cret-4",
}


def placed(folder: Path, client: str, place: str) -> Path:
    """A client's example file where that client keeps it."""
    file = folder / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes((CLIENTS / client).read_bytes())
    return file


def reach_of(config: Config, name: str) -> StdioServer | HttpServer:
    return next(server.reach for server in config.servers if server.name == name)


def test_claude_desktop(tmp_path: Path) -> None:
    config = load_config(placed(tmp_path, "claude_desktop_config.json", "claude_desktop_config.json"), {})
    assert [server.name for server in config.servers] == ["filesystem", "github", "memory"]
    assert reach_of(config, "github") == StdioServer(
        "docker",
        ("run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "github-mcp-server"),
        {"GITHUB_PERSONAL_ACCESS_TOKEN": "written-into-the-file"},
    )
    memory = reach_of(config, "memory")
    assert isinstance(memory, StdioServer)
    assert memory.command == "C:\\Program Files\\nodejs\\npx.cmd"
    (notice,) = config.notices
    assert "ignored: globalShortcut, isUsingBuiltInNodeForMcp, preferences" in notice


def test_claude_code(tmp_path: Path) -> None:
    config = load_config(placed(tmp_path, "claude_code.mcp.json", ".mcp.json"), {**SECRETS, "HOME": "/home/someone"})
    assert reach_of(config, "api") == HttpServer(
        "https://api.example.com/mcp", {"Authorization": "Bearer s3cret-1"}, "http"
    )
    assert reach_of(config, "events") == HttpServer("https://events.example.com/sse", {}, "sse")
    assert reach_of(config, "database") == StdioServer(
        "/home/someone/bin/db-server", ("--config", "./config.json"), {"DB_URL": "s3cret-2", "CACHE_DIR": "/tmp"}
    )
    assert [server.timeout for server in config.servers] == [600, 60, 60]
    assert any("mcpServers.api.timeout: read as milliseconds" in notice for notice in config.notices)
    assert any("mcpServers.events" in notice and "headersHelper" in notice for notice in config.notices)


def test_vs_code(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FROM_FILE=s3cret-5\nRETRIES=9\n")
    config = load_config(placed(tmp_path, "vscode.mcp.json", ".vscode/mcp.json"), SECRETS)
    assert reach_of(config, "perplexity") == StdioServer(
        "npx",
        ("-y", "server-perplexity-ask", "--region", "eu"),
        {"FROM_FILE": "s3cret-5", "RETRIES": "3", "PERPLEXITY_API_KEY": "s3cret-4"},
    )
    assert reach_of(config, "fetch") == StdioServer("uvx", ("mcp-server-fetch",), {}, str(tmp_path))
    assert reach_of(config, "github") == HttpServer("https://api.githubcopilot.example/mcp/")
    assert config.files == (tmp_path / ".vscode" / "mcp.json", tmp_path / ".env")


def test_what_vs_code_would_ask_for_is_told_with_the_variable_to_set(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("")
    with pytest.raises(ConfigError) as raised:
        load_config(placed(tmp_path, "vscode.mcp.json", ".vscode/mcp.json"), {})
    said = "mcp.json:13: servers.perplexity.env.PERPLEXITY_API_KEY: the client would ask for this input; set "
    assert f"{said}LEAFGATE_INPUT_PERPLEXITY_KEY in the environment" in str(raised.value)


def test_cursor(tmp_path: Path) -> None:
    (tmp_path / ".cursor.env").write_text("MORE=1")
    config = load_config(placed(tmp_path, "cursor.mcp.json", ".cursor/mcp.json"), {**SECRETS, "HOME": str(tmp_path)})
    assert reach_of(config, "local-server") == StdioServer(
        "python", (f"{tmp_path}/tools/mcp_server.py",), {"MORE": "1", "API_KEY": "s3cret-1"}
    )
    assert reach_of(config, "web-api") == HttpServer(
        "https://api.example.com/mcp", {"Authorization": "Bearer s3cret-3"}
    )
    assert [server.name for server in config.servers] == ["local-server", "web-api"]


@pytest.mark.parametrize("client", sorted(file.name for file in CLIENTS.iterdir()))
def test_no_secret_of_the_environment_is_shown(tmp_path: Path, client: str) -> None:
    (tmp_path / ".env").write_text("FROM_FILE=s3cret-5")
    (tmp_path / ".cursor.env").write_text("FROM_FILE=s3cret-6")
    config = load_config(placed(tmp_path, client, ".vscode/x.json"), {**SECRETS, "HOME": str(tmp_path)})
    assert "s3cret" not in repr(config)
    assert "s3cret" not in "".join(config.notices)


@pytest.mark.parametrize(
    ("name", "text", "is_clients"),
    [
        ("mcp.json", '{"mcpServers": {}}', True),
        ("mcp.json", '{"servers": {}}', True),
        ("settings.json", '{"transport": "http"}', False),
        ("leafgate.json", '{"mcpServers": {}}', False),
        ("leafgate-test.json", '{"mcpServers": {}}', False),
        ("mine.json", '{"$schema": "./leafgate-config.schema.json", "mcpServers": {}}', False),
    ],
)
def test_a_clients_own_file_is_known_by_its_block(name: str, text: str, is_clients: bool) -> None:
    assert is_client_file(document_of(Path(name), "json", text)) is is_clients


def test_a_yaml_file_is_never_a_clients_own() -> None:
    assert not is_client_file(document_of(Path("a.yaml"), "yaml", "mcpServers: {}"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "the file cannot be read"),
        (b"\xff\xff", "the file is not UTF-8"),
        (b"A=s3cret\ns3cret", "line 2 of the file is not NAME=value"),
        (b"#" * 70_000, "the file is larger than"),
    ],
)
def test_a_bad_env_file_is_told_at_its_key(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "e").write_bytes(content)
    file = tmp_path / "x.yaml"
    file.write_text("mcpServers:\n  a:\n    command: x\n    envFile: e\n")
    with pytest.raises(ConfigError) as raised:
        load_config(file)
    assert f"x.yaml:4: mcpServers.a.envFile: {said}" in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(("timeout", "seconds"), [("999", 999), ("1000", 1), ("600000", 600), ("86400000", 86_400)])
def test_timeouts_in_a_clients_file_are_told_apart(tmp_path: Path, timeout: str, seconds: float) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(f'{{"mcpServers": {{"a": {{"command": "x", "url": null, "timeout": {timeout}}}}}}}')
    assert load_config(file).servers[0].timeout == seconds


@pytest.mark.parametrize("timeout", ["0", "-1", "true", "86400001", "9" * 400, "1e999"])
def test_a_timeout_that_is_none_is_refused(tmp_path: Path, timeout: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(f'{{"mcpServers": {{"a": {{"command": "x", "timeout": {timeout}}}}}}}')
    with pytest.raises(ConfigError, match="timeout: needs to be a number of seconds"):
        load_config(file)
