from collections.abc import Mapping
from pathlib import Path

import pytest

from leafgate.config.document import ConfigFileError, Document, document_of
from leafgate.config.load import config_of
from leafgate.config.models import Config, Jwt, Retry
from leafgate.upstream import HttpServer, StdioServer

HEAD = "mcpServers: {a: {command: x}}\n"


def load(text: str, environ: Mapping[str, str] | None = None) -> Config:
    return config_of(document_of(Path("/etc/leafgate.yaml"), "yaml", text), environ or {})


def client_document(text: str) -> Document:
    return Document(Path("/etc/mcp.json"), "json", document_of(Path("x"), "yaml", text).value)


def problems(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    try:
        load(text, environ)
    except ConfigFileError as error:
        return [problem.describe("f") for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("transprt: http", "f:2: transprt: unknown key; did you mean transport?"),
        ("level: info", "f:2: level: unknown key; it belongs in log"),
        ("zzzz: 1", "f:2: zzzz: unknown key; `leafgate config reference` lists all keys"),
        ("retry: {attempts: 3}", "f:2: retry.attempts: unknown key; did you mean max_attempts?"),
        ("retry: {zz: 3}", "f:2: retry.zz: unknown key; known are max_attempts, base_delay"),
        ("transport: htp", "f:2: transport: one of stdio, http, sse; did you mean http?"),
        ("transport: 5", "f:2: transport: one of stdio, http, sse"),
        ("port: 70000", "f:2: port: needs to be a whole number from 0 to 65535"),
        ("port: true", "f:2: port: needs to be a whole number"),
        ("port: '9000'", "f:2: port: needs to be a whole number"),
        ("port: 1.5", "f:2: port: needs to be a whole number"),
        ("port:", "f:2: port: has no value; leave it out, or give a whole number"),
        ("policy:", "f:2: policy: has no value; leave it out, or give an object with rules or flows"),
        ("hydrate: yes", "f:2: hydrate: true or false; write true without quotes"),
        ("hydrate: 'false'", "f:2: hydrate: true or false; write false without quotes"),
        ("hydrate: 1", "f:2: hydrate: needs to be true or false"),
        ("host: ''", "f:2: host: needs to be a text that is not empty"),
        ('host: "a\\0b"', "f:2: host: contains NUL"),
        ("drain_seconds: -1", "f:2: drain_seconds: needs to be a number of seconds, from 0 to 3600"),
        ("drain_seconds: 1e999", "f:2: drain_seconds: needs to be a number"),
        ("drain_seconds: soon", "f:2: drain_seconds: needs to be a number"),
        ("breaker: {open_seconds: 0}", "f:2: breaker.open_seconds: needs to be a number of seconds, above 0"),
        ("log: info", "f:2: log: needs to be an object with level and format"),
        ("allowed_hosts: a", "f:2: allowed_hosts: needs to be a list of texts"),
        ("allowed_hosts: [a, 5]", "f:2: allowed_hosts[1]: needs to be a text"),
        ("principals: [a]", 'f:2: principals: needs to be an object from principals (or "*"'),
        ("principals:\n  '':\n    maps: [x]", 'f:3: principals."": a name must not be empty'),
        ("principals:\n  ann: {artifact_quota_mb: 0}", "f:3: principals.ann.artifact_quota_mb: needs to be"),
        ("principals: {ann: {policy: {}}}", "f:2: principals.ann.policy: rules is missing: a list of rules"),
        ("policy: {rules: [{tool: x}]}", "f:2: policy.rules[0]: effect is missing"),
        ("policy:\n  rules:\n  - {effect: alow}", "f:4: policy.rules[0].effect: one of allow, deny"),
        ("policy: {}", "f:2: policy: needs to be an object with rules or flows"),
        ("policy: {flows: [{to: {server: a}}]}", "f:2: policy.flows[0]: from is missing: an object with server"),
        ("policy: {flows: [{from: {server: a}, effect: deny}]}", "f:2: policy.flows[0]: to is missing"),
        (
            "policy: {flows: [{from: {server: a, kind: secrets}, to: {server: a}, effect: deny}]}",
            "f:2: policy.flows[0].from.kind: one of untrusted, secret, any; did you mean secret?",
        ),
        (
            "policy: {flows: [{from: {server: a}, to: {server: a}, effect: allow}]}",
            "f:2: policy.flows[0].effect: one of deny, require_approval, flag",
        ),
        (
            "policy: {flows: [{from: {sever: a}, to: {server: a}, effect: deny}]}",
            "f:2: policy.flows[0].from.sever: unknown key; did you mean server?",
        ),
        (
            "principals: {ann: {policy: {rules: [], flows: []}}}",
            "f:2: principals.ann.policy.flows: unknown key",
        ),
        ("rate_limits: {tool_brows: {}}", "f:2: rate_limits.tool_brows: unknown key; did you mean tool_browse?"),
        ("rate_limits: {tools: {x: {max_calls_per_minute: -1}}}", "f:2: rate_limits.tools.x.max_calls_per_minute:"),
        ("cache: {ttl: 0}", "f:2: cache.ttl: needs to be a number of seconds, above 0"),
        ("retry: {retryable_codes: [TIMEOUT]}", "f:2: retry.retryable_codes[0]: one of "),
        ("maps: {urls: [{url: 'http://x/m'}]}", "f:2: maps.urls[0].url: needs to be a URL that begins with https://"),
        ("maps: {urls: [{url: 'https://x/m', sha256: abc}]}", "f:2: maps.urls[0].sha256: needs to be a sha256 digest"),
        ("maps: {urls: [{url: 'https://x/m'}]}", "f:2: maps.urls[0]: sha256 is missing"),
        ("accelerate: true", "f:2: accelerate: one of auto, off"),
        ("auth: {}", "f:2: auth: tokens or jwt is needed"),
        ("auth: {tokens: []}", "f:2: auth.tokens: tokens or jwt is needed"),
        ("auth: {tokens: [{name: a}]}", "f:2: auth.tokens[0]: hash is missing"),
        (
            "auth: {tokens: [{name: a, hash: the-token}]}",
            "f:2: auth.tokens[0].hash: needs to be a hash; `leafgate",
        ),
        (
            "principals: {a: {tools: {include: []}}}",
            "f:2: principals.a.tools.include: needs to be a list of globs",
        ),
        ("auth: {jwt: {issuer: i, jwks: k}}", "f:2: auth.jwt: audience is missing"),
        ("auth: {jwt: {issuer: i, audience: [], jwks: k}}", "f:2: auth.jwt.audience: needs to be a text or a list"),
        (
            "auth: {jwt: {issuer: i, audience: a, jwks: 'http://x'}}",
            "f:2: auth.jwt.jwks: needs to be the path of a file, or",
        ),
        (
            "auth: {jwt: {issuer: i, audience: a, jwks: k, algorithms: [HS256]}}",
            "f:2: auth.jwt.algorithms[0]: one of RS256",
        ),
        ("auth: {tokens: [{name: a, hash: h}], scopes: {r: [brows]}}", "f:2: auth.scopes.r[0]: one of browse, execute"),
        ("tracing: {sample_ratio: 2}", "f:2: tracing: endpoint is missing"),
        ("tracing: {endpoint: x}", "f:2: tracing.endpoint: needs to be a URL"),
        ("record: ''", "f:2: record: needs to be the path of a file"),
        ("catalog: 'https://x/c.json'", "f:2: catalog: needs to be the path of a file"),
        ("compress_from: -1", "f:2: compress_from: needs to be a whole number from 0"),
        (
            "redact: {patterns: [{type: A, start: ab, regex: x}]}",
            "f:2: redact.patterns[0].type: needs to be lower-case",
        ),
        ("sanitize: {links: none}", "f:2: sanitize.links: one of off, flag, strip"),
    ],
)
def test_a_bad_value_is_told_with_its_line_key_and_fix(text: str, said: str) -> None:
    told = problems(HEAD + text)
    assert any(line.startswith(said) for line in told), told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "f:1: an object with at least one server is needed (or catalog"),
        ("mcpServers: {}", "f:1: mcpServers: an object with at least one server is needed"),
        ("mcpServers: [1]", "f:1: mcpServers: needs to be an object with at least one server"),
        ("mcpServers: {a: 5}", "f:1: mcpServers.a: needs to be an object with a command or a url"),
        ("mcpServers: {a: {}}", "f:1: mcpServers.a: give either a command or a url"),
        ("mcpServers: {a: {command: x, url: 'http://y'}}", "f:1: mcpServers.a: give either a command or a url"),
        ("mcpServers: {a: {comand: x}}", "f:1: mcpServers.a.comand: unknown key; did you mean command?"),
        ("mcpServers: {a: {url: 'ftp://y'}}", "f:1: mcpServers.a.url: needs to be a URL that begins with http://"),
        ("mcpServers: {a: {command: x, args: y}}", "f:1: mcpServers.a.args: needs to be a list of texts"),
        ("mcpServers: {a: {command: x, args: [[y]]}}", "f:1: mcpServers.a.args[0]: needs to be a text"),
        ("mcpServers: {a: {command: x, env: [1]}}", "f:1: mcpServers.a.env: needs to be an object"),
        ("mcpServers: {a: {command: x, env: {B: {}}}}", "f:1: mcpServers.a.env.B: needs to be a text"),
        ("mcpServers: {a: {command: x, timeout: -1}}", "f:1: mcpServers.a.timeout: needs to be a number of seconds"),
        ("mcpServers: {a: {command: x, concurrency: 0}}", "f:1: mcpServers.a.concurrency: needs to be a whole number"),
        ("mcpServers: {a: {command: x, namespace: ''}}", "f:1: mcpServers.a.namespace: needs to be a text"),
        ("mcpServers: {a: {command: x, include: get_*}}", "f:1: mcpServers.a.include: needs to be a list of globs"),
        ("mcpServers: {a: {command: x, type: ws}}", "f:1: mcpServers.a.type: one of stdio, http, sse"),
        (
            "mcpServers: {a: {command: x, check: never}}",
            "f:1: mcpServers.a.check: one of canonical, sampled, decode, trust",
        ),
        (
            "mcpServers: {a: {command: '${NOT_SET}'}}",
            "f:1: mcpServers.a.command: the environment has no NOT_SET; set it, or write ${NOT_SET:-default}",
        ),
    ],
)
def test_a_bad_server_is_told_likewise(text: str, said: str) -> None:
    told = problems(text)
    assert any(line.startswith(said) for line in told), told


