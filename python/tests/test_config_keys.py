"""The table says what the rooms behind it take, and what counts there without a key."""

from dataclasses import fields
from typing import Any, get_args

from config_documents import valid
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leafgate.admission.breaker import BreakerPolicy
from leafgate.admission.cacheable import CachePolicy
from leafgate.admission.retry import RetryPolicy
from leafgate.cli.cleaning import sanitize_policy_of
from leafgate.cli.controls import make_controls
from leafgate.config.keys import TOP
from leafgate.config.kinds import Section
from leafgate.config.settings import CONTROL_KEYS, Config
from leafgate.firewall.links import LinkPolicy
from leafgate.firewall.sanitize import SanitizePolicy
from leafgate.model.leaf import LEVELS
from leafgate.server.auth.bearer_tokens import read_hash
from leafgate.server.auth.jwt_verifier import DEFAULT_ALGORITHMS, JwtRules
from leafgate.server.auth.signing_keys import KEY_TYPES
from leafgate.storage.result_cache import DEFAULT_BYTES, DEFAULT_ENTRIES, DEFAULT_TTL
from leafgate.telemetry.log import LogFormat, LogLevel
from leafgate.upstream.server_spec import ServerSpec, StdioServer

CONTROLS = st.fixed_dictionaries({}, optional={name: valid(TOP.by_name[name].kind) for name in CONTROL_KEYS})


def kind_of(*path: str) -> Any:
    """What a key takes; of lists and objects with names of their own, what each entry is."""
    kind: Any = TOP
    for name in path:
        kind = kind.by_name[name].kind
        kind = getattr(kind, "value", getattr(kind, "entry", kind))
    return kind


def choices(*path: str) -> tuple[str, ...]:
    return tuple(kind_of(*path).choices)


def defaults(*path: str) -> dict[str, Any]:
    kind = kind_of(*path)
    assert isinstance(kind, Section)
    return {key.name: key.default for key in kind.keys if key.default is not None}


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(CONTROLS)
def test_the_rooms_take_every_control_that_the_table_takes(controls: dict[str, Any]) -> None:
    make_controls(controls)


@given(valid(TOP.by_name["sanitize"].kind))
def test_and_every_way_of_cleaning(sanitize: dict[str, Any]) -> None:
    sanitize_policy_of(sanitize)


def test_defaults_of_the_table_are_those_of_the_rooms() -> None:
    retry = RetryPolicy()
    assert defaults("retry") == {
        each.name: sorted(retry.retryable_codes) if each.name == "retryable_codes" else getattr(retry, each.name)
        for each in fields(retry)
    }
    assert defaults("breaker") == {each.name: getattr(BreakerPolicy(), each.name) for each in fields(BreakerPolicy)}
    assert defaults("cache") == {
        "read_only": CachePolicy().read_only,
        "ttl": DEFAULT_TTL,
        "max_entries": DEFAULT_ENTRIES,
        "max_bytes": DEFAULT_BYTES,
    }
    assert sanitize_policy_of(defaults("sanitize")) == SanitizePolicy()
    assert tuple(defaults("auth", "jwt")["algorithms"]) == DEFAULT_ALGORITHMS
    assert defaults("auth", "jwt")["principal_claim"] == JwtRules("i", ("a",)).principal_claim
    spec = ServerSpec("a", StdioServer("x"))
    server = defaults("mcpServers")
    assert {name: server[name] for name in ("timeout", "start_timeout", "required")} == {
        "timeout": spec.timeout,
        "start_timeout": spec.start_timeout,
        "required": spec.required,
    }


def test_choices_of_the_table_are_those_of_the_rooms() -> None:
    assert {*choices("check")} == {*choices("mcpServers", "check")} == {*LEVELS}
    assert choices("auth", "jwt", "algorithms") == tuple(KEY_TYPES)
    assert choices("log", "level") == get_args(LogLevel)
    assert choices("log", "format") == get_args(LogFormat)
    assert choices("sanitize", "links") == get_args(LinkPolicy)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(valid(TOP.by_name["auth"].kind))
def test_the_room_of_tokens_takes_their_hashes(auth: dict[str, Any]) -> None:
    for token in auth.get("tokens", []):
        if token["hash"].startswith("sha256:"):  # of the others, the costs are looked at there too
            read_hash(token["hash"], "here")


def test_every_setting_of_a_config_comes_from_a_key() -> None:
    made_elsewhere = {
        "hold_drift",
        "hold_risk",
        "sanitize_by_server",
        "check_by_server",
        "controls",
        "notices",
        "files",
    }
    assert {each.name for each in fields(Config)} - made_elsewhere <= {*TOP.by_name}
    read_otherwise = {"mcpServers", "inputs", "$schema", "on_drift", "on_risk", *CONTROL_KEYS}
    assert {*TOP.by_name} - read_otherwise <= {each.name for each in fields(Config)}
