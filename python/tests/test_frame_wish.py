"""What a request wants, from its headers and its query; and what the JSON side is shown of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.types import Scope

from leafgate.codec.compression import Encoding
from leafgate.codec.frames import CONTENT_TYPE
from leafgate.server.frame_wish import Refusal, body_encoding, prefers_frames, read_wish, scope_for_json


def scope(query: str = "", *headers: tuple[str, str], method: str = "POST") -> Scope:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return {"type": "http", "path": "/mcp", "method": method, "query_string": query.encode(), "headers": raw}


@pytest.mark.parametrize(
    ("accept", "frames"),
    [
        (CONTENT_TYPE, True),
        (f"application/json;q=0.5,{CONTENT_TYPE};q=0.5", True),
        (f" {CONTENT_TYPE} ; v=1 ; q=0.1", True),
        ("", False),
        ("*/*", False),
        ("application/*", False),
        (f"{CONTENT_TYPE};q=0", False),
        (f"{CONTENT_TYPE};q=0.1,application/json", False),
        (f"{CONTENT_TYPE};q=x", False),
        (f"{CONTENT_TYPE}+json", False),
    ],
)
def test_accept(accept: str, frames: bool) -> None:
    assert prefers_frames(accept) is frames


@given(st.text())
def test_any_accept_is_read(accept: str) -> None:
    prefers_frames(accept)


def test_the_query_beats_accept() -> None:
    binary = ("accept", CONTENT_TYPE)
    assert read_wish(scope("stream_format=json", binary)).wants_json
    assert not read_wish(scope("stream_format=json", binary)).wants_frames
    assert read_wish(scope("stream_format=msgpack")).wants_frames
    assert read_wish(scope("stream_format=json&stream_format=msgpack")).wants_frames


def test_headers_may_be_there_twice() -> None:
    wish = read_wish(
        scope(
            "",
            ("accept", "text/html"),
            ("accept", CONTENT_TYPE),
            ("accept-encoding", "br"),
            ("accept-encoding", "gzip"),
        )
    )
    assert wish.wants_frames
    assert wish.encoding == "gzip"


@pytest.mark.parametrize(
    "query", ["stream_format=xml", "stream_format=MSGPACK", "stream_format=", "stream_format=msgpack&stream_format=x"]
)
def test_a_format_that_is_not_ours(query: str) -> None:
    with pytest.raises(Refusal) as caught:
        read_wish(scope(query))
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("named", "encoding"), [("gzip", "gzip"), ("ZSTD", "zstd"), (" gzip ", "gzip"), ("identity", None), ("", None)]
)
def test_encodings_of_a_body(named: str, encoding: Encoding | None) -> None:
    assert body_encoding(Headers({"content-encoding": named})) == encoding


@pytest.mark.parametrize(
    "named", ["br", "deflate", "gzip, gzip", "gzip,zstd", "identity, gzip", "x-gzip", "gzip;q=1", "*"]
)
def test_encodings_that_cannot_be_undone(named: str) -> None:
    with pytest.raises(Refusal) as caught:
        body_encoding(Headers({"content-encoding": named}))
    assert caught.value.status == 415


def test_the_json_side_sees_a_json_request() -> None:
    asked = scope(
        "a=b",
        ("accept", CONTENT_TYPE),
        ("accept-encoding", "gzip"),
        ("content-type", f"{CONTENT_TYPE}; charset=x"),
        ("content-encoding", "zstd"),
        ("content-length", "7"),
        ("transfer-encoding", "chunked"),
        ("x-codec-map", "sha256:0"),
        ("authorization", "Bearer x"),
    )
    before = list(asked["headers"])
    wish = read_wish(asked)
    assert wish.sends_packed
    inner = scope_for_json(asked, wish, b"{}")
    assert dict(inner["headers"]) == {
        b"accept": b"application/json, text/event-stream",
        b"content-type": b"application/json",
        b"content-length": b"2",
        b"x-codec-map": b"sha256:0",
        b"authorization": b"Bearer x",
    }
    assert asked["headers"] == before


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_only_a_post_has_a_body(method: str) -> None:
    assert not read_wish(scope("", ("content-type", CONTENT_TYPE), method=method)).sends_packed


def test_a_json_body_keeps_its_headers() -> None:
    kept = [("content-type", "application/json"), ("content-length", "7"), ("content-encoding", "gzip")]
    asked = scope("", ("accept", CONTENT_TYPE), *kept)
    inner = scope_for_json(asked, read_wish(asked), None)
    assert set(inner["headers"]) >= {(name.encode(), value.encode()) for name, value in kept}
