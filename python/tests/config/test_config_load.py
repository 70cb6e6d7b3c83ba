import json
from pathlib import Path
from typing import Any

import pytest
from config_documents import DOCUMENTS, near_misses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leafgate.config.document import ConfigFileError, document_of, load_document
from leafgate.config.load import config_of, load_config
from leafgate.config.models import Config
from leafgate.model.errors import ConfigError
from leafgate.model.tool import ExposureMode
from leafgate.upstream import HttpServer, ServerSpec, StdioServer

HASH = "sha256:" + "0" * 64
EVERYTHING = """
transport: sse
host: 127.0.0.2
port: 9000
allowed_hosts: [gate.example]
allowed_origins: ["https://gate.example"]
insecure_bind: true
drain_seconds: 3
mode: transparent
hydrate: false
url_safe_names: true
budget: 500
cache_stable: true
embedder: {kind: http, url: "http://127.0.0.1:1/e", headers: {Authorization: "Bearer ${env:TOKEN_OF_TEST}"}}
catalog: tools.json
pins: tools.lock.json
on_drift: hold
on_risk: hold
sanitize: {links: strip}
redact: {allow: [x]}
policy: {rules: [{effect: allow, tool: "files:*"}]}
tolerant_args: true
rate_limits: {tool_execute: {max_calls_per_minute: 5}}
map: qwen/qwen2
check: decode
maps: {files: [own.json], allow: [qwen/qwen2]}
accelerate: off
compress_from: 4096
auth:
  tokens: [{name: ann, hash: "${HASH_OF_TEST}"}]
principals: {ann: {tools: {include: ["files:*"]}}}
dashboard: false
metrics: false
tracing: {endpoint: "http://127.0.0.1:4318", headers: {X-Key: "${TOKEN_OF_TEST}"}}
log: {level: info, format: json}
record: calls.jsonl
mcpServers:
  files:
    command: npx
    args: [-y, server-filesystem, /tmp]
    env: {LEVEL: "${UNSET_IN_TESTS:-info}"}
    timeout: 5
    check: trust
    sanitize: {links: "off"}
    namespace: disk
    include: [read_*]
    exclude: [write_*]
    concurrency: 2
    required: true
  remote:
    url: https://mcp.example/mcp
    headers: {Authorization: "Bearer ${env:TOKEN_OF_TEST}"}
  old: {type: sse, url: "http://127.0.0.1:1/sse"}
  off: {command: nothing, disabled: true}
"""


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_file_with_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_TEST", "s3cret")
    monkeypatch.setenv("HASH_OF_TEST", HASH)
    file = write(tmp_path, "leafgate.yaml", EVERYTHING)
    config = load_config(file)
    assert config == Config(
        servers=(
            ServerSpec(
                "files",
                StdioServer("npx", ("-y", "server-filesystem", "/tmp"), {"LEVEL": "info"}),
                timeout=5,
                namespace="disk",
                include=("read_*",),
                exclude=("write_*",),
                concurrency=2,
                required=True,
            ),
            ServerSpec("remote", HttpServer("https://mcp.example/mcp", {"Authorization": "Bearer s3cret"})),
            ServerSpec("old", HttpServer("http://127.0.0.1:1/sse", {}, "sse")),
        ),
        catalog=tmp_path / "tools.json",
        transport="sse",
        host="127.0.0.2",
        port=9000,
        allowed_hosts=("gate.example",),
        allowed_origins=("https://gate.example",),
        insecure_bind=True,
        drain_seconds=3.0,
        mode=ExposureMode.TRANSPARENT,
        hydrate=False,
        url_safe_names=True,
        budget=500,
        cache_stable=True,
        embedder={"kind": "http", "url": "http://127.0.0.1:1/e", "headers": {"Authorization": "Bearer s3cret"}},
        pins=tmp_path / "tools.lock.json",
        on_drift="hold",
        on_risk="hold",
        sanitize={"escape_html": False, "links": "strip", "trusted_hosts": []},
        sanitize_by_server={"disk": {"escape_html": False, "links": "off", "trusted_hosts": []}},
        redact={"allow": ["x"], "patterns": []},
        policy={"rules": [{"effect": "allow", "tool": "files:*"}]},
        tolerant_args=True,
        rate_limits={"tool_execute": {"max_calls_per_minute": 5}},
        map="qwen/qwen2",
        check="decode",
        check_by_server={"disk": "trust"},
        maps={"files": [tmp_path / "own.json"], "urls": [], "allow": ["qwen/qwen2"]},
        accelerate="off",
        compress_from=4096,
        auth={"tokens": [{"name": "ann", "hash": HASH}], "required": True},
        principals={"ann": {"tools": {"include": ["files:*"]}}},
        dashboard=False,
        metrics=False,
        tracing={
            "endpoint": "http://127.0.0.1:4318",
            "headers": {"X-Key": "s3cret"},
            "service_name": "leafgate",
            "sample_ratio": 1.0,
        },
        log={"level": "info", "format": "json"},
        record=tmp_path / "calls.jsonl",
        files=(file,),
    )
    assert "s3cret" not in repr(config)
    assert repr(config) == "Config(servers: files, remote, old)"


