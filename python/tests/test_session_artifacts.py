"""Artifacts of sessions: the same handle for the same content, bounded, each owner's own."""

from __future__ import annotations

import pytest

from leafgate.embed.session_artifacts import SessionArtifacts
from leafgate.model.envelope import HANDLE_CHARS, Artifact


def artifact(content: bytes, label: str = "find", media_type: str = "text/plain") -> Artifact:
    return Artifact(content, media_type, label)


def test_handles_are_made_of_the_content() -> None:
    one, other = SessionArtifacts(), SessionArtifacts()
    handle = one.keep("me", artifact(b"x"))
    assert handle is not None
    assert len(handle) == HANDLE_CHARS
    assert handle == one.keep("me", artifact(b"x")) == other.keep("you", artifact(b"x"))
    different = [artifact(b"y"), artifact(b"x", "read"), artifact(b"x", media_type="text/csv")]
    assert len({handle, *(one.keep("me", each) for each in different)}) == 4


def test_a_handle_works_for_its_owner_only() -> None:
    store = SessionArtifacts()
    handle = store.keep("me", artifact(b"x"))
    assert handle is not None
    assert store.find("me", handle) == artifact(b"x")
    assert store.find("you", handle) is None
    assert store.find("me", "0" * HANDLE_CHARS) is None


def test_the_least_recently_used_goes_first() -> None:
    store = SessionArtifacts(capacity=10)
    first, second = store.keep("me", artifact(b"aaaa")), store.keep("me", artifact(b"bbbb"))
    assert first is not None
    assert second is not None
    assert store.find("me", first) is not None
    assert store.keep("me", artifact(b"cccc")) is not None
    assert store.find("me", second) is None
    assert store.find("me", first) is not None
    assert store.keep("me", artifact(b"x" * 11)) is None
    assert store.find("me", first) is not None


@pytest.mark.anyio
async def test_it_fills_the_port_of_the_gateway() -> None:
    store = SessionArtifacts()
    handle = await store.put("me", artifact(b"x"))
    assert handle is not None
    assert await store.get("me", handle) == artifact(b"x")
