"""Who may use what: the first rule that fits decides, and no rule means no."""

from __future__ import annotations

from typing import Any

import pytest

from leafgate.admission.capability import CapabilityPolicy, Rule, approval_question, names_tool, policy_of
from leafgate.model.errors import ConfigError
from leafgate.model.tool import SelectableItem


def item(name: str = "read_file", *, namespace: str = "disk", tags: tuple[str, ...] = ()) -> SelectableItem:
    return SelectableItem(f"{namespace}:{name}#0a1b2c3d", "tool", name, "", namespace, name, tags=tags)


def test_a_policy_without_a_rule_that_fits_denies() -> None:
    assert CapabilityPolicy().judge(item(), "ann") == "deny"
    assert CapabilityPolicy((Rule("allow", namespace="mail"),)).judge(item(), "ann") == "deny"


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (Rule("allow"), True),
        (Rule("allow", namespace="disk"), True),
        (Rule("allow", namespace="d*"), True),
        (Rule("allow", namespace="Disk"), False),
        (Rule("allow", tool="disk:read_file#0a1b2c3d"), True),
        (Rule("allow", tool="disk:read_file"), True),
        (Rule("allow", tool="disk:read_file#ffffffff"), False),
        (Rule("allow", tool="read_*"), True),
        (Rule("allow", tool="disk:write*"), False),
        (Rule("allow", tags=("read-only",)), True),
        (Rule("allow", tags=("read-only", "slow")), False),
        (Rule("allow", principal="ann"), True),
        (Rule("allow", principal="a*"), True),
        (Rule("allow", principal="bob"), False),
        (Rule("allow", namespace="disk", tool="read_*", tags=("read-only",), principal="ann"), True),
        (Rule("allow", namespace="disk", tool="read_*", principal="bob"), False),
    ],
)
def test_every_condition_that_is_stated_must_hold(rule: Rule, fits: bool) -> None:
    assert rule.fits(item(tags=("read-only", "files")), "ann") is fits


def test_a_rule_about_principals_never_fits_nobody() -> None:
    policy = CapabilityPolicy((Rule("allow", principal="*"),))
    assert policy.judge(item(), None) == "deny"
    assert policy.judge(item(), "ann") == "allow"


def test_the_first_rule_that_fits_decides() -> None:
    rules = (Rule("deny", tool="read_secret"), Rule("require_approval", tags=("destructive",)), Rule("allow"))
    policy = CapabilityPolicy(rules)
    assert policy.judge(item("read_secret"), None) == "deny"
    assert policy.judge(item("drop", tags=("destructive",)), None) == "require_approval"
    assert policy.judge(item(), None) == "allow"


def test_a_glob_over_ids_does_not_cross_to_another_tool() -> None:
    assert names_tool("disk:read@1", "disk:read@1")
    assert names_tool("disk:read", "disk:read@1#00000000")
    assert not names_tool("disk:read", "disk:read_all#00000000")


def test_a_question_shows_what_would_be_done_and_hides_nothing() -> None:
    asked = approval_question(item(), {"path": "a\u202eb\n", "n": 1})
    assert "disk:read_file#0a1b2c3d" in asked
    assert '"path": "a\\u202eb\\n"' in asked
    assert "\u202e" not in asked
    assert "more characters that are not shown" in approval_question(item(), {"path": "x" * 5000})


@pytest.mark.parametrize("odd", [{1, 2}, object(), {(1, 2): 3}, "text", None])
def test_a_question_can_be_asked_about_anything(odd: Any) -> None:
    assert "disk:read_file" in approval_question(item(), odd)


def test_a_policy_is_read_from_a_configuration() -> None:
    document = {"rules": [{"effect": "allow", "namespace": "disk", "tags": ["read-only"]}, {"effect": "deny"}]}
    assert policy_of(document) == CapabilityPolicy((Rule("allow", "disk", None, ("read-only",)), Rule("deny")))


@pytest.mark.parametrize(
    "document",
    [
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
)
def test_a_policy_that_could_be_misread_is_refused(document: Any) -> None:
    with pytest.raises(ConfigError, match="policy"):
        policy_of(document)
