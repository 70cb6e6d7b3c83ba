"""Joining known ids: always what tokenizing the whole gives, and little is tokenized for it."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from conftest import MAPS
from context_sessions import NASTY, item, prose, with_leaf
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.context.cuts import NO_CUTS, make_cutter
from leafgate.context.item_tokens import MOST_SEAMS, ItemTokens, Joiner, Part
from leafgate.model.context import ContextItem, LeafSpan, Tokenized
from leafgate.model.leaf import LeafPayload, Level
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


CAT = item("a", "tool_result", "the cat sat")
LEVELS: tuple[Level, ...] = ("decode", "canonical")


def leafed(text: str, payload: LeafPayload) -> ContextItem:
    return item("a", "tool_result", text, leaves=(LeafSpan(0, len(text), payload),))


def test_nothing_is_tokenized_before_it_is_asked_for_and_nothing_twice(toy: Encoder) -> None:
    tokens = ItemTokens(toy, "canonical")
    assert tokens.count_if_tokenized(CAT) is None
    known = tokens.ids_of(CAT)
    assert list(known.ids) == toy.encode(CAT.text)
    assert tokens.ids_of(CAT) is known
    assert tokens.work == Tokenized(len(known.ids), 0)
    assert tokens.count_if_tokenized(CAT) == len(known.ids)


def test_a_leaf_is_used_as_it_is(toy: Encoder) -> None:
    tokens = ItemTokens(toy, "decode")
    assert list(tokens.ids_of(with_leaf(CAT, toy)).ids) == toy.encode(CAT.text)
    assert tokens.work == Tokenized(0, 0)


def test_a_leaf_of_a_stranger_is_made_again_to_judge_it(toy: Encoder) -> None:
    tokens = ItemTokens(toy, "canonical")
    ids = tokens.ids_of(with_leaf(CAT, toy)).ids
    assert tokens.work == Tokenized(0, len(ids))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("ids", [[], [0], [10**9], [-1], [True], ["1"], [1.5], None])
def test_ids_of_another_text_are_not_believed(toy: Encoder, level: Level, ids: list[object] | None) -> None:
    wrong = list(toy.encode("the dog sat")) if ids is None else ids
    tokens = ItemTokens(toy, level)
    assert list(tokens.ids_of(leafed(CAT.text, LeafPayload(toy.map.digest, wrong))).ids) == toy.encode(CAT.text)
    assert tokens.work.new > 0


def test_ids_that_spell_the_text_otherwise_are_not_believed(toy: Encoder) -> None:
    spelled = [toy.encode(char)[0] for char in "the cat"]
    assert spelled != toy.encode("the cat")
    found = ItemTokens(toy, "canonical").ids_of(leafed("the cat", LeafPayload(toy.map.digest, spelled)))
    assert list(found.ids) == toy.encode("the cat")


def test_ids_of_another_map_are_not_used(toy: Encoder, qwen: Encoder) -> None:
    assert list(ItemTokens(toy, "canonical").ids_of(with_leaf(CAT, qwen)).ids) == toy.encode(CAT.text)


def test_leaves_of_parts_are_joined(qwen: Encoder) -> None:
    one = "It is 14:30 in Lisbon, and the sun shines on the river."
    other = "It is 15:30 in Paris, and it rains on the tower."
    text = f"{one}\n{other}"
    first = LeafSpan(0, len(one), LeafPayload(qwen.map.digest, qwen.encode(one)))
    second = LeafSpan(len(one) + 1, len(text), LeafPayload(qwen.map.digest, qwen.encode(other)))
    tokens = ItemTokens(qwen, "decode")
    assert list(tokens.ids_of(item("a", "tool_result", text, leaves=(first, second))).ids) == qwen.encode(text)
    assert 0 < tokens.work.new < 8
    wrong = (first, LeafSpan(3, len(text), second.payload), LeafSpan(-5, 900, second.payload))
    assert list(tokens.ids_of(item("b", "tool_result", text, leaves=wrong)).ids) == qwen.encode(text)


def test_a_text_without_tokenization_says_so(toy: Encoder) -> None:
    tokens = ItemTokens(toy, "canonical")
    known = tokens.ids_of(item("a", "user_turn", "\ud800"))
    assert known.failure
    assert list(known.ids) == []
    assert tokens.count_if_tokenized(item("a", "user_turn", "\ud800")) is None


def test_what_was_replaced_is_forgotten(toy: Encoder) -> None:
    tokens = ItemTokens(toy, "canonical")
    tokens.ids_of(CAT)
    tokens.forget(CAT)
    assert list(tokens.ids_of(item("a", "tool_result", "another")).ids) == toy.encode("another")


@pytest.mark.parametrize("text", ["word " * 5000, "x" * 100_000, "1 2\n" * 9000, "é" * 90_000])
def test_a_long_text_is_known_to_exceed_without_tokenizing_it(qwen: Encoder, text: str) -> None:
    tokens, long = ItemTokens(qwen, "canonical"), item("a", "doc_snippet", text)
    count = len(qwen.encode(text))
    for room in (1, 10, 100, count - 1, count, count + 1, 10 * count):
        assert not (tokens.surely_exceeds(long, room) and count <= room)
    assert tokens.surely_exceeds(long, 10)
    assert tokens.count_if_tokenized(long) is None


def test_a_beginning_is_tokenized_once(qwen: Encoder) -> None:
    tokens, long = ItemTokens(qwen, "canonical"), item("a", "doc_snippet", "word " * 500)
    assert tokens.surely_exceeds(long, 100)
    work = tokens.work
    assert 100 < work.new < 400
    assert tokens.surely_exceeds(long, 90)
    assert tokens.work == work


def test_glue_is_tokenized_once(toy: Encoder) -> None:
    tokens = ItemTokens(toy, "canonical")
    tokens.learn_glue(["[user]\n"])
    assert tokens.glue("[user]\n") == toy.encode("[user]\n")
    assert tokens.work.new == 0
    assert tokens.glue("[plan]\n") == tokens.glue("[plan]\n") == toy.encode("[plan]\n")
    assert tokens.work.new == len(toy.encode("[plan]\n"))