def test_without_keys_the_defaults_of_a_config_count(tmp_path: Path) -> None:
    file = write(tmp_path, "leafgate.yaml", "mcpServers: {a: {command: x}}")
    assert load_config(file) == Config(servers=(ServerSpec("a", StdioServer("x")),), files=(file,))


def test_the_keys_of_a_gateway_in_front_of_a_saved_catalog(tmp_path: Path) -> None:
    text = "catalog: my_catalog.json\nmode: gateway\ntransport: sse\nhost: 127.0.0.1\nport: 8080\n"
    config = load_config(write(tmp_path, "gateway.yaml", text))
    assert (config.catalog, config.transport, config.port) == (tmp_path / "my_catalog.json", "sse", 8080)
    assert config.servers == ()


def test_all_formats_give_the_same(tmp_path: Path) -> None:
    yaml = write(tmp_path, "leafgate.yaml", EVERYTHING)
    value = dict(load_document(yaml).value)
    as_json = write(tmp_path, "leafgate.json", json.dumps(value))
    toml = write(tmp_path, "leafgate.toml", _toml(value))
    environ = {"TOKEN_OF_TEST": "s3cret", "HASH_OF_TEST": HASH}
    expected = load_config(yaml, environ).model_copy(update={"files": ()})
    assert load_config(as_json, environ).model_copy(update={"files": ()}) == expected
    assert load_config(toml, environ).model_copy(update={"files": ()}) == expected


def _toml(value: dict[str, Any]) -> str:
    """Inline tables throughout; JSON's texts and numbers are TOML's too."""

    def shown(inner: Any) -> str:
        if isinstance(inner, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {shown(each)}" for key, each in inner.items()) + "}"
        return "[" + ", ".join(map(shown, inner)) + "]" if isinstance(inner, list) else json.dumps(inner)

    return "\n".join(f"{key} = {shown(each)}" for key, each in value.items())


def test_the_servers_block_of_other_editors_works_too(tmp_path: Path) -> None:
    document = {"servers": {"a": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}}
    assert load_config(write(tmp_path, "mcp.json", json.dumps(document))).servers[0].reach == HttpServer(
        "http://127.0.0.1:1/mcp"
    )


def test_loading_again_gives_the_same_config(tmp_path: Path) -> None:
    file = write(tmp_path, "leafgate.yaml", EVERYTHING)
    environ = {"TOKEN_OF_TEST": "s3cret", "HASH_OF_TEST": HASH}
    assert load_config(file, environ) == load_config(file, environ)
    assert load_config(file, environ) != load_config(file, {**environ, "TOKEN_OF_TEST": "another"})


def test_the_environment_may_be_handed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME_OF_TEST", "from the process")
    file = write(tmp_path, "leafgate.yaml", "mcpServers: {a: {command: '${NAME_OF_TEST}'}}")
    assert load_config(file, {"NAME_OF_TEST": "y"}).servers[0].reach == StdioServer("y")
    with pytest.raises(ConfigError, match="the environment has no NAME_OF_TEST"):
        load_config(file, {})


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("leafgate.yaml", "port: 1\nmcpServers:\n  files:\n    comand: x\n", 4),
        ("leafgate.toml", "port = 1\n[mcpServers.files]\n\ncomand = 'x'\n", 4),
        ("leafgate.json", '{\n"mcpServers": {\n"files": {\n"comand": "x"}}}', 4),
        ("leafgate.jsonc", '{ // c\n"mcpServers": {\n"files": {\n"comand": "x",},},}', 4),
    ],
)
def test_a_misspelt_key_is_told_alike_in_every_format(tmp_path: Path, name: str, text: str, line: int) -> None:
    file = write(tmp_path, name, text)
    with pytest.raises(ConfigFileError) as raised:
        load_config(file)
    assert str(raised.value) == f"{file}:{line}: mcpServers.files.comand: unknown key; did you mean command?"


