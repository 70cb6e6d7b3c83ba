"""Session files: streamed, with bad lines named by file, number and reason."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from leafgate.context import session as session_lines
from leafgate.embed.session_file import load_mcp_session_jsonl
from leafgate.model.context import BadLine, ContextError, SessionLineError

GOOD = '{"id": "u%d", "type": "user_turn", "text": "hi"}'


def file_of(folder: Path, *lines: str | bytes) -> Path:
    path = folder / "session.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


def test_items_in_order_as_often_as_one_likes(tmp_path: Path) -> None:
    items = load_mcp_session_jsonl(str(file_of(tmp_path, GOOD % 1, "", GOOD % 2, GOOD % 3)))
    assert [item.id for item in items] == [item.id for item in items] == ["u1", "u2", "u3"]
    assert len(items) == 3
    assert (items[0].id, items[-1].id, [item.id for item in items[1:]]) == ("u1", "u3", ["u2", "u3"])
    with pytest.raises(IndexError):
        items[3]


def test_a_bad_line_is_an_error_with_file_line_and_reason(tmp_path: Path) -> None:
    path = file_of(tmp_path, GOOD % 1, "", '{"id": "x"}', GOOD % 2)
    seen = []
    with pytest.raises(SessionLineError) as raised:
        seen.extend(item.id for item in load_mcp_session_jsonl(path))
    assert (raised.value.file, raised.value.line) == (str(path), 3)
    assert raised.value.reason in str(raised.value)
    assert str(path) in str(raised.value)


def test_bad_lines_can_be_skipped_and_are_collected(tmp_path: Path) -> None:
    path = file_of(tmp_path, "nonsense", GOOD % 1, b"\xff", '{"id": "x", "type": "y"}', GOOD % 2)
    items = load_mcp_session_jsonl(path, on_error="skip")
    assert items.bad_lines == ()
    assert [item.id for item in items] == ["u1", "u2"]
    assert [(bad.file, bad.line) for bad in items.bad_lines] == [(str(path), 1), (str(path), 3), (str(path), 4)]
    assert items.bad_lines[1] == BadLine(str(path), 3, "not UTF-8 at byte 0")


def test_files_of_other_systems(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join((GOOD % 1, "", GOOD % 2, "")).encode())
    assert [item.id for item in load_mcp_session_jsonl(path)] == ["u1", "u2"]
    path.write_bytes(b"\n\xef\xbb\xbf" + (GOOD % 1).encode())
    with pytest.raises(SessionLineError, match="line 2: not JSON"):
        list(load_mcp_session_jsonl(path))


def test_a_file_that_was_cut_off_says_where(tmp_path: Path) -> None:
    items = load_mcp_session_jsonl(file_of(tmp_path, GOOD % 1, (GOOD % 2)[:20]), on_error="skip")
    assert [item.id for item in items] == ["u1"]
    assert [bad.line for bad in items.bad_lines] == [2]


def test_what_is_appended_while_reading_is_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, GOOD % 1, "")
    reading = iter(load_mcp_session_jsonl(path))
    assert next(reading).id == "u1"
    with path.open("a") as file:
        file.write(GOOD % 2 + "\n")
    assert [item.id for item in reading] == ["u2"]


def test_the_line_of_an_item_is_known_while_it_is_at_hand(tmp_path: Path) -> None:
    items = load_mcp_session_jsonl(file_of(tmp_path, "", GOOD % 1, "nonsense", "", GOOD % 2), on_error="skip")
    assert [(items.line, item.id) for item in items] == [(2, "u1"), (5, "u2")]


def test_an_endless_line_is_one_bad_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_lines, "LONGEST_LINE", 100)
    monkeypatch.setattr("leafgate.embed.session_file.LONGEST_LINE", 100)
    path = file_of(tmp_path, GOOD % 1, "x" * 100, "x" * 101, "x" * 5000, GOOD % 2)
    items = load_mcp_session_jsonl(path, on_error="skip")
    assert [item.id for item in items] == ["u1", "u2"]
    assert [(bad.line, bad.reason.partition(":")[0][:11]) for bad in items.bad_lines] == [
        (2, "not JSON"),
        (3, "longer than"),
        (4, "longer than"),
    ]


@pytest.mark.parametrize("path", ["nowhere.jsonl", "."])
def test_what_is_no_file_is_told_at_once(path: str) -> None:
    with pytest.raises(ContextError, match="no file"):
        load_mcp_session_jsonl(path)


def test_other_ways_to_meet_errors_are_refused(tmp_path: Path) -> None:
    wrong: Any = "ignore"
    with pytest.raises(ContextError, match="'raise' or 'skip'"):
        load_mcp_session_jsonl(file_of(tmp_path), on_error=wrong)


def test_a_file_that_goes_away_is_an_error(tmp_path: Path) -> None:
    path = file_of(tmp_path, GOOD % 1)
    items = load_mcp_session_jsonl(path)
    path.unlink()
    with pytest.raises(ContextError, match="cannot be read"):
        list(items)


def test_the_first_items_come_before_the_last_are_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, *(GOOD % n for n in range(10_000)), "nonsense")
    assert [item.id for item in islice(load_mcp_session_jsonl(path), 3)] == ["u0", "u1", "u2"]


STREAM = """
import resource, sys
from leafgate.embed.session_file import load_mcp_session_jsonl
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seen = sum(1 for _ in load_mcp_session_jsonl(sys.argv[1]))
print(seen, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    line = json.dumps({"id": "r", "type": "tool_result", "text": "word " * 20_000}) + "\n"
    with path.open("w") as file:
        file.writelines(line for _ in range(1000))
    done = subprocess.run([sys.executable, "-c", STREAM, str(path)], capture_output=True, text=True, check=True)
    seen, grown = map(int, done.stdout.split())
    assert seen == 1000
    assert path.stat().st_size > 90 << 20
    assert grown < 20 << 10  # kilobytes