def test_all_problems_are_found_at_once() -> None:
    told = problems("mcpServers:\n  a: {comand: x}\n  b: {command: x, timeout: 0}\nport: -1\ntransprt: http\n")
    assert [line.split(": ")[0] for line in told] == ["f:2", "f:3", "f:4", "f:5"]


def test_what_the_variables_gave_is_not_shown_nor_guessed_at() -> None:
    server = "{url: '${S}', check: '${S}', timeout: '${S}', disabled: '${S}'}"
    text = f"mcpServers: {{a: {server}}}\nport: ${{S}}\nhost: ${{S}}\ntransport: ${{S}}"
    told = problems(text, {"S": "https s3cret"})
    assert len(told) == 6
    assert all("(this value comes from its variables)" in line for line in told)
    assert "s3cret" not in "".join(told)
    assert "did you mean" not in "".join(told)


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("port", "9000", 9000),
        ("port", "0", 0),
        ("hydrate", "False", False),
        ("drain_seconds", "2.5", 2.5),
        ("transport", "sse", "sse"),
        ("pins", "p.json", Path("/etc/p.json")),
    ],
)
def test_any_scalar_may_be_a_variable(key: str, given: str, value: object) -> None:
    assert getattr(load(f"{HEAD}{key}: ${{V}}", {"V": given}), key) == value


