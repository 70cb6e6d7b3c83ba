"""Lone surrogates in the bytes of JSON become U+FFFD, wherever a chunk ends; everything else stays as it is."""

from __future__ import annotations

import json
import random

import pytest

from leafgate.clean.invisibles import SurrogateFilter, replace_surrogates

CASES = [
    (rb'"ab\ud800cd"', '"ab\ufffdcd"'),
    (rb'"\uDC00\uD83D"', '"\ufffd\ufffd"'),
    (rb'"\ud83d\ude00 is whole"', '"\U0001f600 is whole"'),
    (rb'"\ud83d\ud83d\ude00"', '"\ufffd\U0001f600"'),
    (rb'"\\ud800 is a backslash and letters"', '"\\\\ud800 is a backslash and letters"'),
    (rb'"\\\ud800"', '"\\\\\ufffd"'),
    (rb'{"na\udfffme": "\u0041\n\""}', '{"na\ufffdme": "A\\n\\""}'),
    (b'"\\ud800', None),
    (b"\\", None),
    (b"\\u", None),
]


@pytest.mark.parametrize(("raw", "expected"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 100])
def test_the_end_of_a_chunk_does_not_matter(raw: bytes, expected: str | None, size: int) -> None:
    surrogates = SurrogateFilter()
    chunks = [surrogates.feed(raw[at : at + size]) for at in range(0, len(raw), size)]
    result = b"".join([*chunks, surrogates.flush()])
    assert result == replace_surrogates(raw)
    if expected is not None:
        assert json.loads(result) == json.loads(expected)


def test_random_mixtures_in_random_chunks() -> None:
    rng = random.Random(7)
    parts = [rb"\ud83d", rb"\ude00", rb"\\", rb"\"", rb"\n", b"u", b"d83d", b"x", rb"\u0041", "ü".encode()]
    for _ in range(3_000):
        raw = b'"' + b"".join(rng.choices(parts, k=rng.randrange(12))) + b'"'
        surrogates, chunks, at = SurrogateFilter(), [], 0
        while at < len(raw):
            step = rng.randrange(1, 9)
            chunks.append(surrogates.feed(raw[at : at + step]))
            at += step
        result = b"".join([*chunks, surrogates.flush()])
        expected = json.loads(raw).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert json.loads(result) == expected


def test_an_event_is_not_held_back() -> None:
    event = b'data: {"text": "\\ud800\\\\"}\n\n'
    assert SurrogateFilter().feed(event) == b'data: {"text": "\\ufffd\\\\"}\n\n'
