"""Logs and the lines in them that tell of trouble."""

from __future__ import annotations

import pytest
from hostile_texts import CSV, JSON_LINES, LOG, MARKDOWN, NESTED, PROSE, RECORDS, texts
from hypothesis import given, settings

from leafgate.digest.shapes import MAX_ALARMS, detect_shape, find_alarms, looks_like_log


@pytest.mark.parametrize(
    ("line", "is_log"),
    [
        ("2024-05-01T10:00:00Z GET /", True),
        ("[12:30:01] started", True),
        ("May  1 10:00:00 host sshd[1]: ok", True),
        ("1714550400123 event", True),
        ("level=INFO msg=hello", True),
        ("just a line", False),
    ],
)
def test_what_begins_like_a_log(line: str, is_log: bool) -> None:
    assert looks_like_log(f"{line}\n" * 20) is is_log


def test_other_texts_do_not() -> None:
    assert not looks_like_log(CSV[:8000])
    assert not looks_like_log(PROSE[:8000])


def test_alarms_have_their_numbers_and_levels() -> None:
    text = "fine\nValueError: x\nWARNING: y\n0 errorless\nTraceback (most recent call last):\npanic: z"
    found = find_alarms(text, 100)
    assert [(number, line.split(":")[0].split(" ")[0]) for number, line in found.samples] == [
        (2, "ValueError"),
        (5, "Traceback"),
        (6, "panic"),
    ]
    assert (found.errors, found.warnings, found.complete) == (3, 1, True)


def test_first_and_last_are_shown_and_the_work_is_bounded() -> None:
    found = find_alarms("error here\n" * 50_000, 100)
    assert found.errors == MAX_ALARMS
    assert not found.complete
    assert found.samples[0][0] == 1
    assert find_alarms(LOG, 100).errors == 5
    ((_, long),) = find_alarms("x" * 100_000 + " error " + "y" * 100_000, 100).samples
    assert "error" in long
    assert len(long) <= 100


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
    found = detect_shape(text)
    assert (found.kind, found.media_type) == (kind, media_type)


@settings(max_examples=200, deadline=None)
@given(texts)
def test_every_text_has_a_shape_and_always_the_same(text: str) -> None:
    assert repr(detect_shape(text)) == repr(detect_shape(text))
