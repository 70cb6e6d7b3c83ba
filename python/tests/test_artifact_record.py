"""Artifacts as records: the same again, told apart by everything but their owner, and damage is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leafgate.model.call import Origin
from leafgate.model.envelope import HANDLE_CHARS, Artifact
from leafgate.model.errors import StoreError
from leafgate.storage.artifact_record import THREAD_FROM, artifact_of, is_handle, new_handle, record_of

pytestmark = pytest.mark.anyio

ONE = Artifact(b"data", "text/plain", "label", Origin("disk", "read"))


@pytest.mark.parametrize("content", [b"", b"data", b"data" * THREAD_FROM])
async def test_the_same_artifact_again(content: bytes) -> None:
    artifact = replace(ONE, content=content)
    record = await record_of(artifact)
    assert await artifact_of(record.about, record.packed) == artifact
    assert record.length == len(content) < record.size


async def test_identity_is_everything_and_the_digest_is_the_content() -> None:
    others = [
        replace(ONE, content=b"more"),
        replace(ONE, media_type="text/html"),
        replace(ONE, label=""),
        replace(ONE, origin=None),
        replace(ONE, origin=Origin("disk", "write")),
        replace(ONE, is_text=False),
    ]
    records = [await record_of(artifact) for artifact in (ONE, *others)]
    assert len({record.identity for record in records}) == len(records)
    assert len({record.digest for record in records}) == 2
    assert (await record_of(replace(ONE))).identity == records[0].identity


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
        await artifact_of(about, (await record_of(ONE)).packed)
