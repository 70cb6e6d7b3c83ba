"""The ids of one result's texts: believed, dropped, made, counted; never of another text than the one that leaves."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from leafgate.codec.leaf import Ledger, OneLevel, read_blocks, wrap_tool_call
from leafgate.model.errors import TextError
from leafgate.model.leaf import CODEC_META_KEY, Level
from leafgate.tokens.encoder import Encoder

BLOCK = {"type": "text", "text": "the cat", "annotations": {"priority": 1}}


class Counting:
    """An encoder that tells how often it was asked."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.map = encoder.map
        self.encoded = 0

    def encode(self, text: str) -> list[int]:
        self.encoded += 1
        return self._encoder.encode(text)

    def decode_bytes(self, ids: Any) -> bytes:
        return self._encoder.decode_bytes(ids)


def ledger(encoder: Encoder, level: Level = "canonical", *heard: dict[str, Any]) -> Ledger:
    ticks = itertools.count()
    made = Ledger(encoder, OneLevel(level), lambda: float(next(ticks)))
    made.add_claims(heard)
    return made


PACKED = "BQEACAEA"  # 261, 264


def test_packed_ids_pass_as_the_same_text_and_become_a_list_only_where_one_is_wanted(toy: Encoder) -> None:
    block = copy.deepcopy(leafed(toy))
    block["_meta"][CODEC_META_KEY]["ids"] = PACKED
    raw = {"content": [block]}
    for packed, wanted in ((True, PACKED), (False, [261, 264])):
        (read,), _ = read_blocks(raw)
        known = Ledger(toy, OneLevel("canonical"), lambda: 0.0, packed=packed)
        known.add_claims([read])
        made, entry = known.annotate(read, "both")
        assert (ids_of(made), entry.report.outcome, entry.report.checked) == (wanted, "leaf", "canonical")


@pytest.mark.parametrize("block", [BLOCK, None])
def test_lists_are_packed_for_those_who_want_it(toy: Encoder, block: dict[str, Any] | None) -> None:
    block = block or leafed(toy)
    known = Ledger(toy, OneLevel("decode"), lambda: 0.0, packed=True)
    known.add_claims([block])
    assert ids_of(known.annotate(block, "both")[0]) == PACKED


def test_a_leaf_of_a_cleaned_text_is_reported_as_such(toy: Encoder) -> None:
    secret = leafed(toy, "the key is hunter2")
    known = ledger(toy, "decode", secret)
    assert known.annotate({**secret, "text": "the key is x"}, "both")[1].report.was_cleaned
    assert not known.annotate(secret, "both")[1].report.was_cleaned
    assert not known.annotate(BLOCK, "both")[1].report.was_cleaned


def test_what_a_leaf_would_have_cost_is_measured_where_the_plan_wants_it(toy: Encoder) -> None:
    class Measuring(OneLevel):
        def measures_next(self) -> bool:
            return True

    ticks = itertools.count()
    known = Ledger(toy, Measuring("canonical"), lambda: float(next(ticks)))
    report = known.annotate(BLOCK, "both")[1].report
    assert (report.tokenize_seconds, report.leaf_seconds) == (1.0, 2.0)  # one for the check, one for tokenizing in it
    assert ledger(toy).annotate(BLOCK, "both")[1].report.leaf_seconds is None


def leafed(toy: Encoder, text: str = "the cat") -> dict[str, Any]:
    block: dict[str, Any] = wrap_tool_call({"content": [{**BLOCK, "text": text}]}, toy)["content"][0]
    return block


def with_ids(block: dict[str, Any], *ids: Any) -> dict[str, Any]:
    changed = copy.deepcopy(block)
    changed["_meta"][CODEC_META_KEY]["ids"] = [*ids]
    return changed


def ids_of(block: Any) -> Any:
    return block["_meta"][CODEC_META_KEY]["ids"]


def test_a_right_leaf_passes_untouched(toy: Encoder) -> None:
    block = leafed(toy)
    made, known = ledger(toy, "canonical", block).annotate(block, "both")
    assert made == block
    assert (known.report.outcome, known.report.tokens, known.report.rejected) == ("leaf", 2, None)
    assert known.report.verify_seconds > 0
    assert known.report.tokenize_seconds == 0


def test_plain_text_is_tokenized(toy: Encoder) -> None:
    made, known = ledger(toy, "canonical", BLOCK).annotate(BLOCK, "both")
    assert known.report.outcome == "shim"
    assert known.report.tokenize_seconds > 0
    assert made["_meta"][CODEC_META_KEY] == {"map_id": toy.map.digest, "ids": [261, 264]}
    assert made["annotations"] == {"priority": 1}


def test_a_lie_is_dropped_and_re_made_with_its_reason(toy: Encoder) -> None:
    block = with_ids(leafed(toy), 97, 264)
    made, known = ledger(toy, "canonical", block).annotate(block, "both")
    assert (known.report.outcome, known.report.rejected) == ("shim", "text-mismatch")
    assert ids_of(made) == [261, 264]


