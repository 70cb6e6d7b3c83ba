import copy

from leafgate.codec.annotate import annotate
from leafgate.codec.write_leaf import wrap_tool_call
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.tokens.encoder import Encoder

BLOCK = {"type": "text", "text": "the cat", "annotations": {"priority": 1}}


def leafed(toy: Encoder, text: str = "the cat") -> dict:
    return wrap_tool_call({"content": [{**BLOCK, "text": text}]}, toy)["content"][0]


def test_a_right_leaf_passes_as_the_very_same_block(toy: Encoder) -> None:
    block = leafed(toy)
    made = annotate(block, toy, "canonical", "both")
    assert made.block is block
    assert (made.outcome, made.tokens, made.rejected) == ("leaf", 2, None)


def test_plain_text_is_tokenized(toy: Encoder) -> None:
    made = annotate(BLOCK, toy, "canonical", "both")
    assert made.outcome == "shim"
    assert made.block["_meta"][CODEC_META_KEY] == {"map_id": toy.map.digest, "ids": [261, 264]}
    assert made.block["annotations"] == {"priority": 1}


def test_a_lie_is_dropped_and_re_made_with_its_reason(toy: Encoder) -> None:
    block = copy.deepcopy(leafed(toy))
    block["_meta"][CODEC_META_KEY]["ids"][0] = 97
    made = annotate(block, toy, "canonical", "both")
    assert (made.outcome, made.rejected) == ("shim", "text-mismatch")
    assert made.block["_meta"][CODEC_META_KEY]["ids"] == [261, 264]


def test_an_odd_split_is_believed_only_at_the_lower_level(toy: Encoder) -> None:
    block = copy.deepcopy(leafed(toy))
    block["_meta"][CODEC_META_KEY]["ids"] = [256, 101, 264]
    assert annotate(block, toy, "decode", "both").outcome == "leaf"
    assert annotate(block, toy, "canonical", "both").rejected == "non-canonical"


def test_ids_of_a_changed_text_are_gone(toy: Encoder) -> None:
    secret = leafed(toy, "the key is hunter2")
    cleaned = {**secret, "text": "the key is [redacted]"}
    made = annotate(cleaned, toy, "decode", "both")
    ids = made.block["_meta"][CODEC_META_KEY]["ids"]
    assert toy.decode_bytes(ids) == b"the key is [redacted]"


def test_a_leaf_of_another_map_is_none_here(toy: Encoder, qwen: Encoder) -> None:
    made = annotate(leafed(qwen), toy, "canonical", "both")
    assert (made.outcome, made.rejected) == ("shim", "foreign-map")


def test_forms(toy: Encoder) -> None:
    assert annotate(leafed(toy), toy, "canonical", "ids").block["text"] == ""
    assert "_meta" not in annotate(leafed(toy), toy, "canonical", "text").block


def test_text_without_tokenization_passes_without_ids(toy: Encoder) -> None:
    for text in ("", "\ud800"):
        made = annotate({"type": "text", "text": text}, toy, "canonical", "ids")
        assert (made.outcome, made.block["text"]) == ("skipped", text)
        assert "_meta" not in made.block
