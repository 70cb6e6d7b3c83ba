"""Logs and the lines in them that tell of trouble."""

from __future__ import annotations

import pytest
from hostile_texts import CSV, LOG, PROSE

from leafgate.firewall.logs import MAX_ALARMS, find_alarms, looks_like_log


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
    assert [(alarm.number, alarm.line.split(":")[0].split(" ")[0]) for alarm in found.shown] == [
        (2, "ValueError"),
        (5, "Traceback"),
        (6, "panic"),
    ]
    assert (found.errors, found.warnings, found.complete) == (3, 1, True)


def test_first_and_last_are_shown_and_the_work_is_bounded() -> None:
    found = find_alarms("error here\n" * 50_000, 100)
    assert found.errors == MAX_ALARMS
    assert not found.complete
    assert found.shown[0].number == 1
    assert find_alarms(LOG, 100).errors == 5
    (long,) = find_alarms("x" * 100_000 + " error " + "y" * 100_000, 100).shown
    assert "error" in long.line
    assert len(long.line) <= 100
