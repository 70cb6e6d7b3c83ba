"""Cache-stable browsing: a dialogue of browses and hydrations."""

from __future__ import annotations

from leafgate.browse.stable import BREAKPOINT_ID, StableBrowse
from leafgate.model.card import ChoiceCard


def cards(text: str, score: float = 0.5) -> list[ChoiceCard]:
    return [ChoiceCard(id=one, name=one, description="", score=score) for one in text]


def ids(page: list[ChoiceCard]) -> str:
    return "".join("|" if card.id == BREAKPOINT_ID else card.id for card in page)


def test_a_session() -> None:
    session = StableBrowse()
    page, session = session.page(cards("ca"))
    assert ids(page) == "ac"  # all new: no marker
    page, session = session.page(cards("dbca"))
    assert ids(page) == "ac|bd"
    page, session = session.page(cards("dcba"))
    assert ids(page) == "abcd"  # all seen: no marker
    page, session = session.page(cards("zx"))
    assert ids(page) == "xz"  # all new again: no marker
    page, session = session.page([])
    assert page == []


def test_the_marker_is_an_internal_card() -> None:
    _, session = StableBrowse().page(cards("a"))
    page, _ = session.page(cards("ab"))
    assert (page[1].id, page[1].kind) == ("__cache_breakpoint__", "internal")


def test_a_card_is_frozen_when_it_is_first_seen() -> None:
    _, session = StableBrowse().page(cards("a", score=0.9))
    page, session = session.page(cards("ab", score=0.1))
    assert [card.score for card in page] == [0.9, None, 0.1]
    again, _ = session.page(cards("ab", score=0.4))
    assert [bytes(card) for card in again] == [bytes(page[0]), bytes(page[2])]


def test_hydration_counts_as_seen_and_the_first_card_after_it_is_frozen() -> None:
    session = StableBrowse().hydrated("b")
    page, session = session.page(cards("ab", score=0.3))
    assert ids(page) == "b|a"
    page, _ = session.page(cards("ab", score=0.7))
    assert [card.score for card in page] == [0.3, 0.3]


def test_hydrating_what_was_seen_changes_nothing() -> None:
    _, session = StableBrowse().page(cards("a"))
    assert session.hydrated("a") is session


def test_a_state_is_a_value() -> None:
    before = StableBrowse()
    before.page(cards("ab"))
    before.hydrated("c")
    assert dict(before.seen) == {}


def test_markers_that_come_in_do_not_count() -> None:
    page, _ = StableBrowse().page([*cards("a"), ChoiceCard(id=BREAKPOINT_ID, name="", description="")])
    assert ids(page) == "a"
