"""The audit file: what a line says, how lines are chained, rotated and checked, what a crash or a full disk leaves."""

from __future__ import annotations

import json
import logging
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from leafgate.cli.main import cli
from leafgate.model.errors import ConfigError
from leafgate.model.request import Served
from leafgate.telemetry import audit as audit_module
from leafgate.telemetry.audit import (
    MOST_REFUSALS,
    ZERO,
    AuditFile,
    audited_files,
    auditing,
    read_records,
    rotated,
    seal,
    verify,
)

CALL = Served("0a1b2c3d", "tool_execute", "notes", "search", "ann", "claude-code")
LARGE = 100 * 1024 * 1024


def write(path: Path, calls: int, *, max_bytes: int = LARGE, keep: int = 10) -> None:
    with auditing(path, max_bytes=max_bytes, keep=keep) as audit:
        for _ in range(calls):
            audit.call(CALL, None, 0.0123)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def ten(path: Path) -> Path:
    """A file of ten calls: twelve lines with the first and the last."""
    write(path, 10)
    return path


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_a_line_says_who_called_what_and_nothing_else(path: Path) -> None:
    served = Served(
        "0a1b2c3d",
        "tool_execute",
        "notes",
        "search\n" + "x" * 500,
        "ann",
        "claude-code",
        tokens_in=3,
        tokens_out=40,
        approval="given",
        cut={"parts": 1, "bytes": 5_000},
        redacted={"aws-key": 2},
    )
    with auditing(path, max_bytes=LARGE, keep=1) as audit:
        audit.call(served, "tool_error", 0.5)
        audit.call(Served("00000001", "tool_browse", denied_by="policy"), "PERMISSION_DENIED", 0.1)
        audit.refused(None, "/mcp", "a token is needed")
    opened, call, denied, refused, closed = read_records(path)
    assert (opened["event"], opened["reason"], opened["previous"], closed["event"]) == (
        "opened",
        "start",
        ZERO,
        "closed",
    )
    assert call.pop("time").endswith("+00:00")
    assert len(call.pop("tool")) == 120
    assert call == {
        "n": 2,
        "event": "call",
        "correlation_id": "0a1b2c3d",
        "principal": "ann",
        "client": "claude-code",
        "operation": "tool_execute",
        "server": "notes",
        "outcome": "tool_error",
        "ms": 500.0,
        "tokens_in": 3,
        "tokens_out": 40,
        "approval": "given",
        "cut": {"parts": 1, "bytes": 5_000},
        "redacted": {"aws-key": 2},
    }
    assert (denied["outcome"], denied["denied_by"]) == ("PERMISSION_DENIED", "policy")
    assert (refused["event"], refused["where"], refused["reason"]) == ("refused", "/mcp", "a token is needed")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_chain_is_whole_over_restarts_and_rotations(path: Path) -> None:
    for _ in range(3):
        write(path, 20, max_bytes=2_000)
    result = verify(path)
    assert result.problems == []
    assert len(result.files) > 5
    assert [record["n"] for record in read_records(path)] == [*range(1, result.lines + 1)]
    assert verify(path, contains=result.last_hash).problems == []
    assert "no line has the hash" in str(verify(path, contains="f" * 64).problems[0])


def test_old_files_are_deleted_and_the_rest_is_still_whole(path: Path) -> None:
    write(path, 200, max_bytes=2_000, keep=3)
    assert [file.name for file in audited_files(path)] == ["audit.jsonl.3", "audit.jsonl.2", "audit.jsonl.1", path.name]
    result = verify(path)
    assert result.problems == []
    assert any("earlier files are not here" in note for note in result.notes)


