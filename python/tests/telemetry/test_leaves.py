"""Counters of leaves as flat counts: the same again, and what is not known is left out."""

from __future__ import annotations

from collections import Counter

from leafgate.model.envelope import Origin
from leafgate.ports import LeafReport
from leafgate.telemetry.counters import (
    GRADUATES,
    LONGEST,
    MAX_FOLDED,
    MAX_ROWS,
    MAX_TOOLS,
    OTHER,
    LeafTable,
    LeafTotals,
    totals_of,
)

MAP = "sha256:" + "0" * 64


def counted() -> LeafTotals:
    table = LeafTable()
    table.add(Origin("disk", "read"), MAP, LeafReport("leaf", 10, verify_seconds=0.5))
    table.add(Origin("disk", "read"), MAP, LeafReport("shim", 7, "special-id", tokenize_seconds=0.25))
    table.add(Origin("mail", "send"), MAP, LeafReport("skipped", 0))
    return LeafTotals(table, Counter({MAP: 3}), "2026-01-02")


def told(totals: LeafTotals) -> object:
    return [(row, counts.as_json()) for row, counts in totals.leaves.rows()], totals.detokenized


def test_the_same_again() -> None:
    one = counted()
    again = totals_of(one.counts(), one.since)
    assert told(again) == told(one)
    assert again.leaves.by_map[MAP].blocks == one.leaves.by_map[MAP].blocks


def test_sums_of_two() -> None:
    both = counted().plus(totals_of(counted().counts(), "2025-12-31"))
    assert both.since == "2025-12-31"
    assert both.detokenized == {MAP: 6}
    assert both.leaves.by_map[MAP].tokens["leaf"] == 20
    assert both.counts() == {name: 2 * times for name, times in counted().counts().items()}
    assert counted().plus(totals_of({}, "")).since == "2026-01-02"


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
    found = totals_of(odd, "")
    assert not found.detokenized
    assert sum(sum(counts.blocks.values()) for _, counts in found.leaves.rows()) == 0


A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def test_a_row_holds_blocks_tokens_reasons_and_seconds() -> None:
    table = LeafTable()
    table.add(Origin("notes", "search"), A, LeafReport("shim", 7, "foreign-map", 0.5, 2.0))
    table.add(Origin("notes", "search"), A, LeafReport("skipped", 0))
    ((row, counts),) = table.rows()
    assert row == ("notes", "search", A)
    assert counts.as_json() == {
        "blocks": {"shim": 1, "skipped": 1},
        "tokens": {"shim": 7, "skipped": 0},
        "rejected": {"foreign-map": 1},
        "dropped": {},
        "checks": {},
        "seconds": {"verify": 0.5, "tokenize": 2.0, "sampled_shim": 0.0, "sampled_leaf": 0.0},
    }


def test_checks_and_leaves_of_cleaned_texts_are_counted_apart() -> None:
    table = LeafTable()
    table.add(Origin("notes", "search"), A, LeafReport("leaf", 7, checked="decode"))
    table.add(Origin("notes", "search"), A, LeafReport("leaf", 7, checked="canonical"))
    table.add(Origin("notes", "search"), A, LeafReport("shim", 7, was_cleaned=True))
    ((_, counts),) = table.rows()
    assert (counts.checks, counts.dropped, counts.rejected) == ({"decode": 1, "canonical": 1}, {"cleaned": 1}, {})


def test_maps_are_summed_over_tools() -> None:
    table = LeafTable()
    for tool in ("one", "two"):
        table.add(Origin("notes", tool), A, LeafReport("leaf", 5))
    table.add(Origin("notes", "one"), B, LeafReport("shim", 5, "negative"))
    assert table.by_map[A].blocks == {"leaf": 2}
    assert table.by_map[B].rejected == table.rejections() == {"negative": 1}


def test_a_server_with_a_million_names_gets_its_rows_and_one_more() -> None:
    table = LeafTable()
    for number in range(4 * MAX_TOOLS):
        table.add(Origin("hostile", f"tool-{number}"), A, LeafReport("shim", 1))
    table.add(Origin("honest", "search"), A, LeafReport("leaf", 1))
    found = dict(table.rows())
    assert len(found) == MAX_TOOLS + 2
    assert found["hostile", OTHER, A].blocks["shim"] == 3 * MAX_TOOLS  # type: ignore[index]  # a Row is a tuple
    assert found["honest", "search", A].blocks["leaf"] == 1  # type: ignore[index]  # likewise


