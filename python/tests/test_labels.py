"""Names as labels: bounded, printable, and the same each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leafgate.telemetry.labels import LONGEST, label


def test_an_ordinary_name_stays_as_it_is() -> None:
    assert label("get_current_time") == "get_current_time"
    assert label("Straße läuft") == "Straße läuft"
    assert label("n" * LONGEST) == "n" * LONGEST


def test_what_cannot_be_shown_is_marked() -> None:
    assert label('a\nb"\\') == 'a\N{REPLACEMENT CHARACTER}b"\\'
    assert label("\ud800\u202e\x00") == "\N{REPLACEMENT CHARACTER}" * 3


def test_a_long_name_is_cut_and_says_so() -> None:
    assert label("n" * (LONGEST + 1)) == "n" * (LONGEST - 1) + "…"


@given(st.text(st.characters(), max_size=300))
def test_every_name_can_be_written_and_naming_twice_changes_nothing(name: str) -> None:
    shown = label(name)
    assert len(shown) <= LONGEST
    assert "\n" not in shown
    assert label(shown) == shown
    shown.encode()
