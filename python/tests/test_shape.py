"""What a text is taken for."""

from __future__ import annotations

import pytest
from hostile_texts import CSV, JSON_LINES, LOG, MARKDOWN, NESTED, PROSE, RECORDS, texts
from hypothesis import given, settings

from leafgate.firewall.shape import shape_of

PYTHON_LOG = "\n".join(f"2024-01-01 00:00:{n % 60:02d},{n % 1000:03d} INFO root: did {n} things" for n in range(300))


@pytest.mark.parametrize(
    ("text", "kind", "media_type"),
    [
        (NESTED, "json", "application/json"),
        ("\ufeff" + NESTED, "json", "application/json"),
        (RECORDS, "table", "application/json"),
        (JSON_LINES, "table", "application/x-ndjson"),
        (CSV, "table", "text/csv"),
        (CSV.replace(",", ";"), "table", "text/csv"),
        ("a\tb\n1\t2\n3\t4\n5\t6\n", "table", "text/tab-separated-values"),
        (MARKDOWN, "table", "text/markdown"),
        (LOG, "log", "text/plain"),
        (PYTHON_LOG, "log", "text/plain"),
        (PROSE, "prose", "text/plain"),
        ("x" * 10_000, "prose", "text/plain"),
        ("def f(a, b):\n    return a, b\n\n" * 200, "lines", "text/plain"),
        ("Hello, world\nGood, day\nSo, long\n" * 100, "lines", "text/plain"),
        ("a, b, c\nd, e, f\ng, h, i\n" * 100, "lines", "text/plain"),
        ('"just a string"', "lines", "text/plain"),
        ("12345", "lines", "text/plain"),
        ("", "lines", "text/plain"),
        ("[not json]\n[really not]", "lines", "text/plain"),
        ("[" * 5000 + "]" * 5000, "prose", "text/plain"),
    ],
)
def test_kinds(text: str, kind: str, media_type: str) -> None:
    found = shape_of(text)
    assert (found.kind, found.media_type) == (kind, media_type)


@settings(max_examples=200, deadline=None)
@given(texts)
def test_every_text_has_a_shape_and_always_the_same(text: str) -> None:
    assert repr(shape_of(text)) == repr(shape_of(text))
