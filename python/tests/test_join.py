"""Joining known ids: always what tokenizing the whole gives, and little is tokenized for it."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from conftest import MAPS
from context_sessions import NASTY, prose
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.context.cuts import NO_CUTS, make_cutter
from leafgate.context.join import MOST_SEAMS, Joiner, Part
from leafgate.tokens.encoder import Encoder

NAMES = ("toy", "toy-metaspace", "openai/cl100k_base", "openai/o200k_base", "qwen/qwen2")
texts = st.lists(st.sampled_from(NASTY) | st.text(max_size=5), max_size=10).map("".join)
parts = st.lists(st.tuples(texts, st.booleans()), max_size=7)


def joiner(encoder: Encoder) -> Joiner:
    return Joiner(encoder, make_cutter(encoder.map))


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=100)  # the first example loads a map
@given(given=parts)
def test_ids_are_those_of_the_whole(name: str, given: list[tuple[str, bool]]) -> None:
    encoder = MAPS.load(name)
    whole = "".join(text for text, _ in given)
    if "▁" in whole and name == "toy-metaspace":
        return
    joined = joiner(encoder).join([Part(text, encoder.encode(text) if known else None) for text, known in given])
    assert joined.ids == encoder.encode(whole)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=100)  # the first example loads a map
@given(text=texts, places=st.lists(st.integers(0, 60), max_size=6))
def test_any_text_cut_anywhere_is_put_together_again(name: str, text: str, places: list[int]) -> None:
    encoder = MAPS.load(name)
    if "▁" in text and name == "toy-metaspace":
        return
    cuts = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    pieces = [text[start:end] for start, end in pairwise(cuts)]
    joined = joiner(encoder).join([Part(piece, encoder.encode(piece)) for piece in pieces])
    assert joined.ids == encoder.encode(text)


@pytest.mark.parametrize("name", NAMES)
def test_long_runs_of_blanks_at_seams(name: str) -> None:
    encoder = MAPS.load(name)
    pieces = ["one", " " * 9000, "two" + " " * 5000, " " * 5000 + "\n", "\n" * 9000, " three"]
    joined = joiner(encoder).join([Part(piece, encoder.encode(piece)) for piece in pieces])
    assert joined.ids == encoder.encode("".join(pieces))


@pytest.mark.parametrize("name", ["openai/cl100k_base", "openai/o200k_base", "qwen/qwen2"])
def test_only_seams_are_tokenized(name: str) -> None:
    encoder, chance = MAPS.load(name), random.Random(5)
    pieces = [prose(chance, 80) for _ in range(50)]
    joined = joiner(encoder).join([Part(piece, encoder.encode(piece)) for piece in pieces])
    assert joined.ids == encoder.encode("".join(pieces))
    assert 0 < joined.new < len(joined.ids) * 0.05


def test_a_seam_is_tokenized_once(toy: Encoder) -> None:
    one = Part("the cat.", toy.encode("the cat."))
    knows = joiner(toy)
    first = knows.join([one, one, one])
    again = knows.join([one, one, one])
    assert first.ids == again.ids
    assert first.new > 0
    assert again.new == 0


def test_the_memory_of_seams_is_bounded(toy: Encoder) -> None:
    knows = joiner(toy)
    for number in range(MOST_SEAMS + 50):
        knows.join([Part(f"{number}")])
    assert len(knows._seams) == MOST_SEAMS


def test_without_cuts_everything_is_tokenized(toy: Encoder) -> None:
    given = [Part("the cat ", toy.encode("the cat ")), Part("sat.", toy.encode("sat."))]
    joined = Joiner(toy, NO_CUTS).join(given)
    assert joined.ids == toy.encode("the cat sat.")
    assert joined.new == len(joined.ids)


@pytest.mark.parametrize("ids", [[], [0], [104, 101]])
def test_ids_that_do_not_reach_a_cut_are_not_used(toy: Encoder, ids: list[int]) -> None:
    """Ids that are not this text's own: the text is tokenized, and nothing of them is kept."""
    joined = joiner(toy).join([Part(". "), Part("the cat sat on it.", ids), Part("..")])
    assert joined.ids == toy.encode(". the cat sat on it...")


def test_nothing_is_nothing(toy: Encoder) -> None:
    assert joiner(toy).join([]).ids == []
    assert joiner(toy).join([Part(""), Part("", [])]).ids == []
