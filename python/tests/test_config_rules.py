from pathlib import Path

import pytest

from leafgate.config.document import document_of
from leafgate.config.load import config_of
from leafgate.model.errors import ConfigError

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