def test_an_odd_split_is_believed_only_at_lower_levels(toy: Encoder) -> None:
    block = with_ids(leafed(toy), 256, 101, 264)
    assert ledger(toy, "decode", block).annotate(block, "both")[1].by_leaf
    assert ledger(toy, "trust", block).annotate(block, "both")[1].by_leaf
    assert ledger(toy, "canonical", block).annotate(block, "both")[1].rejected == "non-canonical"


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        (["261", 264], "not-integer"),
        ([261.0, 264], "not-integer"),
        ([True, 264], "not-integer"),
        ([[261], 264], "not-integer"),
        ([-1], "negative"),
        ([2**40], "too-large"),
        ([99_999], "unknown-id"),
        ([97] * 70, "too-many-ids"),
    ],
)
def test_even_a_trusted_server_gives_only_ids_of_the_map(toy: Encoder, ids: list[Any], reason: str) -> None:
    block = with_ids(leafed(toy), *ids)
    made, known = ledger(toy, "trust", block).annotate(block, "both")
    assert known.rejected == reason
    assert ids_of(made) == [261, 264]


def test_a_trusted_server_gives_no_control_ids(toy: Encoder) -> None:
    special = next(iter(toy.map.special_ids))
    block = with_ids(leafed(toy), special)
    assert ledger(toy, "trust", block).annotate(block, "both")[1].rejected == "special-id"


@pytest.mark.parametrize("level", ["canonical", "decode", "trust"])
def test_ids_of_a_changed_text_are_gone(toy: Encoder, level: Level) -> None:
    secret = leafed(toy, "the key is hunter2")
    made, known = ledger(toy, level, secret).annotate({**secret, "text": "the key is [redacted]"}, "both")
    assert toy.decode_bytes(ids_of(made)) == b"the key is [redacted]"
    assert (known.report.outcome, known.report.rejected) == ("shim", None)  # the server told no lie


@pytest.mark.parametrize("level", ["canonical", "decode", "trust"])
def test_a_leaf_does_not_move_to_another_text(toy: Encoder, level: Level) -> None:
    """One block is redacted into the text of another: it gets the ids of that text, and not those it came with."""
    secret, harmless = leafed(toy, "hunter2"), leafed(toy, "the cat")
    known = ledger(toy, level, secret, harmless)
    made, _ = known.annotate({**secret, "text": "the cat"}, "both")
    assert toy.decode_bytes(ids_of(made)) == b"the cat"


def test_a_leaf_of_another_map_is_none_here(toy: Encoder, qwen: Encoder) -> None:
    block = leafed(qwen)
    _, known = ledger(toy, "trust", block).annotate(block, "both")
    assert (known.report.outcome, known.report.rejected) == ("shim", "foreign-map")


def test_the_ids_form_leaves_the_text_out(toy: Encoder) -> None:
    block = leafed(toy)
    made, _ = ledger(toy, "canonical", block).annotate(block, "ids")
    assert (made["text"], ids_of(made)) == ("", [261, 264])


@pytest.mark.parametrize("text", ["", "\ud800"])
def test_text_without_tokenization_passes_without_ids(toy: Encoder, text: str) -> None:
    made, known = ledger(toy).annotate({"type": "text", "text": text}, "ids")
    assert (known.report.outcome, made["text"]) == ("skipped", text)
    assert "_meta" not in made


def test_counting_and_giving_ids_are_one_piece_of_work(toy: Encoder) -> None:
    counting = Counting(toy)
    known = ledger(counting)
    assert known.count("the cat") == 2
    known.annotate(BLOCK, "both")
    assert counting.encoded == 1


def test_a_believed_leaf_is_counted_without_tokenizing(toy: Encoder) -> None:
    counting = Counting(toy)
    block = leafed(toy)
    assert ledger(counting, "decode", block).count("the cat") == 2
    assert counting.encoded == 0


def test_a_text_without_tokenization_cannot_be_counted(toy: Encoder) -> None:
    with pytest.raises(TextError):
        ledger(toy).count("\ud800")


def test_each_block_is_judged_by_its_own_leaf(toy: Encoder) -> None:
    """The same text twice: a lie on one block is no reason to drop the other's right leaf, nor to believe the lie."""
    right = leafed(toy)
    wrong = with_ids(right, 97, 264)
    for blocks in ([wrong, right, BLOCK], [right, BLOCK, wrong], [BLOCK, wrong, right]):
        heard = ledger(toy, "canonical", *blocks)
        told = {id(block): heard.annotate(block, "both") for block in blocks}
        assert all(ids_of(made) == [261, 264] for made, _ in told.values())
        assert (told[id(right)][1].by_leaf, told[id(right)][1].rejected) == (True, None)
        assert (told[id(wrong)][1].by_leaf, told[id(wrong)][1].rejected) == (False, "text-mismatch")
        assert (told[id(BLOCK)][1].by_leaf, told[id(BLOCK)][1].rejected) == (False, None)


def test_the_time_for_a_text_is_told_once(toy: Encoder) -> None:
    block, lie = leafed(toy), with_ids(leafed(toy), 97, 264)
    heard = ledger(toy, "canonical", block, lie)
    spent = [heard.annotate(each, "both")[1] for each in (block, block, lie, lie, BLOCK)]
    assert [known.verify_seconds > 0 for known in spent] == [True, False, True, False, False]
    assert [known.tokenize_seconds > 0 for known in spent] == [False, False, True, False, False]
