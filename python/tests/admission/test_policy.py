"""Which results may be kept, and what makes two calls the same."""

from __future__ import annotations

from typing import Any

import pytest

from leafgate.admission.policy import (
    CachePolicy,
    approval_question,
    cache_key,
    is_cacheable_result,
    is_cacheable_tool,
)
from leafgate.catalog.intake import mcp_tool_to_selectable
from leafgate.model.rights import CapabilityPolicy, Rule, names_tool
from leafgate.model.tool import SelectableItem


def annotated_tool(**annotations: Any) -> SelectableItem:
    return mcp_tool_to_selectable({"name": "read", "inputSchema": {}, "annotations": annotations}, server="disk")


READ_ONLY = annotated_tool(readOnlyHint=True)


@pytest.mark.parametrize(
    ("policy", "item", "kept"),
    [
        (CachePolicy(), READ_ONLY, False),
        (CachePolicy(allow=("disk:*",)), READ_ONLY, False),
        (CachePolicy(read_only=True), READ_ONLY, True),
        (CachePolicy(read_only=True), annotated_tool(), False),
        (CachePolicy(read_only=True), annotated_tool(readOnlyHint=False), False),
        (CachePolicy(read_only=True), annotated_tool(readOnlyHint=True, destructiveHint=True), False),
        (CachePolicy(read_only=True, allow=(READ_ONLY.id,)), READ_ONLY, True),
        (CachePolicy(read_only=True, allow=("disk:read",)), READ_ONLY, True),
        (CachePolicy(read_only=True, allow=("mail:*",)), READ_ONLY, False),
        (CachePolicy(read_only=True, allow=()), READ_ONLY, False),
        (CachePolicy(read_only=True, allow=("disk:*",)), annotated_tool(), False),
    ],
)
def test_it_takes_the_operator_and_the_server(policy: CachePolicy, item: SelectableItem, kept: bool) -> None:
    assert is_cacheable_tool(policy, item) is kept


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        ({"content": []}, True),
        ({"content": [], "isError": False, "resultType": "complete"}, True),
        ({"content": [], "isError": True}, False),
        ({"resultType": "input_required"}, False),
        ({"resultType": "task"}, False),
    ],
)
def test_only_whole_and_good_results_are_kept(raw: Any, kept: bool) -> None:
    assert is_cacheable_result(raw) is kept


def test_the_order_of_members_does_not_matter_and_types_do() -> None:
    assert cache_key("t", {"a": 1, "b": {"c": 2, "d": 3}}) == cache_key("t", {"b": {"d": 3, "c": 2}, "a": 1})
    values: list[Any] = [1, 1.0, True, "1", None, "null", [1], [1.0], {"1": 1}, "é", "\\u00e9", 0.0, -0.0]
    assert len({cache_key("t", {"a": value}) for value in values}) == len(values)
    assert cache_key("t", {}) != cache_key("u", {})
    assert cache_key("t", {}, "ann") != cache_key("t", {}, "bob")
    assert cache_key("t", {"a": [1, 2]}) != cache_key("t", {"a": [2, 1]})


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