@pytest.mark.parametrize(("key", "given"), [("port", "9e3"), ("port", ""), ("hydrate", "1"), ("drain_seconds", "nan")])
def test_a_variable_that_gives_another_kind_is_refused(key: str, given: str) -> None:
    assert problems(f"{HEAD}{key}: ${{V}}", {"V": given})


def test_values_are_complete_and_in_their_types() -> None:
    config = load(
        HEAD
        + "retry: {max_attempts: 3}\nport: 9000.0\ncatalog: c.json\nmaps: {files: [~/m.json]}\n"
        + "auth: {jwt: {issuer: i, audience: a, jwks: keys.json}}\nembedder:\npins: null\n",
        {"HOME": "/home/someone"},
    )
    assert config.retry == Retry(
        max_attempts=3,
        base_delay=0.5,
        max_delay=10.0,
        jitter=0.5,
        retryable_codes=("UPSTREAM_TIMEOUT", "UPSTREAM_UNAVAILABLE"),
    )
    assert (config.port, type(config.port)) == (9000, int)
    assert config.catalog == Path("/etc/c.json")
    assert (config.maps.files, config.maps.urls) == ((Path("/home/someone/m.json"),), ())
    assert config.auth is not None
    assert config.auth.jwt == Jwt(issuer="i", audience=("a",), jwks=Path("/etc/keys.json"))
    assert (config.log.level, config.log.format) == ("warning", "text")
    assert (config.embedder, config.pins) == (None, None)


