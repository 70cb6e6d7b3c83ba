"""Packed ids, and the table that checks many ids at once: they say the same as one id at a time."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.maps.files import MapFiles
from leafgate.model.leaf import Level
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.ids import MAX_PACKED_ID, TokenIds, make_table, read_payload
from leafgate.tokens.verify import check

ids_lists = st.lists(st.integers(0, MAX_PACKED_ID), max_size=40)


@given(ids_lists)
def test_packed_ids_are_base64_of_three_bytes_each(ids: list[int]) -> None:
    packed = base64.b64encode(b"".join(id.to_bytes(3, "little") for id in ids)).decode()
    assert TokenIds.from_list(ids).packed == packed
    found = TokenIds.unpack(packed)
    assert found is not None
    assert (found.as_list(), len(found), [*found]) == (ids, len(ids), ids)
    assert found.packed is packed  # what came in goes out


@given(st.text(max_size=12))
def test_any_other_text_is_not_packed_ids(text: str) -> None:
    found = TokenIds.unpack(text)
    is_packed = len(text) % 4 == 0 and all(char.isascii() and (char.isalnum() or char in "+/") for char in text)
    assert (found is not None) is is_packed


def test_an_id_that_needs_four_bytes_cannot_be_packed() -> None:
    assert TokenIds.from_list([1, MAX_PACKED_ID + 1]).packed is None


def test_a_payload_with_a_text_that_is_not_packed_ids_is_none() -> None:
    digest = "sha256:" + "a" * 64
    assert read_payload({"map_id": digest, "ids": "BQ=="}) is None
    payload = read_payload({"map_id": digest, "ids": "BQEACAEA"})
    assert payload is not None
    assert payload.as_json() == {"map_id": digest, "ids": [261, 264]}


@pytest.mark.parametrize("level", ["trust", "decode", "canonical"])
@given(data=st.data())
def test_arrays_get_the_verdicts_of_lists(toy: Encoder, level: Level, data: st.DataObject) -> None:
    text = data.draw(st.text("the cainr <|stop|>é", max_size=12))
    ids = toy.encode(text)
    if data.draw(st.booleans()):
        other = data.draw(st.sampled_from([0, 97, 256, 261, 264, 265, 266, 300, 301, MAX_PACKED_ID]))
        ids = [*ids[: len(ids) // 2], other, *ids[len(ids) // 2 + data.draw(st.integers(0, 1)) :]]
    assert check(toy, text, TokenIds.from_list(ids), level=level) == check(toy, text, ids, level=level)


def test_a_map_with_far_apart_ids_has_no_table_and_the_same_verdicts() -> None:
    assert make_table({0: b"a", 1 << 30: b"b"}, frozenset()) is None


def test_metaspace_maps_are_checked_too() -> None:
    toy_metaspace = MapFiles().load("toy-metaspace")
    ids = TokenIds(np.array(toy_metaspace.encode("the cat"), dtype=np.uint32))
    assert check(toy_metaspace, "the cat", ids, level="canonical").accepted
    assert check(toy_metaspace, "the cats", ids, level="decode").reason == "text-mismatch"
