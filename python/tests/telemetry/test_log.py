"""Log lines: what they carry, what they never carry, whose they are."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from leafgate.model.errors import ConfigError
from leafgate.model.request import SERVING, Served
from leafgate.telemetry.log import (
    LONGEST,
    LONGEST_FOREIGN,
    MOST_REPEATS,
    REPEATS_SECONDS,
    QueuedLines,
    Repeats,
    hide_secrets,
    log_queues,
    message_of,
    setup_logging,
    without_secrets,
)

LIKE_A_KEY = "sk-proj-" + "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7" * 2
KEY = "hX7-weak-0words9"  # no pattern of the firewall knows it: only its name gives it away


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("leafgate")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


@pytest.fixture
def serving() -> Iterator[None]:
    token = SERVING.set(Served("0a1b2c3d", "tool_execute", "notes"))
    yield
    SERVING.reset(token)


class LogText(io.StringIO):
    """What was logged. The lines are written by a thread, which is waited for."""

    def getvalue(self) -> str:
        for queue in log_queues():
            queue.flush()
        return super().getvalue()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def in_json(level: str = "info") -> io.StringIO:
    stream = LogText()
    setup_logging(level, "json", stream)
    return stream


def in_text(level: str = "info") -> io.StringIO:
    stream = LogText()
    setup_logging(level, "text", stream)
    return stream


@pytest.mark.usefixtures("serving")
def test_a_line_of_a_request_says_which() -> None:
    stream = in_json()
    logging.getLogger("leafgate.gateway").warning("it %s", "failed")
    (line,) = lines(stream)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "warning",
        "logger": "leafgate.gateway",
        "message": "it failed",
        "correlation_id": "0a1b2c3d",
        "operation": "tool_execute",
        "server": "notes",
    }


def test_a_line_outside_requests_says_nothing_of_them() -> None:
    stream = in_json()
    logging.getLogger("leafgate.upstream").info("up")
    assert set(lines(stream)[0]) == {"time", "level", "logger", "message"}


@pytest.mark.usefixtures("serving")
def test_text_has_the_id_too() -> None:
    stream = in_text()
    logging.getLogger("leafgate.gateway").warning("it failed")
    time, rest = stream.getvalue().split(" ", 1)
    assert datetime.fromisoformat(time).tzinfo is not None
    assert rest == "WARNING leafgate.gateway [0a1b2c3d]: it failed\n"


@pytest.mark.parametrize("made", [in_json, in_text])
def test_an_exceptions_own_words_stay_out(made: Any) -> None:
    stream = made()
    try:
        raise ValueError("the argument was 4111 1111 1111 1111")
    except ValueError:
        logging.getLogger("leafgate.gateway").exception("unexpected failure")
    shown = stream.getvalue()
    assert "ValueError" in shown
    assert "test_log.py" in shown
    assert "4111" not in shown


@pytest.mark.parametrize(
    "message",
    [
        f"Authorization: Bearer {KEY}",
        f"authorization=Basic {KEY}",
        f"{{'Authorization': 'Bearer {KEY}'}}",
        f'headers {{"x-api-key": "{KEY}"}}',
        f"Cookie: a=b; session={KEY}; c=d",
        f"https://host/mcp?api_key={KEY}",
        f"https://host/mcp?access_token={KEY}&x=1",
        f"client_secret = {KEY}",
        f'"Authorization": ["Bearer {KEY}"]',
        f"x-goog-api-key: {KEY}",
        f"postgres://admin:{KEY}@db",
    ],
)
@pytest.mark.parametrize("made", [in_json, in_text])
def test_no_credential_is_written(made: Any, message: str) -> None:
    stream = made()
    logging.getLogger("leafgate.upstream").warning("%s", message)
    logging.getLogger("some.library").warning(message.replace("%", "%%"))
    assert stream.getvalue().count("\n") == 2
    assert KEY not in stream.getvalue()


def test_what_looks_like_a_secret_needs_no_name() -> None:
    stream = in_json()
    logging.getLogger("leafgate.upstream").warning("the server said: %s is wrong", LIKE_A_KEY)
    assert LIKE_A_KEY not in stream.getvalue()
    assert LIKE_A_KEY[10:30] not in stream.getvalue()


def test_a_secret_at_the_border_of_a_long_line_is_not_cut_in_half_first() -> None:
    stream = in_json()
    logging.getLogger("leafgate.upstream").warning("x " * (LONGEST // 2 - 10) + LIKE_A_KEY)
    assert "sk-proj" not in stream.getvalue()


@pytest.mark.parametrize(
    "harmless",
    [
        "the authorization failed",
        "no cookie here",
        "correlation id 0a1b2c3d: UPSTREAM_ERROR",
        "tokens: 500, secrets: 0",
    ],
)
def test_ordinary_words_stay(harmless: str) -> None:
    assert without_secrets(harmless) == harmless


def test_libraries_are_heard_from_warnings_on_and_cut_short() -> None:
    stream = in_json("debug")
    library = logging.getLogger("mcp.client")
    library.debug("the whole message")
    library.info("the whole message")
    library.warning("x" * 10_000)
    logging.getLogger("leafgate.gateway").debug("y" * 10_000)
    foreign, own = lines(stream)
    assert len(foreign["message"]) == LONGEST_FOREIGN
    assert len(own["message"]) == LONGEST


def test_a_line_is_a_line() -> None:
    stream = in_text()
    logging.getLogger("leafgate.upstream").warning("one\ntwo\r\nERROR leafgate: forged \x1b[2J")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_half_characters_do_not_break_the_log() -> None:
    stream = in_json()
    logging.getLogger("leafgate.upstream").warning("a\ud800b")
    stream.getvalue().encode()
    assert "a" in lines(stream)[0]["message"]


def test_arguments_that_do_not_fit_are_no_failure() -> None:
    stream = in_json()
    logging.getLogger("leafgate.upstream").warning("%d", "x")
    assert lines(stream)[0]["message"] == "%d"


def test_setting_up_twice_writes_once() -> None:
    in_json()
    stream = in_json()
    logging.getLogger("leafgate").error("once")
    assert len(lines(stream)) == 1


@pytest.mark.parametrize(("level", "format"), [("loud", "text"), ("", "json"), ("info", "xml"), ("INFO", "text")])
def test_other_words_are_refused(level: str, format: str) -> None:
    with pytest.raises(ConfigError, match="one of"):
        setup_logging(level, format)


def test_a_secret_that_is_known_stands_in_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pattern finds these, and no name stands before them: a server wrote its own credential to stderr."""
    monkeypatch.setattr("leafgate.telemetry.log._secrets", set())
    hide_secrets(["correct horse", "correct horse battery", "short"])
    stream = in_text()
    logging.getLogger("leafgate.upstream").info("[web] cannot log in with correct horse battery, nor correct horse")
    logging.getLogger("elsewhere").warning("correct horse: short")
    assert [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()] == [
        "INFO leafgate.upstream: [web] cannot log in with [redacted], nor [redacted]",
        "WARNING elsewhere: [redacted]: short",
    ]