def test_numbers_for_a_server_are_taken_as_they_are_written() -> None:
    text = "mcpServers: {a: {command: x, args: [1.10, 007, true], env: {V: 3.0, N: null, O: 1e3}}}"
    reach = load(text).servers[0].reach
    assert reach == StdioServer("x", ("1.10", "007", "true"), {"V": "3.0", "O": "1e3"})


def test_and_so_are_those_behind_a_merge_key_and_beside_settings_of_a_client() -> None:
    text = "mcpServers: {a: {command: x, <<: {args: [1.10], env: {V: 5}}}}"
    assert load(text).servers[0].reach == StdioServer("x", ("1.1",), {"V": "5"})
    server = '{"command": "x", "args": [1.10], "other": {"env": {"a": 1}}}'
    text = f'{{"theme": {{"args": [1.10]}}, "mcpServers": {{"a": {server}}}}}'
    assert config_of(document_of(Path("mcp.json"), "json", text), {}).servers[0].reach == StdioServer("x", ("1.10",))


def test_servers_that_are_switched_off_are_not_looked_at() -> None:
    text = "mcpServers: {a: {disabled: true, comand: 5, env: '${NOT_SET}'}}"
    assert load(text).servers == ()


def test_in_a_clients_own_file_its_settings_are_ignored() -> None:
    text = "mcpServers: {a: {command: x, autoApprove: [y], tiemout: '${NOT_SET}'}}\ntheme: dark\n"
    assert config_of(client_document(text), {}).notices == (
        "/etc/mcp.json: not for leafgate, ignored: theme",
        "/etc/mcp.json: mcpServers.a: not for leafgate, ignored: autoApprove, tiemout (did you mean timeout?)",
    )
    with pytest.raises(ConfigFileError, match=r"retry\.zz: unknown key"):
        config_of(client_document(text + "retry: {zz: 1}"), {})


def test_in_a_clients_own_file_a_server_without_a_way_to_it_is_refused_all_the_same() -> None:
    text = "mcpServers: {a: {comand: x, gallery: true}, b: {gallery: true}}"
    with pytest.raises(ConfigFileError) as raised:
        config_of(client_document(text), {})
    assert [problem.describe("f") for problem in raised.value.problems] == [
        "f: mcpServers.a.comand: unknown key; did you mean command?",
        "f: mcpServers.b: give either a command or a url",
    ]


def test_files_that_variables_name_are_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t\n")
    document = document_of(
        tmp_path / "c.yaml", "yaml", "mcpServers: {a: {url: 'http://x', headers: {A: '${file:token}'}}}"
    )
    config = config_of(document, {})
    assert config.servers[0].reach == HttpServer("http://x", {"A": "t"})
    assert config.files == (tmp_path / "c.yaml", tmp_path / "token")


@pytest.mark.parametrize(
    ("flow", "what"),
    [
        ("{from: {server: mial}, to: {server: files}}", ["f:3: policy.flows[0].from.server: no server has this name"]),
        ("{from: {server: mail}, to: {server: 'fil'}}", ["f:3: policy.flows[0].to.server: no server has this name"]),
        ("{from: {server: mail}, to: {server: 'f*'}}", []),
        ("{from: {server: '*'}, to: {server: off}}", []),
    ],
)
def test_a_flow_rule_names_servers_that_exist(flow: str, what: list[str]) -> None:
    servers = "mcpServers: {mail: {command: x}, files: {command: x}, off: {command: x, disabled: true}}"
    flow = f"{flow[:-1]}, effect: deny}}"
    said = problems(f"{servers}\npolicy:\n  flows: [{flow}]\n")
    assert len(said) == len(what)
    assert all(one.startswith(other) for one, other in zip(said, what, strict=True))
