"""Serving JSON lines: one answer per line, whatever the line is."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from leafgate.cli.json_lines import field, serve_lines
from leafgate.model.errors import IdsError, TextError


def serve(raw: bytes, answer: Any = lambda line: {"ok": line}) -> list[Any]:
    sink = io.BytesIO()
    serve_lines(io.BytesIO(raw), sink, answer)
    return [json.loads(line) for line in sink.getvalue().split(b"\n")[:-1]]


def test_in_order_and_the_last_one_without_a_newline() -> None:
    assert serve(b'{"n":1}\n{"n":2}\r\n{"n":3}') == [{"ok": {"n": n}} for n in (1, 2, 3)]


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"",
        b"  ",
        b"[]",
        b"null",
        b"5",
        b'"x"',
        b"\xff",
        b'{"a":"\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"a":1}',
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":1}{"b":2}',
        '{"a":1}'.encode("utf-16-le"),
        b'{"a":' + b"[" * 100_000,
    ],
)
def test_a_bad_line_is_answered_and_the_next_one_served(raw: bytes) -> None:
    bad, good = serve(raw + b'\n{"n":1}\n')
    assert bad["error"] == "bad-line"
    assert bad["message"]
    assert good == {"ok": {"n": 1}}


def test_an_answer_nested_too_deeply_to_be_written() -> None:
    depth = 5000
    nested: Any = 0
    for _ in range(depth):
        nested = [nested]
    assert serve(b"{}\n{}\n", lambda line: {"x": nested})[1]["error"] == "bad-line"


def test_integers_of_any_length() -> None:
    [answer] = serve(
        b'{"n":[1' + b"0" * 6000 + b",-" + b"9" * 6000 + b",7]}\n", lambda line: {"n": [n > 2**32 for n in line["n"]]}
    )
    assert answer == {"n": [True, False, False]}


def test_errors_of_ours_become_answers() -> None:
    def refuse(line: dict[str, Any]) -> dict[str, Any]:
        if line["kind"] == "text":
            raise TextError("no UTF-8")
        if line["kind"] == "ids":
            raise IdsError("special-id", "300")
        return {"found": field(line, "kind", list)}

    found = serve(b'{"kind":"text"}\n{"kind":"ids"}\n{"kind":"x"}\n{"kind":[]}\n', refuse)
    assert [answer.get("error") for answer in found] == ["bad-text", "special-id", "bad-line", None]


@pytest.mark.parametrize(
    ("value", "kind"), [(1, str), ("x", list), (None, dict), (True, int), (False, int), (1.0, int)]
)
def test_a_field_of_another_type(value: Any, kind: type) -> None:
    [answer] = serve(b"{}\n", lambda line: {"x": field({"f": value}, "f", kind)})
    assert answer["error"] == "bad-line"
    assert "`f`" in answer["message"]


def test_lone_surrogates_are_written_escaped() -> None:
    assert serve(b'{"a":"\\ud800\xc3\xa9"}\n') == [{"ok": {"a": "\ud800é"}}]
