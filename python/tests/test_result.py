"""A tool's result in the client's hands: ids are handed out as found without an encoder, and checked with one."""

from __future__ import annotations

from typing import Any

import pytest

from leafgate.client.errors import IdsNotBelieved
from leafgate.client.result import read_result
from leafgate.codec.write_leaf import wrap_tool_call
from leafgate.model.errors import CodecMetaMapMismatchError
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.tokens.encoder import Encoder

OTHER = "sha256:" + "0" * 64


def leaf(map_id: str, ids: Any, text: str = "") -> dict[str, Any]:
    return {"type": "text", "text": text, "_meta": {CODEC_META_KEY: {"map_id": map_id, "ids": ids}}}


def test_mixed_blocks_keep_their_places(toy: Encoder) -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    plain = {"type": "text", "text": "plain"}
    content = [image, leaf(toy.map.digest, [261, 264]), plain]
    raw = {"content": content, "isError": True, "_meta": {"x": 1}}
    result = read_result(raw, None, toy)
    assert [block.text for block in result.blocks] == ["the cat", "plain"]
    assert result.ids == [[261, 264], None]
    assert result.text == "the cat\nplain"
    assert result.content == tuple(content)
    assert result.is_error
    assert result.meta == {"x": 1}
    assert result.structured is None


@pytest.mark.parametrize("raw", [{}, {"content": None}, {"content": "x"}, {"content": [1, None]}, {"_meta": 5}])
def test_results_of_an_odd_shape(raw: dict[str, Any]) -> None:
    result = read_result(raw, None, None)
    assert (result.text, result.ids, result.is_error, dict(result.meta)) == ("", [], False, {})


@pytest.mark.parametrize("text", ["the cat", "é\U0001f600\n", "<|im_end|>"])
def test_text_and_ids_that_belong_together(toy: Encoder, text: str) -> None:
    raw = wrap_tool_call({"content": [{"type": "text", "text": text}]}, toy)
    assert read_result(raw, toy.map.digest, toy).text == text
    without_text = {"content": [{**raw["content"][0], "text": ""}]}
    assert read_result(without_text, toy.map.digest, toy).text == text


@pytest.mark.parametrize(
    ("ids", "text", "reason"),
    [
        (["a"], "", "not-integer"),
        ([1.5], "", "not-integer"),
        ([None], "the cat", "not-integer"),
        ([-5], "", "negative"),
        ([2**40], "", "too-large"),
        ([0xFF], "", "bad-text"),
        ([], "", "empty-text"),
        ([261] * 50, "the cat", "too-many-ids"),
        ([261, 261], "the cat", "text-mismatch"),
        ([116, 104, 101], "the", "non-canonical"),
    ],
)
def test_ids_that_cannot_be_believed(toy: Encoder, ids: list[Any], text: str, reason: str) -> None:
    raw = {"content": [{"type": "text", "text": "fine"}, leaf(toy.map.digest, ids, text)]}
    with pytest.raises(IdsNotBelieved) as caught:
        read_result(raw, None, toy)
    assert (caught.value.text_index, caught.value.reason) == (1, reason)
    assert read_result(raw, None, None).ids == [None, ids]


def test_ids_of_another_map(toy: Encoder) -> None:
    raw = {"content": [leaf(OTHER, [1])]}
    with pytest.raises(CodecMetaMapMismatchError):
        read_result(raw, toy.map.digest, None)
    with pytest.raises(IdsNotBelieved):
        read_result({"content": [leaf(OTHER, [261], "the")]}, None, toy)
