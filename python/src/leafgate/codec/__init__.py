"""Leaves on tool results: write, read, verify."""

from leafgate.codec.read_leaf import (
    CodecMetaEntry,
    find_codec_meta,
    has_codec_meta,
    read_codec_meta,
    read_codec_meta_from_block,
    strip_codec_meta,
    take_ids,
)
from leafgate.codec.verify_leaf import BlockVerdict, verify_codec_meta
from leafgate.codec.write_leaf import build_meta_block, wrap_tool_call
from leafgate.model.errors import CodecMetaMapMismatchError
from leafgate.model.leaf import CODEC_META_KEY

__all__ = [
    "CODEC_META_KEY",
    "BlockVerdict",
    "CodecMetaEntry",
    "CodecMetaMapMismatchError",
    "build_meta_block",
    "find_codec_meta",
    "has_codec_meta",
    "read_codec_meta",
    "read_codec_meta_from_block",
    "strip_codec_meta",
    "take_ids",
    "verify_codec_meta",
    "wrap_tool_call",
]
