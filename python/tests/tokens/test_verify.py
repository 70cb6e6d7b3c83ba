"""Judging ids: right ones are accepted, and nothing that is not the canonical list ever is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from leafgate.maps.files import MapFiles
from leafgate.model.leaf import LEVELS, REASONS, Level
from leafgate.tokens.verify import check

FILES = MapFiles()
MAPS = [entry.id for entry in FILES.list()]
TOY = FILES.load("toy")

texts = st.text(min_size=1).filter(lambda text: "▁" not in text)
words = st.lists(st.sampled_from(["the", " cat", "in", " ", "\n", "é", "1", "<|stop|>", "\x00", "\x01"]), min_size=1)
strange = st.one_of(
    st.integers(-3, 400), st.integers(2**31, 2**33), st.booleans(), st.none(), st.floats(), st.text(max_size=2)
)


@pytest.mark.parametrize("map_id", MAPS)
@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=40, deadline=None)
@given(text=texts)
def test_what_encode_gives_is_accepted(map_id: str, level: Level, text: str) -> None:
    encoder = FILES.load(map_id)
    assert check(encoder, text, encoder.encode(text), level=level, map_id=encoder.map.digest).accepted


@pytest.mark.parametrize("map_id", MAPS)
@settings(max_examples=150, deadline=None)
@given(words=words, data=st.data())
def test_a_mutation_is_accepted_only_where_it_changed_nothing(
    map_id: str, words: list[str], data: st.DataObject
) -> None:
    encoder = FILES.load(map_id)
    text = "".join(words)
    right = encoder.encode(text)
    ids: list[Any] = list(right)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(ids)))
        ids[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(strange, max_size=2))
    verdict = check(encoder, text, ids, level="canonical")
    assert verdict.accepted == (ids == right and all(type(id) is int for id in ids))
    assert verdict.accepted or verdict.reason in REASONS


@settings(max_examples=100, deadline=None)
@given(words=words, ids=st.lists(strange, max_size=6))
def test_what_is_accepted_at_decode_decodes_to_the_text(words: list[str], ids: list[Any]) -> None:
    text = "".join(words)
    if check(TOY, text, ids, level="decode").accepted:
        assert TOY.decode_bytes(ids) == text.encode()
        assert not set(ids) & TOY.map.special_ids


@given(text=texts, map_id=st.one_of(st.text(), st.integers(), st.booleans(), st.lists(st.text())))
def test_a_foreign_map_comes_first(text: str, map_id: object) -> None:
    assume(map_id is not None)
    assert check(TOY, text, ["x"], level="decode", map_id=map_id).reason == "foreign-map"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("text", "ids", "reason"),
    [
        ("", [], "empty-text"),
        ("\ud800", [97], "bad-text"),
        ("a", [97, 97], "too-many-ids"),
        ("\x01", [True], "not-integer"),
        ("\x00", [False], "not-integer"),
        ("a", [97.0], "not-integer"),
        ("a", [float("nan")], "not-integer"),
        ("a", [-1], "negative"),
        ("a", [2**32], "too-large"),
        ("a", [10**5000], "too-large"),
        ("<|stop|>", [300], "special-id"),
        ("a", [301], "unknown-id"),
        ("ab", [98, 300], "special-id"),
        ("ab", ["x", -1], "not-integer"),
        ("ab", [-1, "x"], "negative"),
    ],
)
def test_reasons(text: str, ids: list[Any], reason: str, level: Level) -> None:
    assert check(TOY, text, ids, level=level).reason == reason


@pytest.mark.parametrize("level", LEVELS)
def test_only_trust_does_not_compare_the_texts(level: Level) -> None:
    assert check(TOY, "a", [98], level=level).reason == (None if level == "trust" else "text-mismatch")


def test_levels_differ_in_odd_splits_only() -> None:
    assert check(TOY, "the", [116, 104, 101], level="decode").accepted
    assert check(TOY, "the", [116, 104, 101], level="canonical").reason == "non-canonical"


@pytest.mark.parametrize("ids", [[309, 312.0], [309.0, 312], [True, 312]])
def test_metaspace_finds_no_number_under_another_type(ids: list[Any]) -> None:
    assert check(FILES.load("toy-metaspace"), "the cat", ids, level="canonical").reason == "not-integer"


def test_metaspace_allows_one_id_more_than_bytes() -> None:
    encoder = FILES.load("toy-metaspace")
    assert check(encoder, "Ω", [257, 207, 170], level="canonical").accepted
    assert check(encoder, "Ω", [257, 207, 170, 258], level="canonical").reason == "too-many-ids"
    assert check(encoder, "▁", [257, 257], level="decode").reason == "text-mismatch"


def test_a_tuple_of_ids_is_as_good_as_a_list() -> None:
    assert check(TOY, "the cat", (261, 264), level="canonical").accepted


@pytest.mark.parametrize("level", LEVELS)
def test_long_lists_are_judged_to_their_end(level: Level) -> None:
    """They are looked at in parts: what is wrong in the last part is as wrong as in the first."""
    text = "the cat" * 70_000
    ids = TOY.encode(text)
    assert len(ids) > 2 * (1 << 16)
    assert check(TOY, text, ids, level=level).accepted
    special = next(iter(TOY.map.special_ids))
    for wrong, reason in ((True, "not-integer"), ("1", "not-integer"), (-1, "negative"), (special, "special-id")):
        assert check(TOY, text, [*ids[:-1], wrong], level=level).reason == reason
    if level != "trust":
        assert check(TOY, text, ids[:-1], level=level).reason == "text-mismatch"
    if level == "canonical":
        bytewise = [id for part in "the cat" for id in TOY.encode(part)]
        assert check(TOY, text, [*ids[: -len(TOY.encode("the cat"))], *bytewise], level=level).reason == "non-canonical"