Change = Callable[[list[bytes]], list[bytes]]


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (lambda ls: ls[:4] + ls[5:], 5, "lines 5 to 5 are missing"),
        (lambda ls: ls[1:], 1, "not one that opens a file"),
        (lambda ls: [*ls[:4], ls[4].replace(b'"ann"', b'"ben"'), *ls[5:]], 5, "its hash is wrong"),
        (lambda ls: [*ls[:4], ls[5], ls[4], *ls[6:]], 5, "has the number 6 in place of 5"),
        (lambda ls: [*ls[:4], ls[4], ls[4], *ls[5:]], 6, "it is out of order"),
        (lambda ls: [*ls[:4], ls[4][:50] + b"\n", *ls[5:]], 5, "not a whole line"),
        (lambda ls: [*ls[:-1], ls[-1][:-20]], 12, "not a whole line"),
        (lambda ls: [*ls[:4], b"something else\n", *ls[4:]], 5, "not a whole line"),
        (
            lambda ls: [*ls[:4], ls[4].replace(b'"hash":"', b'"hash":"0')[:-4] + b'"}\n', *ls[5:]],
            5,
            "its hash is wrong",
        ),
        (lambda ls: [], 1, "empty"),
    ],
)
def test_a_change_is_found_where_it_is(ten: Path, change: Change, line: int, message: str) -> None:
    ten.write_bytes(b"".join(change(lines_of(ten))))
    problem = verify(ten).problems[0]
    assert (problem.file, problem.line) == (ten, line)
    assert message in problem.message


def test_a_missing_file_is_found(path: Path) -> None:
    write(path, 100, max_bytes=2_000)
    rotated(path, 3).unlink()
    (problem,) = verify(path).problems
    assert (problem.file, problem.line) == (rotated(path, 2), 1)
    assert "are missing" in problem.message


def test_lines_that_are_missing_at_the_end_show_by_a_hash_that_was_kept(ten: Path) -> None:
    last = verify(ten).last_hash
    ten.write_bytes(b"".join(lines_of(ten)[:-3]))
    result = verify(ten)
    assert result.problems == []
    assert any("does not close the file" in note for note in result.notes)
    assert verify(ten, contains=last).problems


def test_a_partial_line_is_named_by_the_next_start(ten: Path, caplog: pytest.LogCaptureFixture) -> None:
    ten.write_bytes(ten.read_bytes()[:-20])
    assert verify(ten).problems
    write(ten, 1)
    assert "ends within a line" in caplog.text
    result = verify(ten)
    assert result.problems == []
    assert any("a partial line, which the next start" in note for note in result.notes)
    ten.write_bytes(ten.read_bytes().replace(b'"event":"closed"', b'"event":"clos"', 1))
    assert verify(ten).problems


def test_a_file_that_is_not_an_audit_file_is_left_alone(path: Path) -> None:
    path.write_text("my notes\n")
    with pytest.raises(ConfigError, match="other content"):
        AuditFile(path, max_bytes=LARGE, keep=1)
    assert path.read_text() == "my notes\n"


def test_two_gateways_cannot_write_one_file(path: Path) -> None:
    refused = pytest.raises(ConfigError, match=rf"another gateway \(process {os.getpid()}\) writes")
    with auditing(path, max_bytes=LARGE, keep=1), refused:
        AuditFile(path, max_bytes=LARGE, keep=1)
    write(path, 1)
    assert verify(path).problems == []


def test_a_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        AuditFile(tmp_path / "no" / "folder" / "audit", max_bytes=LARGE, keep=1)
    (tmp_path / "elsewhere").touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be written"):
        AuditFile(tmp_path / "link", max_bytes=LARGE, keep=1)


def test_refusals_without_end_do_not_fill_the_file(path: Path) -> None:
    now = 1_000.0
    audit = AuditFile(path, max_bytes=LARGE, keep=1, clock=lambda: now)
    for _ in range(10 * MOST_REFUSALS):
        audit.refused(None, "/mcp", "the token is not known")
    now += 60
    audit.refused(None, "/mcp", "the token is not known")
    audit.close()
    refused = [record for record in read_records(path) if record["event"] == "refused"]
    assert len(refused) == MOST_REFUSALS + 1
    assert refused[-1]["skipped"] == 9 * MOST_REFUSALS


