"""Shortening: verbatim, whole sentences, or an ellipsis; stable, and never within a visible character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.browse.budget import cut_with_ellipsis, fit_description, one_line, token_upper_bound
from leafgate.storage.map_files import MapFiles

CL100K = MapFiles().load("openai/cl100k_base")


def count(text: str) -> int:
    return len(CL100K.encode(text))


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("text", "room", "expected"),
    [
        ("One two. Three four.", 4, "One two. Three four."),
        ("One two. Three four.", 3, "One two."),
        ("One! Two three? Four five six.", 4, "One! Two three?"),
        ("One two three four five", 3, "One two…"),
        ("Uses v1.2 of it now. And more of it.", 5, "Uses v1.2 of it now."),
        ("See e.g. this one here. Then more words follow.", 5, "See e.g. this one here."),
        ("See e.g. this one which is long", 3, "See e.g…"),
        ("a\n\nb\tc", 3, "a b c"),
        ("", 3, ""),
    ],
)
def test_rules_in_order(text: str, room: int, expected: str) -> None:
    assert fit_description(text, room, words) == expected


@given(st.text(max_size=700), st.integers(0, 60))
def test_the_result_fits_and_is_stable(text: str, room: int) -> None:
    fitted = fit_description(text, room, count)
    assert count(fitted) <= room
    assert fit_description(text, room, count) == fitted
    assert fitted == one_line(fitted)
    if fitted != one_line(text):
        assert fitted == "" or fitted.endswith(("…", ".", "!", "?"))


@pytest.mark.parametrize("cluster", ["e\u0301", "👨‍👩‍👧‍👦", "👍🏽", "🇩🇪", "क्षि", "❤️"])
def test_no_cut_within_a_visible_character(cluster: str) -> None:
    for room in range(1, 60):
        cut = cut_with_ellipsis(cluster * 30, room, count)
        assert cut == "" or cut.removesuffix("…") == cluster * (len(cut) // len(cluster))


def test_what_is_invisible_does_not_reach_a_line() -> None:
    assert one_line("a\u202eb\u200bc\x1bd\u2028e\ud800f\U000e0041g") == "abc d e fg"
    assert one_line("می\u200cخواهم") == "می\u200cخواهم"


@given(st.text(max_size=200) | st.text("abcdefgqzj AB019.,_-'s\n\t", max_size=200))
def test_the_bound_is_never_below_the_tokens(text: str) -> None:
    assert count(text.encode("utf-8", "replace").decode()) <= token_upper_bound(text)
