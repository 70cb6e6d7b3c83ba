"""Counters of leaves as flat counts: the same again, and what is not known is left out."""

from __future__ import annotations

from collections import Counter

from leafgate.model.call import Origin
from leafgate.ports import LeafReport
from leafgate.telemetry.leaf_reckoning import LeafReckoning, reckoning_of
from leafgate.telemetry.leaf_table import LeafTable

MAP = "sha256:" + "0" * 64


def counted() -> LeafReckoning:
    table = LeafTable()
    table.add(Origin("disk", "read"), MAP, LeafReport("leaf", 10, verify_seconds=0.5))
    table.add(Origin("disk", "read"), MAP, LeafReport("shim", 7, "special-id", tokenize_seconds=0.25))
    table.add(Origin("mail", "send"), MAP, LeafReport("skipped", 0))
    return LeafReckoning(table, Counter({MAP: 3}), "2026-01-02")


def told(reckoning: LeafReckoning) -> object:
    return [(row, counts.as_json()) for row, counts in reckoning.leaves.rows()], reckoning.detokenized


def test_the_same_again() -> None:
    one = counted()
    again = reckoning_of(one.counts(), one.since)
    assert told(again) == told(one)
    assert again.leaves.by_map()[MAP].blocks == one.leaves.by_map()[MAP].blocks


def test_sums_of_two() -> None:
    both = counted().with_all_of(reckoning_of(counted().counts(), "2025-12-31"))
    assert both.since == "2025-12-31"
    assert both.detokenized == {MAP: 6}
    assert both.leaves.by_map()[MAP].tokens["leaf"] == 20
    assert both.counts() == {name: 2 * times for name, times in counted().counts().items()}
    assert counted().with_all_of(reckoning_of({}, "")).since == "2026-01-02"


def test_what_is_not_known_is_left_out() -> None:
    odd = {
        (): 1.0,
        ("blocks",): 1.0,
        ("blocks", "a", "b", "c", "no-such-outcome"): 1.0,
        ("no-such-kind", "a", "b", "c", "leaf"): 1.0,
        ("rejected", "a", "b", "c", "leaf"): 1.0,
        ("seconds", "a", "b", "c", "leaf"): 1.0,
        ("detokenized", "a", "b"): 1.0,
    }
    found = reckoning_of(odd, "")
    assert not found.detokenized
    assert sum(sum(counts.blocks.values()) for _, counts in found.leaves.rows()) == 0
