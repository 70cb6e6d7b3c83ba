"""Tokens of items: nothing is tokenized before it must be, nothing twice, and no ids are believed unjudged."""

from __future__ import annotations

import pytest
from context_sessions import item, with_leaf

from leafgate.context.item_tokens import ItemTokens
from leafgate.model.context import ContextItem, LeafSpan, Tokenized
from leafgate.model.leaf import Level, Payload
from leafgate.tokens.encoder import Encoder

CAT = item("a", "tool_result", "the cat sat")
LEVELS: tuple[Level, ...] = ("decode", "canonical")


def leafed(text: str, payload: Payload) -> ContextItem:
    return item("a", "tool_result", text, leaves=(LeafSpan(0, len(text), payload),))


def test_nothing_is_tokenized_before_it_is_asked_for_and_nothing_twice(toy: Encoder) -> None:
    tokens = ItemTokens(toy, "canonical")
    assert tokens.counted(CAT) is None
    known = tokens.known(CAT)
    assert list(known.ids) == toy.encode(CAT.text)
    assert tokens.known(CAT) is known
    assert tokens.work == Tokenized(len(known.ids), 0)
    assert tokens.counted(CAT) == len(known.ids)


def test_a_leaf_is_used_as_it_is(toy: Encoder) -> None:
    tokens = ItemTokens(toy, "decode")
    assert list(tokens.known(with_leaf(CAT, toy)).ids) == toy.encode(CAT.text)
    assert tokens.work == Tokenized(0, 0)


def test_a_leaf_of_a_stranger_is_made_again_to_judge_it(toy: Encoder) -> None:
    tokens = ItemTokens(toy, "canonical")
    ids = tokens.known(with_leaf(CAT, toy)).ids
    assert tokens.work == Tokenized(0, len(ids))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("ids", [[], [0], [10**9], [-1], [True], ["1"], [1.5], None])
def test_ids_of_another_text_are_not_believed(toy: Encoder, level: Level, ids: list[object] | None) -> None:
    wrong = list(toy.encode("the dog sat")) if ids is None else ids
    tokens = ItemTokens(toy, level)
    assert list(tokens.known(leafed(CAT.text, Payload(toy.map.digest, wrong))).ids) == toy.encode(CAT.text)
    assert tokens.work.new > 0


def test_ids_that_spell_the_text_otherwise_are_not_believed(toy: Encoder) -> None:
    spelled = [toy.encode(char)[0] for char in "the cat"]
    assert spelled != toy.encode("the cat")
    found = ItemTokens(toy, "canonical").known(leafed("the cat", Payload(toy.map.digest, spelled)))
    assert list(found.ids) == toy.encode("the cat")


def test_ids_of_another_map_are_not_used(toy: Encoder, qwen: Encoder) -> None:
    assert list(ItemTokens(toy, "canonical").known(with_leaf(CAT, qwen)).ids) == toy.encode(CAT.text)


def test_leaves_of_parts_are_joined(qwen: Encoder) -> None:
    one = "It is 14:30 in Lisbon, and the sun shines on the river."
    other = "It is 15:30 in Paris, and it rains on the tower."
    text = f"{one}\n{other}"
    first = LeafSpan(0, len(one), Payload(qwen.map.digest, qwen.encode(one)))
    second = LeafSpan(len(one) + 1, len(text), Payload(qwen.map.digest, qwen.encode(other)))
    tokens = ItemTokens(qwen, "decode")
    assert list(tokens.known(item("a", "tool_result", text, leaves=(first, second))).ids) == qwen.encode(text)
    assert 0 < tokens.work.new < 8
    wrong = (first, LeafSpan(3, len(text), second.payload), LeafSpan(-5, 900, second.payload))
    assert list(tokens.known(item("b", "tool_result", text, leaves=wrong)).ids) == qwen.encode(text)


def test_a_text_without_tokenization_says_so(toy: Encoder) -> None:
    tokens = ItemTokens(toy, "canonical")
    known = tokens.known(item("a", "user_turn", "\ud800"))
    assert known.failure
    assert list(known.ids) == []
    assert tokens.counted(item("a", "user_turn", "\ud800")) is None


def test_what_was_replaced_is_forgotten(toy: Encoder) -> None:
    tokens = ItemTokens(toy, "canonical")
    tokens.known(CAT)
    tokens.forget(CAT)
    assert list(tokens.known(item("a", "tool_result", "another")).ids) == toy.encode("another")


@pytest.mark.parametrize("text", ["word " * 5000, "x" * 100_000, "1 2\n" * 9000, "é" * 90_000])
def test_a_long_text_is_known_to_exceed_without_tokenizing_it(qwen: Encoder, text: str) -> None:
    tokens, long = ItemTokens(qwen, "canonical"), item("a", "doc_snippet", text)
    count = len(qwen.encode(text))
    for room in (1, 10, 100, count - 1, count, count + 1, 10 * count):
        assert not (tokens.surely_exceeds(long, room) and count <= room)
    assert tokens.surely_exceeds(long, 10)
    assert tokens.counted(long) is None


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
