"""How far leaves are checked: a sample that nobody can predict, and everything after a wrong leaf."""

from __future__ import annotations

import random

import pytest

from leafgate.gateway.leaf_checks import LeafChecks
from leafgate.model.leaf import Reason


def test_one_level_is_one_level() -> None:
    checks = LeafChecks("decode", {"strict": "canonical"}, chance=lambda: 0.0)
    assert {checks.plan_for("any").next_level() for _ in range(9)} == {"decode"}
    assert {checks.plan_for("strict").next_level() for _ in range(9)} == {"canonical"}


def test_the_first_leaf_of_a_server_is_checked_whole() -> None:
    checks = LeafChecks(chance=lambda: 0.99)
    assert [checks.plan_for("a").next_level() for _ in range(3)] == ["canonical", "decode", "decode"]
    assert checks.plan_for("b").next_level() == "canonical"


def test_about_the_share_is_checked_whole() -> None:
    plan = LeafChecks(share=0.05, chance=random.Random(7).random).plan_for("a")
    levels = [plan.next_level() for _ in range(4_000)]
    assert 140 < levels.count("canonical") < 260


def test_a_server_that_splits_90_texts_unusually_is_found_with_0_99() -> None:
    """Of 2,000 servers after their first leaf, about 20 are not found."""
    chance = random.Random(11).random
    missed = 0
    for _ in range(2_000):
        plan = LeafChecks(chance=chance).plan_for("a")
        plan.next_level()
        missed += all(plan.next_level() == "decode" for _ in range(90))
    assert 5 <= missed <= 45


@pytest.mark.parametrize("reason", ["non-canonical", "text-mismatch", "special-id", "too-many-ids"])
def test_after_one_lie_every_leaf_of_the_server_is_checked_whole(reason: Reason) -> None:
    checks = LeafChecks(chance=lambda: 0.99)
    liar = checks.plan_for("liar")
    liar.next_level()
    liar.note_verdict(reason)
    liar.note_verdict(None)
    assert {liar.next_level() for _ in range(9)} == {"canonical"}
    reloaded = LeafChecks(chance=lambda: 0.99)
    reloaded.remember(checks)
    assert {reloaded.plan_for("liar").next_level() for _ in range(9)} == {"canonical"}
    assert [reloaded.plan_for("honest").next_level() for _ in range(2)] == ["canonical", "decode"]


def test_ids_of_another_map_are_no_lie() -> None:
    plan = LeafChecks(chance=lambda: 0.99).plan_for("a")
    plan.next_level()
    plan.note_verdict("foreign-map")
    assert plan.next_level() == "decode"