def test_lines_beyond_the_bound_are_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MOST_WAITING", 0)
    audit = AuditFile(path, max_bytes=LARGE, keep=1)
    audit.call(CALL, None, 0.1)
    audit.call(CALL, None, 0.1)
    monkeypatch.setattr(audit_module, "MOST_WAITING", 10)
    audit.call(CALL, None, 0.1)
    audit.close()
    events = [(record["event"], record.get("lines")) for record in read_records(path)]
    assert events == [("opened", None), ("lost", 2), ("call", None), ("closed", None)]
    assert verify(path).problems == []


FULL = """
import resource, sys, time
from pathlib import Path
from leafgate.model.request import Served
from leafgate.telemetry.audit import auditing
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
with auditing(path, max_bytes=10**9, keep=1) as audit:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, hard))
    for _ in range(100):
        audit.call(Served("00", "tool_execute", "notes", "search"), None, 0.1)
    while audit._waiting.qsize():
        time.sleep(0.01)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    audit.call(Served("00", "tool_execute", "notes", "last"), None, 0.1)
"""


def test_a_full_disk_leaves_whole_lines_and_the_number_of_those_that_are_missing(path: Path) -> None:
    """A limit on the size of files stands for a disk: it takes a part of a line, and then nothing."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    ran = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    result = verify(path)
    assert result.problems == []
    records = [*read_records(path)]
    written = sum(record.get("tool") == "search" for record in records)
    assert 5 < written < 50
    assert [record["lines"] for record in records if record["event"] == "lost"] == [100 - written]
    assert records[-2]["tool"] == "last"
    assert "cannot be written, and calls go on" in ran.stderr


def test_a_disk_that_fails_is_logged_once(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = AuditFile(path, max_bytes=LARGE, keep=1)

    def fail(file: int, data: bytes) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(audit_module.os, "write", fail)
        for _ in range(50):
            audit.call(CALL, None, 0.1)
        audit.close()
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [error.getMessage() for error in errors] == [
        f"the audit file {path} cannot be written, and calls go on: Input/output error"
    ]


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["audit", *args])
    return result.exit_code, result.output


def test_the_command_says_where_and_exits_with_1(ten: Path) -> None:
    code, shown = run("verify", str(ten))
    assert code == 0
    assert "the chain is whole: 12 lines in 1 file" in shown
    ten.write_bytes(b"".join(lines_of(ten)[:4] + lines_of(ten)[5:]))
    code, shown = run("verify", str(ten))
    assert code == 1
    assert f"{ten}:5: has the number 6 in place of 5: lines 5 to 5 are missing" in shown
    code, shown = run("verify", "--json", str(ten))
    assert code == 1
    found: dict[str, Any] = json.loads(shown)
    assert (found["ok"], found["problems"][0]["line"]) == (False, 5)


def test_lines_are_shown_by_what_is_asked_for(path: Path) -> None:
    with auditing(path, max_bytes=LARGE, keep=1) as audit:
        audit.call(CALL, None, 0.1)
        audit.call(Served("1", "tool_execute", "mail", "send", "ben"), "tool_error", 0.1)
        audit.refused("ben", "/status", "this is for operators")
    code, shown = run("show", str(path))
    assert code == 0
    assert len(shown.splitlines()) == 5
    assert "refused" in shown
    assert "this is for operators" in shown
    for words in (["--principal", "ben", "--outcome", "tool_error"], ["--server", "mail"], ["--tool", "send"]):
        (line,) = run("show", "--json", *words, str(path))[1].splitlines()
        assert json.loads(line)["tool"] == "send"
    assert len(run("show", "--last", "2", str(path))[1].splitlines()) == 2


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_file_that_is_not_there_is_an_error(tmp_path: Path, command: str) -> None:
    result = CliRunner().invoke(cli, ["audit", command, str(tmp_path / "nothing")])
    assert isinstance(result.exception, ConfigError)


def test_control_characters_of_a_forged_line_do_not_reach_the_terminal(path: Path) -> None:
    line, _ = seal({"n": 1, "event": "call", "tool": "\x1b[2Jx", "ms": "\x1b[2J", "reason": "\x1b[2J"}, ZERO)
    path.write_bytes(line)
    assert "\x1b" not in run("show", str(path))[1]
