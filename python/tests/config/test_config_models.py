"""The models say what the rooms behind them take, and what counts there without a key."""

from dataclasses import fields
from typing import Any, get_args

from config_documents import valid
from hypothesis import HealthCheck, given, settings

from leafgate.admission.policy import CachePolicy
from leafgate.admission.retry import BreakerPolicy, RetryPolicy
from leafgate.clean.redact import RedactPolicy
from leafgate.clean.sanitize import LinkPolicy, SanitizePolicy
from leafgate.compose.policies import make_redact_policy, make_retry_policy, make_sanitize_policy
from leafgate.config.kinds import keys_of, kind_of
from leafgate.config.models import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    Auth,
    Breaker,
    Cache,
    Config,
    ConfigFile,
    Jwt,
    Redact,
    Retry,
    Sanitize,
    Server,
)
from leafgate.config.models import LogFormat as FormatKey
from leafgate.config.models import LogLevel as LevelKey
from leafgate.digest.screen import DEFAULT_BUDGET
from leafgate.model.leaf import LEVELS, CheckMode
from leafgate.model.tool import ALL_META_TOOLS
from leafgate.server.auth.bearer_tokens import read_hash
from leafgate.server.auth.jwt_verifier import DEFAULT_ALGORITHMS, KEY_TYPES, JwtRules
from leafgate.state.records import CacheBounds
from leafgate.telemetry.log import LogFormat, LogLevel
from leafgate.upstream import HttpServer, ServerSpec, StdioServer


def choices(*path: str) -> tuple[str, ...]:
    """The words that a key takes, through sections, lists and objects."""
    kind: Any = ConfigFile
    for name in path:
        key = keys_of(kind)[name]
        kind, entry = key.kind, key.entry
        while entry is not None:
            kind, entry = kind_of(entry)
    return tuple(kind.choices)


def test_defaults_of_the_models_are_those_of_the_rooms() -> None:
    assert make_retry_policy(Retry()) == RetryPolicy()
    assert dict(Breaker()) == {each.name: getattr(BreakerPolicy(), each.name) for each in fields(BreakerPolicy)}
    cache = Cache()
    assert CachePolicy(cache.read_only, cache.allow) == CachePolicy()
    assert CacheBounds(cache.ttl, cache.max_entries, cache.max_bytes) == CacheBounds()
    assert make_sanitize_policy(Sanitize()) == make_sanitize_policy(None) == SanitizePolicy()
    assert make_redact_policy(Redact()) == make_redact_policy(None) == RedactPolicy()
    jwt = Jwt(issuer="i", audience=("a",), jwks="https://x/jwks")
    assert JwtRules("i", ("a",), jwt.algorithms, jwt.principal_claim) == JwtRules("i", ("a",), DEFAULT_ALGORITHMS)
    spec, server = ServerSpec("a", StdioServer("x")), Server(command="x")
    assert (server.timeout, server.start_timeout, server.required) == (spec.timeout, spec.start_timeout, spec.required)
    assert Config().budget == DEFAULT_BUDGET


def test_choices_of_the_models_are_those_of_the_rooms() -> None:
    assert {*choices("check")} == {*choices("mcpServers", "check")} == {*get_args(CheckMode)} > {*LEVELS}
    assert choices("auth", "jwt", "algorithms") == tuple(KEY_TYPES)
    assert choices("log", "level") == get_args(LogLevel) == get_args(LevelKey)
    assert choices("log", "format") == get_args(LogFormat) == get_args(FormatKey)
    assert choices("sanitize", "links") == get_args(LinkPolicy)
    assert {*keys_of(keys_of(ConfigFile)["rate_limits"].kind)} == {*ALL_META_TOOLS, "tools"}


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(valid(Auth))
def test_the_room_of_tokens_takes_their_hashes(auth: dict[str, Any]) -> None:
    for token in auth.get("tokens", []):
        if token["hash"].startswith("sha256:"):  # of the others, the costs are looked at there too
            read_hash(token["hash"], "here")


def test_a_config_shows_its_servers_names_and_nothing_else() -> None:
    config = Config(
        servers=(
            ServerSpec("a", StdioServer("x", ("--key", "s3cret"), {"K": "s3cret"})),
            ServerSpec("b", HttpServer("http://x/s3cret", {"Authorization": "s3cret"})),
        ),
        host="s3cret",
        embedder={"kind": "http", "url": "http://x", "headers": {"A": "s3cret"}},
    )
    assert f"{config!r} {config}" == "Config(servers: a, b) Config(servers: a, b)"
    assert "s3cret" not in f"{config.embedder!r} {config.embedder}"
    assert repr(Config()) == "Config(servers: none)"


def test_a_gateway_listens_on_loopback_unless_told_otherwise() -> None:
    assert (Config().host, Config().port) == (DEFAULT_HOST, DEFAULT_PORT) == ("127.0.0.1", 8808)
