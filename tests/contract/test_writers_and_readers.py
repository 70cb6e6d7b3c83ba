"""Every writer against every reader: what one language wraps, the other reads, believes, and takes off again."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from implementations import IMPLEMENTATIONS, MAPS, Implementation, as_line, at_once
from nasty_texts import nasty_texts

COUNT = 120


def results() -> list[dict[str, Any]]:
    texts = [text for text in nasty_texts(7, COUNT) if "▁" not in text]
    return [
        {
            "content": [
                {"type": "text", "text": text, "annotations": {"priority": 0.5}},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                {"type": "text", "text": text[::2] or "x", "_meta": {"other": {"n": number}}},
                {"type": "text", "text": ""},
            ],
            "structuredContent": {"text": text},
            "isError": number % 7 == 0,
            "_meta": {"n": number},
        }
        for number, text in enumerate(texts)
    ]


def wrap(writer: Implementation, map_id: str) -> list[dict[str, Any]]:
    return [a["result"] for a in writer.answer("wrap", [as_line({"result": r}) for r in results()], map_id)]


@pytest.mark.parametrize("map_id", MAPS)
def test_written_here_read_there(map_id: str) -> None:
    """Both readers get what both writers wrote, all in one go: a process takes longer to start than to answer."""
    plain = results() * len(IMPLEMENTATIONS)
    by_writer = at_once(*(partial(wrap, writer, map_id) for writer in IMPLEMENTATIONS))
    assert by_writer[0] == by_writer[1]
    wrapped = [result for results_of_one in by_writer for result in results_of_one]
    lines = [as_line({"result": result}) for result in wrapped]
    at_once(*(partial(read_all, reader, map_id, lines, plain, wrapped) for reader in IMPLEMENTATIONS))


def read_all(
    reader: Implementation, map_id: str, lines: list[str], plain: list[dict[str, Any]], wrapped: list[dict[str, Any]]
) -> None:
    judged = reader.answer("verify", lines, map_id, {"level": "canonical"})
    expected = [
        {"textIndex": 0, "verdict": "accept", "reason": None},
        {"textIndex": 2, "verdict": "accept", "reason": None},
        {"textIndex": 3, "verdict": "absent", "reason": None},
    ]
    assert [answer["entries"] for answer in judged] == [expected] * len(lines)
    assert [a["result"] for a in reader.answer("strip", lines)] == plain
    assert [a["result"] for a in reader.answer("wrap", lines, map_id)] == wrapped
    read = reader.answer("read", lines)
    assert [[e["source"] for e in answer["entries"]] for answer in read] == [["meta", "meta", None]] * len(lines)
