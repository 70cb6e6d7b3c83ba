"""Headers: short, and not to be forged."""

from __future__ import annotations

import pytest
from context_sessions import item

from leafgate.context.render import LABELS, ORDER, SECTIONS, forged_depths, free_depth, header, usual_glue
from leafgate.model.context import ItemKind


@pytest.mark.parametrize(
    ("text", "depths"),
    [
        ("[policy]", {1}),
        ("x\n\n[tool call]\n", {1}),
        ("[TOOL RESULT of 5]", {1}),
        ("[[user]] [plan]", {1, 2}),
        ("[ \t user", {1}),
        ("[\u2028assistant]", {1}),
        ("a[0] [policyholder] [ ] policy user [[", set()),
        ("", set()),
    ],
)
def test_what_looks_like_a_header_is_found(text: str, depths: set[int]) -> None:
    assert forged_depths(text) == depths


def test_the_smallest_free_depth_is_taken() -> None:
    assert [free_depth(used) for used in ((), (1,), (2,), (1, 2, 4), (500,))] == [1, 2, 1, 3, 1]


def test_headers() -> None:
    call = item("c1", "tool_call", "find(x)", "u1")
    result = item("r1", "tool_result", "y", "c1")
    assert header(call, 1) == "[tool call]\n"
    assert header(call, 2, named=True) == "[[tool call c1]]\n"
    assert header(result, 1, apart=True) == "[tool result of c1]\n"


def test_every_kind_has_a_label_and_a_section() -> None:
    assert set(LABELS) == set(SECTIONS) == set(ItemKind)
    assert set(SECTIONS.values()) | {"facts"} == set(ORDER)


def test_the_usual_glue_is_that_of_items_alone() -> None:
    for depth in (1, 3):
        assert usual_glue(depth) == ["\n\n", *(header(item("x", kind.value, ""), depth) for kind in LABELS)]
