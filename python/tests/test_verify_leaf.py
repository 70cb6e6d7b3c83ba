"""Judging the leaves of a result, block by block."""

from __future__ import annotations

from leafgate.codec.verify_leaf import verify_codec_meta
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.storage.map_files import MapFiles

TOY = MapFiles().load("toy")


def text(content: str, ids: object, map_id: str = TOY.map.digest) -> dict[str, object]:
    return {"type": "text", "text": content, "_meta": {CODEC_META_KEY: {"map_id": map_id, "ids": ids}}}


def test_every_block_by_itself() -> None:
    result = {
        "content": [
            text("the cat", [261, 264]),
            {"type": "text", "text": "plain"},
            {"type": "image", "data": ""},
            text("the dog", [261, 264]),
            text("the cat", [261, 264], "sha256:" + "0" * 64),
            text("a", "not ids"),
            {"type": "text", "text": "a"},
            {"type": "_codec_meta", "map_id": TOY.map.digest, "ids": [97]},
        ]
    }
    found = [(v.text_index, v.verdict, v.reason) for v in verify_codec_meta(result, TOY)]
    assert found == [
        (0, "accept", None),
        (1, "absent", None),
        (3, "reject", "text-mismatch"),
        (4, "reject", "foreign-map"),
        (5, "absent", None),
        (6, "accept", None),
    ]


def test_levels() -> None:
    result = {"content": [text("the", [116, 104, 101])]}
    assert [v.verdict for v in verify_codec_meta(result, TOY, level="decode")] == ["accept"]
    assert [v.reason for v in verify_codec_meta(result, TOY, level="canonical")] == ["non-canonical"]


def test_a_result_without_blocks() -> None:
    assert verify_codec_meta({}, TOY) == []
