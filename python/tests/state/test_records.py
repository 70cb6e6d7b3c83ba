"""Artifacts as records: the same again, told apart by everything but their owner, and damage is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.model.envelope import HANDLE_CHARS, Artifact, Origin
from leafgate.model.errors import StoreError
from leafgate.model.tool import ChoiceCard
from leafgate.state.records import (
    COMPRESS_FROM,
    MAX_CARD_BYTES,
    THREAD_FROM,
    artifact_of,
    is_handle,
    name_of,
    new_handle,
    pack,
    read_cards,
    record_of,
    unpack,
    write_cards,
)

pytestmark = pytest.mark.anyio

ONE = Artifact(b"data", "text/plain", "label", Origin("disk", "read"))


@pytest.mark.parametrize("content", [b"", b"data", b"data" * THREAD_FROM])
async def test_the_same_artifact_again(content: bytes) -> None:
    artifact = replace(ONE, content=content)
    record = record_of(artifact)
    assert artifact_of(record.about, record.packed) == artifact
    assert record.length == len(content) < record.size


async def test_identity_is_everything_and_the_digest_is_the_content() -> None:
    others = [
        replace(ONE, content=b"more"),
        replace(ONE, media_type="text/html"),
        replace(ONE, label=""),
        replace(ONE, origin=None),
        replace(ONE, origin=Origin("disk", "write")),
        replace(ONE, is_text=False),
        replace(ONE, is_clean=False),
    ]
    records = [record_of(artifact) for artifact in (ONE, *others)]
    assert len({record.identity for record in records}) == len(records)
    assert len({record.digest for record in records}) == 2
    assert record_of(replace(ONE)).identity == records[0].identity


def test_what_a_handle_looks_like() -> None:
    assert is_handle(new_handle())
    for wrong in (
        "",
        "g" * HANDLE_CHARS,
        "a" * (HANDLE_CHARS + 1),
        "A" * HANDLE_CHARS,
        new_handle() + "\n",
        "٣" * HANDLE_CHARS,
    ):
        assert not is_handle(wrong)


@pytest.mark.parametrize(
    "about",
    ["", "no json", "{}", "[]", "5", '["a","b",null,true]', '["a","b",["x"],true,4]', '["a","b",null,true,"x"]'],
)
async def test_damage_is_told(about: str) -> None:
    with pytest.raises(StoreError):
        artifact_of(about, record_of(ONE).packed)


def test_names_are_of_one_length_whatever_an_owner_is_called() -> None:
    assert {len(name_of(owner)) for owner in ("", "ann", "\ud800", "x" * 10_000)} == {40}
    assert name_of("ann") != name_of("Ann")


@given(st.binary(max_size=3_000) | st.binary(max_size=20).map(lambda part: part * 500))
def test_the_same_bytes_again(data: bytes) -> None:
    assert unpack(pack(data), len(data)) == data


def test_only_what_is_large_and_shrinks_is_compressed() -> None:
    assert len(pack(b"x" * COMPRESS_FROM)) < 100
    assert len(pack(b"x" * (COMPRESS_FROM - 1))) == COMPRESS_FROM


@pytest.mark.parametrize(
    ("packed", "most"),
    [
        (b"", 10),
        (b"\x02abc", 10),
        (b"\x00abc", 2),
        (b"\x01abc", 10),
        (pack(b"x" * 5_000)[:-3], 5_000),
        (pack(b"x" * 5_000), 4_999),
        (pack(b"x" * 5_000) + b"more", 5_000),
    ],
)
def test_damage_is_told_packed(packed: bytes, most: int) -> None:
    with pytest.raises(StoreError):
        unpack(packed, most)


def test_the_same_cards_again_in_their_order() -> None:
    seen = {"b": ChoiceCard("b", "b", "\ud800 odd", ("x",)), "a": None}
    written = write_cards(seen)
    assert written is not None
    assert [*read_cards(written).items()] == [*seen.items()]


def test_too_many_are_not_kept() -> None:
    assert write_cards({"a": ChoiceCard("a", "a", "x" * MAX_CARD_BYTES)}) is None


@pytest.mark.parametrize(
    "told", [b"", b"[]", b"5", b'{"a": 5}', b'{"a": {}}', b'{"a": {"tags": 5}}', b'{"a": {"x": 1, "tags": []}}']
)
def test_damage_is_told_stored_cards(told: bytes) -> None:
    with pytest.raises(StoreError):
        read_cards(pack(told))