def test_lines_of_one_kind_are_bounded_where_a_library_repeats_itself() -> None:
    now = 0.0
    repeats = Repeats(lambda: now)

    def shown(logger: str, number: int) -> list[str]:
        records = [logging.LogRecord(logger, 30, "", 0, "refused %d", (n,), None) for n in range(number)]
        return [message_of(record) for record in records if repeats.filter(record)]

    assert shown("mcp.server", 500) == [f"refused {n}" for n in range(MOST_REPEATS)]
    assert len(shown("uvicorn.error", 3)) == 3
    assert len(shown("leafgate.gateway", 500)) == 500
    now += REPEATS_SECONDS
    assert shown("mcp.server", 2) == [f"refused 0 (and {500 - MOST_REPEATS} more)", "refused 1"]


def test_a_log_that_is_not_read_drops_lines_and_counts_them() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        queue = QueuedLines(stream, most_waiting=50_000)
        record = logging.LogRecord("leafgate.gateway", logging.WARNING, "", 0, "x" * 999, None, None)
        for _ in range(1_000):  # a pipe holds some 65 of them, the queue 50, and the thread as many
            queue.emit(record)
        assert queue.waiting <= 50_000
        assert 700 < queue.dropped < 1_000
        root = logging.getLogger()
        root.addHandler(queue)
        read = b""
        while b"were dropped" not in read:
            read += os.read(reader, 65_536)
        root.removeHandler(queue)
        assert read.count(b"x" * 999) + queue.dropped == 1_000
    os.close(reader)


@pytest.mark.parametrize(("level", "is_logged"), [("info", False), ("debug", True)])
def test_what_the_client_of_the_sdk_quotes_is_logged_for_debugging_only(level: str, is_logged: bool) -> None:
    stream = io.StringIO()
    setup_logging(level, stream=stream)
    logging.getLogger("mcp.client.streamable_http").warning("Unknown SSE event: a payload")
    logging.getLogger("mcp.server").warning("a warning of the server")
    for handler in logging.getLogger().handlers:
        handler.flush()
    assert ("a payload" in stream.getvalue()) is is_logged
    assert "a warning of the server" in stream.getvalue()
