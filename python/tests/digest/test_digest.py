"""What stands in the place of a withheld text: it says what the text is, fits, and is the same every time."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest
from hostile_texts import CSV, HOSTILE, JSON_LINES, KINDS, LOG, MARKDOWN, NESTED, PROSE, RECORDS, texts
from hypothesis import given, settings

from leafgate.clean.cleaner import Cleaner
from leafgate.digest.digest import Digest, digest
from leafgate.digest.size import total, weigh
from leafgate.maps.files import MapFiles

CL100K = MapFiles().load("openai/cl100k_base")
COUNT = total(lambda text: len(CL100K.encode(text)))
HANDLE = "6ac3d4e3ded086d5f669fe9b"
CLEAN = Cleaner()


def make_digest(text: str, room: int = 400, count: Callable[[str], int] = COUNT) -> Digest:
    return digest(text, weigh(text, count, 800), count, CLEAN, room)


def digest_text(text: str, room: int = 400) -> str:
    return make_digest(text, room).text(HANDLE)


def selector_in(text: str) -> dict[str, object]:
    found = re.search(r"tool_view (\{.*?\}\})", text)
    assert found is not None
    call = json.loads(found[1])
    assert call["handle"] == HANDLE
    return dict(call["selector"])


@pytest.mark.parametrize("name", [*KINDS, *HOSTILE])
def test_whatever_the_text_is_the_digest_fits_and_is_quick(name: str) -> None:
    text = CLEAN(KINDS.get(name) or HOSTILE[name])
    started = time.process_time()
    first = digest_text(text)
    assert time.process_time() - started < 3
    assert COUNT(first) <= 400
    assert first == digest_text(text)
    assert HANDLE in first
    if text:
        assert selector_in(first)["type"] in {"lines", "json", "rows", "head"}


@settings(max_examples=150, deadline=None)
@given(texts)
def test_any_digest_fits(text: str) -> None:
    text = CLEAN(text)
    for room in (60, 120, 400):
        assert COUNT(digest_text(text, room)) <= room


def test_json_is_told_by_its_outline() -> None:
    text = digest_text(NESTED)
    assert text.startswith("[JSON, ")
    assert "items: array [900] of object" in text
    assert "owner: object, 2 keys" in text
    assert "tags: array [0 to 3] of string" in text
    assert "count: integer 900" in text
    assert selector_in(text) == {"type": "json", "pointer": "/items"}


@pytest.mark.parametrize(
    ("table", "name", "rows", "first", "last"),
    [
        (CSV, "CSV", 1000, '1,"Name, 1",0.143', '1000,"Name, 1000",142.857'),
        (RECORDS, "JSON array", 1500, "0,item 0,true", "1499,item 1499,false"),
        (MARKDOWN, "markdown", 400, "file0,0", "file399,3990"),
        (JSON_LINES, "JSON lines", 900, "0,info", "899,info"),
        ("\n".join(f"{n}\tx{n}\tsome text" for n in range(900)), "TSV", 900, "0,x0,some text", "899,x899,some text"),
    ],
)
def test_a_table_is_told_by_its_columns_and_ends(table: str, name: str, rows: int, first: str, last: str) -> None:
    text = digest_text(table)
    assert text.startswith(f"[{name}, {rows} rows, ")
    lines = text.split("\n")
    assert lines[1].startswith("columns: ")
    assert lines[2] == first
    assert lines[-1] == last
    shown = selector_in(text)
    assert shown["type"] == "rows"
    assert lines[2 + int(str(shown["start"])) - 1].startswith(f"[… rows {shown['start']} to ")


def test_a_log_is_told_by_its_ends_and_its_errors() -> None:
    text = digest_text(LOG)
    assert text.startswith("[log, ")
    assert "[5 error lines, 0 warning lines]" in text
    assert "8: 2024-05-01T10:00:07 ERROR boom request 7" in text
    assert text.endswith(LOG.split("\n")[-1])
    made_facts = make_digest(LOG).facts
    assert made_facts == ("error lines: 5", "warning lines: 0")


def test_prose_is_cut_at_sentences() -> None:
    head, _, tail = digest_text(PROSE).partition("\n[…]\n")
    assert head.endswith((".", "!", "?"))
    assert tail.startswith(("This is", "Is it", "It is"))
    assert PROSE.endswith(tail)


def test_read_on_leads_to_the_first_line_that_is_not_shown() -> None:
    text = digest_text("\n".join(f"item {n}" for n in range(1, 3001)))
    start = int(str(selector_in(text)["start"]))
    assert f"item {start - 1}\n[… lines {start} to" in text


def test_what_escapes_hide_in_json_does_not_come_out() -> None:
    hidden = json.dumps({"<|im_start|>": "AKIAIOSFODNN7EXAMPL3", "list": ["\u202eevil"] * 900})
    escaped = hidden.replace("<", "\\u003c").replace("AKIA", "\\u0041KIA")
    text = digest_text(CLEAN(escaped), 400)
    assert "<|im_start|>" not in text
    assert "AKIAIOSF" not in text
    assert "\u202e" not in text


def test_a_text_that_could_not_be_kept_says_so() -> None:
    text = make_digest(LOG).text(None)
    assert "too large to be kept" in text.split("\n")[0]
    assert "tool_view" not in text
