"""Which results may be kept, and what makes two calls the same."""

from __future__ import annotations

from typing import Any

import pytest

from leafgate.admission.cacheable import CachePolicy, cache_key, cache_policy_of, is_worth_keeping, may_keep
from leafgate.catalog.intake import mcp_tool_to_selectable
from leafgate.model.errors import ConfigError
from leafgate.model.tool import SelectableItem


def tool(**annotations: Any) -> SelectableItem:
    return mcp_tool_to_selectable({"name": "read", "inputSchema": {}, "annotations": annotations}, server="disk")


READ_ONLY = tool(readOnlyHint=True)


@pytest.mark.parametrize(
    ("policy", "item", "kept"),
    [
        (CachePolicy(), READ_ONLY, False),
        (CachePolicy(allow=("disk:*",)), READ_ONLY, False),
        (CachePolicy(read_only=True), READ_ONLY, True),
        (CachePolicy(read_only=True), tool(), False),
        (CachePolicy(read_only=True), tool(readOnlyHint=False), False),
        (CachePolicy(read_only=True), tool(readOnlyHint=True, destructiveHint=True), False),
        (CachePolicy(read_only=True, allow=(READ_ONLY.id,)), READ_ONLY, True),
        (CachePolicy(read_only=True, allow=("disk:read",)), READ_ONLY, True),
        (CachePolicy(read_only=True, allow=("mail:*",)), READ_ONLY, False),
        (CachePolicy(read_only=True, allow=()), READ_ONLY, False),
        (CachePolicy(read_only=True, allow=("disk:*",)), tool(), False),
    ],
)
def test_it_takes_the_operator_and_the_server(policy: CachePolicy, item: SelectableItem, kept: bool) -> None:
    assert may_keep(policy, item) is kept


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
    assert is_worth_keeping(raw) is kept


def test_the_order_of_members_does_not_matter_and_types_do() -> None:
    assert cache_key("t", {"a": 1, "b": {"c": 2, "d": 3}}) == cache_key("t", {"b": {"d": 3, "c": 2}, "a": 1})
    values: list[Any] = [1, 1.0, True, "1", None, "null", [1], [1.0], {"1": 1}, "é", "\\u00e9", 0.0, -0.0]
    assert len({cache_key("t", {"a": value}) for value in values}) == len(values)
    assert cache_key("t", {}) != cache_key("u", {})
    assert cache_key("t", {}, "ann") != cache_key("t", {}, "bob")
    assert cache_key("t", {"a": [1, 2]}) != cache_key("t", {"a": [2, 1]})


@pytest.mark.parametrize(
    "document", [None, {"readonly": True}, {"read_only": "yes"}, {"allow": "disk:*"}, {"allow": [5]}]
)
def test_a_policy_that_could_be_misread_is_refused(document: Any) -> None:
    with pytest.raises(ConfigError, match="cache"):
        cache_policy_of(document)


def test_a_policy_is_read_from_a_configuration() -> None:
    assert cache_policy_of({"read_only": True, "allow": ["a:b"], "ttl": 5}) == CachePolicy(True, ("a:b",))
    assert cache_policy_of({}) == CachePolicy()