SECRET = "s3cret-value"


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(DOCUMENTS | near_misses(), st.data())
def test_no_value_of_the_environment_is_ever_shown(value: dict[str, Any], data: st.DataObject) -> None:
    """Any text of a document may be a variable; whatever comes of it, its value stays hidden."""

    def with_variables(inner: Any) -> Any:
        if isinstance(inner, dict):
            return {key: with_variables(each) for key, each in inner.items()}
        if isinstance(inner, list):
            return [with_variables(each) for each in inner]
        return "${SECRET}" if isinstance(inner, str) and data.draw(st.booleans()) else inner

    try:
        config = config_of(document_of(Path("f.yaml"), "yaml", json.dumps(with_variables(value))), {"SECRET": SECRET})
    except ConfigError as error:
        told = str(error)
    else:
        told = f"{config!r} {config.notices}"
    assert SECRET not in told


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["mcpServers", "servers", "inputs", "auth", "command", "id"]) | st.text(), inner
        )
    ),
    max_leaves=15,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.sampled_from(["mcpServers", "servers", "catalog", "inputs", "port"]) | st.text(), TREES))
def test_any_values_are_loaded_or_refused(value: dict[str, Any]) -> None:
    for name in ("leafgate.json", "mcp.json"):
        try:
            config_of(document_of(Path(name), "json", json.dumps(value)), {})
        except ConfigError as error:
            str(error).encode()


HEAD = "mcpServers: {a: {command: x}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "servers: {b: {command: x}}", "f:2: servers: mcpServers is given too"),
        (
            "mcpServers: {A: {command: x}, a: {command: y}}",
            "f:1: mcpServers: A and a would have the same namespace; give",
        ),
        ("servers: {A: {command: x}, a: {command: y}}", "f:1: servers: A and a would have the same namespace"),
        (
            "mcpServers: {a: {command: x, namespace: n}, b: {command: y, namespace: n}}",
            "f:1: mcpServers: a and b would have the same namespace",
        ),
        ("mcpServers: {a: {command: x,\n type: http}}", "f:2: mcpServers.a.type: does not fit a server with a command"),
        ("mcpServers: {a: {url: 'http://x', type: stdio}}", "f:1: mcpServers.a.type: does not fit a server with a url"),
        ("mcpServers: {a: {url: 'http://x', transport: stdio}}", "f:1: mcpServers.a.transport: does not fit"),
        (HEAD + "embedder: {kind: http}", "f:2: embedder: kind http needs a url"),
        (HEAD + "embedder: {kind: minilm, url: 'http://x'}", "f:2: embedder.url: is not for kind minilm"),
        (HEAD + "embedder: {kind: http, url: 'http://x', path: y}", "f:2: embedder.path: is not for kind http"),
        (
            HEAD + "redact:\n  patterns:\n  - {type: own, start: ab, regex: '('}",
            "f:4: redact.patterns[0].regex: not a regular expression",
        ),
        (
            HEAD + "auth:\n  tokens:\n  - {name: a, hash: HASH}\n  - {name: a, hash: HASH}",
            "f:5: auth.tokens[1].name: another token has this name",
        ),
        (
            HEAD + "auth: {tokens: [{name: '*', hash: HASH}]}",
            "f:2: auth.tokens[0].name: needs to be a name",
        ),
        (
            HEAD + 'auth: {tokens: [{name: "a\\n", hash: HASH}]}',
            "f:2: auth.tokens[0].name: needs to be a name",
        ),
    ],
)
def test_a_broken_rule_is_told_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config_of(document_of(Path("f"), "yaml", text.replace("HASH", "sha256:" + "0" * 64)), {})
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        "mcpServers: {A: {command: x, namespace: other}, a: {command: y}}",
        "mcpServers: {a: {command: x, type: stdio}, b: {url: 'http://x', type: sse}, c: {url: 'http://x', type: http}}",
        HEAD + "embedder: {kind: minilm}",
        HEAD + "embedder: {kind: http, url: 'http://x', model: m, headers: {A: b}}",
        HEAD + "redact: {patterns: [{type: own, start: ab, regex: 'ab[0-9]+'}]}",
        HEAD + "auth: {tokens: [{name: a, hash: HASH}, {name: b, hash: HASH}]}",
    ],
)
def test_kept_rules_are_no_problem(text: str) -> None:
    assert config_of(document_of(Path("f"), "yaml", text.replace("HASH", "sha256:" + "0" * 64)), {}).servers


def test_a_namespace_of_the_environment_is_not_shown() -> None:
    text = "mcpServers: {a: {command: x, namespace: '${N}'}, b: {command: y, namespace: '${N}'}}"
    with pytest.raises(ConfigError) as raised:
        config_of(document_of(Path("f"), "yaml", text), {"N": "s3cret"})
    assert "s3cret" not in str(raised.value)
