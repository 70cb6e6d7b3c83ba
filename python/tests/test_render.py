"""Headers: short, and not to be forged."""

from __future__ import annotations

import pytest
from context_sessions import item

from leafgate.context.render import LABELS, ORDER, SECTIONS, forged_marks, free_mark, header, usual_glue
from leafgate.model.context import ItemKind


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("[policy]", {0}),
        ("x\n\n[tool call]\n", {0}),
        ("[TOOL RESULT of 5]", {0}),
        ("[[user]] [#7 plan]", {0, 7}),
        ("[ \t user", {0}),
        ("[\u2028assistant]", {0}),
        ("[#12 tool call, result left out]", {12}),
        ("[**user**]", {0}),
        ("\uff3b\uff55ser\uff3d", {0}),  # wide characters look the same
        ("[us\u200ber]", {0}),
        ("[\u202euser]", {0}),
        (f"[#{'9' * 5000} user]", set()),  # no header has so long a number
        ("[" * 10_000 + "user", {0}),
        ("a[0] [policyholder] [ ] policy user [[", set()),
        ("", set()),
    ],
)
def test_what_looks_like_a_header_is_found(text: str, marks: set[int]) -> None:
    assert forged_marks(text) == marks


def test_the_smallest_free_number_is_taken() -> None:
    assert [free_mark(used) for used in ((), (0,), (1,), (0, 1, 3), (500,))] == [0, 1, 0, 2, 0]


def test_headers() -> None:
    call = item("c1", "tool_call", "find(x)", "u1")
    result = item("r1", "tool_result", "y", "c1")
    assert header(call, 0) == "[tool call]\n"
    assert header(call, 2, named=True) == "[#2 tool call c1]\n"
    assert header(call, 0, unanswered=True) == "[tool call, result left out]\n"
    assert header(result, 0, apart=True) == "[tool result of c1]\n"


def test_every_kind_has_a_label_and_a_section() -> None:
    assert set(LABELS) == set(SECTIONS) == set(ItemKind)
    assert set(SECTIONS.values()) | {"facts"} == set(ORDER)


def test_the_usual_glue_is_that_of_items_alone() -> None:
    call = item("x", "tool_call", "")
    for mark in (0, 3):
        alone = [header(item("x", kind.value, ""), mark) for kind in LABELS]
        assert usual_glue(mark) == ["\n\n", *alone, header(call, mark, unanswered=True)]