def test_servers_without_end_are_bounded_too() -> None:
    table = LeafTable()
    servers = MAX_ROWS + 2 * MAX_FOLDED
    for number in range(servers):
        table.add(Origin(f"server-{number}", "tool"), A, LeafReport("shim", 1))
    found = dict(table.rows())
    assert len(found) == MAX_ROWS + MAX_FOLDED + 1
    assert found[f"server-{MAX_ROWS}", OTHER, A].blocks["shim"] == 1  # type: ignore[index]  # a Row is a tuple
    assert found[OTHER, OTHER, OTHER].blocks["shim"] == MAX_FOLDED  # type: ignore[index]  # likewise
    assert sum(counts.blocks["shim"] for counts in found.values()) == servers


def test_a_known_row_is_found_again_when_there_is_no_more_room() -> None:
    table = LeafTable()
    for number in range(2 * MAX_TOOLS):
        table.add(Origin("hostile", f"tool-{number}"), A, LeafReport("shim", 1))
    table.add(Origin("hostile", "tool-0"), A, LeafReport("shim", 1))
    assert dict(table.rows())["hostile", "tool-0", A].blocks["shim"] == 2  # type: ignore[index]  # a Row is a tuple


def test_names_that_no_format_can_carry_are_one_row_all_the_same() -> None:
    table = LeafTable()
    for _ in range(3):
        table.add(Origin("notes", "a\nb\ud800" + "c" * 1_000_000), A, LeafReport("shim", 1))
    ((row, counts),) = table.rows()
    assert counts.blocks["shim"] == 3
    assert len(row.tool) == LONGEST
    assert row.tool.isprintable()


def test_the_dearest_tools_come_first_whatever_the_map() -> None:
    table = LeafTable()
    table.add(Origin("notes", "cheap"), A, LeafReport("shim", 9_000, tokenize_seconds=0.1))
    table.add(Origin("notes", "dear"), A, LeafReport("shim", 10, tokenize_seconds=0.2, leaf_seconds=0.05))
    table.add(Origin("notes", "dear"), B, LeafReport("shim", 10, tokenize_seconds=0.2))
    table.add(Origin("time", "now"), A, LeafReport("leaf", 10, verify_seconds=9.0))
    first, second = table.graduates()
    assert first == ("notes", "dear", 2, 20, 0.4, 0.3)
    assert second.tool == "cheap"


def test_a_tool_that_is_cheaper_to_tokenize_for_or_sends_leaves_is_not_advised() -> None:
    table = LeafTable()
    table.add(Origin("notes", "fast"), A, LeafReport("shim", 10, tokenize_seconds=0.1, leaf_seconds=0.1))
    table.add(Origin("notes", "slow"), A, LeafReport("shim", 10, tokenize_seconds=0.5, leaf_seconds=0.1))
    for report in (LeafReport("leaf", 1), LeafReport("shim", 1, "negative"), LeafReport("shim", 1, was_cleaned=True)):
        table.add(Origin("notes", f"sends {report}"), A, report)
        table.add(Origin("notes", f"sends {report}"), A, LeafReport("shim", 9, tokenize_seconds=5, leaf_seconds=1))
    assert [each.tool for each in table.graduates()] == ["slow"]


def test_without_anything_measured_nothing_is_advised() -> None:
    table = LeafTable()
    table.add(Origin("notes", "search"), A, LeafReport("shim", 10, tokenize_seconds=0.5))
    assert table.graduates() == []


def test_the_list_is_short_and_names_tools_only() -> None:
    table = LeafTable()
    for number in range(2 * MAX_TOOLS):
        table.add(Origin("notes", f"tool-{number}"), A, LeafReport("shim", number, None, 0, 1.0, leaf_seconds=0.5))
    found = table.graduates()
    assert len(found) == GRADUATES
    assert OTHER not in {graduate.tool for graduate in found}
    assert [graduate.tokens for graduate in found] == sorted((each.tokens for each in found), reverse=True)
