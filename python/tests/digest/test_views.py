"""Pages of artifacts: what each selector shows, that every page fits, and that `next` leads through the whole."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from typing import Any

import pytest
from hostile_texts import CSV, HOSTILE, JSON_LINES, KINDS, LOG, MARKDOWN, NESTED, PROSE, RECORDS, json_values, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.clean.cleaner import Cleaner
from leafgate.digest.size import total
from leafgate.digest.views import ViewContent, show
from leafgate.maps.files import MapFiles
from leafgate.model.envelope import Artifact
from leafgate.model.errors import GatewayError

CL100K = MapFiles().load("openai/cl100k_base")
COUNT = total(lambda text: len(CL100K.encode(text)))
CLEAN = Cleaner()
NUMBERED = "\n".join(f"line {n}" for n in range(1, 101))


def page_of(selector: object, text: str | bytes, budget: int = 800) -> ViewContent:
    kept = Artifact(text.encode("utf-8", "replace") if isinstance(text, str) else text, "text/plain", "")
    page = show(selector, kept, CLEAN, COUNT, budget)
    assert COUNT(page.text) <= budget
    return page


def answer(selector: object, text: str, budget: int) -> ViewContent | str:
    try:
        return page_of(selector, text, budget)
    except GatewayError as error:
        return error.code


def split(page: ViewContent) -> tuple[str, str, Any]:
    """The body, the note, and what comes next."""
    body, _, last = page.text.rpartition("\n")
    note, _, following = last.removeprefix("[").removesuffix("]").partition("; next: ")
    return body, note, json.loads(following) if following else None


def view_parts(selector: object, text: str | bytes, budget: int = 800) -> tuple[str, str, Any]:
    return split(page_of(selector, text, budget))


def everything(selector: object, text: str | bytes, budget: int, most: int = 3000) -> list[tuple[str, str, Any]]:
    """All bodies from here on, each with its note and the selector that gave it."""
    found = []
    for _ in range(most):
        body, note, following = view_parts(selector, text, budget)
        found.append((body, note, selector))
        if following is None:
            return found
        selector = following
    raise AssertionError("this does not end")


def test_lines_are_counted_from_one_and_both_ends_belong() -> None:
    body, note, following = view_parts({"type": "lines", "start": 3, "end": 5}, NUMBERED)
    assert body == "line 3\nline 4\nline 5"
    assert note == "lines 3 to 5 of 100"
    assert following == {"type": "lines", "start": 6, "end": 8}


def test_head_and_tail() -> None:
    assert view_parts({"type": "head", "lines": 2}, NUMBERED)[0] == "line 1\nline 2"
    assert view_parts({"type": "tail", "lines": 2}, NUMBERED) == ("line 99\nline 100", "lines 99 to 100 of 100", None)
    body, _, following = view_parts({"type": "tail", "lines": 100}, NUMBERED, 120)
    first = int(body.split("\n")[0].split()[1])
    assert body.endswith("line 100")
    assert following == {"type": "lines", "start": 1, "end": first - 1}


@pytest.mark.parametrize("budget", [150, 800])
@pytest.mark.parametrize("name", [*KINDS, "one line of words", "carriage returns", "right to left", "combining"])
def test_following_next_reads_every_line_once(name: str, budget: int) -> None:
    text = KINDS.get(name) or HOSTILE[name][:60_000]
    if name in ("prose", "records", "nested"):
        text = text[:30_000]
    rebuilt = ""
    for body, _, selector in everything({"type": "lines", "start": 1}, text, budget):
        is_start = "offset" not in selector
        rebuilt += ("\n" if rebuilt and is_start else "") + body
    assert rebuilt.rstrip("\n") == text.replace("\r\n", "\n").rstrip("\n")


@settings(max_examples=80, deadline=None)
@given(texts, st.integers(150, 400))
def test_following_next_ends_for_any_text(text: str, budget: int) -> None:
    text = CLEAN(text)[:6000]
    bodies = everything({"type": "lines"}, text, budget)
    assert len("".join(body for body, _, _ in bodies)) <= 3 * len(text) + 30 * len(bodies)


def test_json_members_and_slices() -> None:
    body, note, following = view_parts({"type": "json", "pointer": "/items", "start": 2, "end": 4}, NESTED)
    assert [item["id"] for item in json.loads(body)] == [2, 3]
    assert note == "/items: items 2 to 3 of 900"
    assert following == {"type": "json", "start": 4, "end": 6, "pointer": "/items"}
    assert view_parts("json", '{"a": 1}')[0] == '{"a":1}'
    assert view_parts({"pointer": "/items/3/owner/login"}, NESTED)[0] == "user3"
    assert view_parts({"pointer": "/items/-1/id"}, NESTED)[0] == "899"
    assert view_parts({"pointer": "/a~1b/c~0d"}, '{"a/b": {"c~d": null}}')[0] == "null"


def test_json_overviews() -> None:
    body, _, _ = view_parts({"type": "json", "pointer": "/items", "keys": ["id", "note"], "end": 2}, NESTED)
    assert json.loads(body) == [{"id": 0, "note": ""}, {"id": 1, "note": None}]
    body, _, following = view_parts({"type": "json", "depth": 0}, NESTED)
    assert json.loads(body) == {"count": 900, "items": "[…900 items]", "cursor": None}
    assert following is None
    body, _, _ = view_parts({"type": "json", "keys": ["cursor", "count"]}, NESTED)
    assert json.loads(body) == {"cursor": None, "count": 900}


def put(root: Any, pointer: str, body: str, selector: Any, original: Any) -> Any:
    """Puts a page where it belongs in a document that is rebuilt from pages."""
    steps = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    holder, here, source = None, root, original
    for step in steps:
        key = int(step) if isinstance(source, list) else step
        source = source[key]
        if isinstance(here, list) and key == len(here):
            here.append(type(source)())
        elif isinstance(here, dict) and key not in here:
            here[key] = type(source)()
        holder, here = (here, key), here[key]
    if isinstance(source, str):
        assert len(here) == selector.get("start", 0)
        assert holder is not None
        holder[0][holder[1]] = here + body
    elif isinstance(source, list):
        assert len(here) == selector.get("start", 0)
        here += json.loads(body)
    else:
        new = json.loads(body)
        assert not new.keys() & here.keys()
        here |= new
    return root


@pytest.mark.parametrize("budget", [150, 800])
@pytest.mark.parametrize("name", ["records", "nested", "mixed array", "one long string", "many keys"])
def test_following_next_reads_every_part_of_a_json_document_once(name: str, budget: int) -> None:
    original = json.loads(KINDS.get(name) or HOSTILE[name])
    if isinstance(original, list):
        original = original[:300]
    if name == "many keys":
        original = dict(list(original.items())[:500])
    if name == "nested":
        original["items"] = original["items"][:300]
    if name == "one long string":
        original = {key: value[:40_000] for key, value in original.items()}
    text = json.dumps(original)
    rebuilt = type(original)()
    for body, note, _ in everything({"type": "json"}, text, budget):
        where = re.match(r"(\S+|the document): ", note)
        assert where is not None
        pointer = "" if where[1] == "the document" else where[1]
        began = int(re.findall(r": (?:items|members|characters) (\d+) to", note)[-1])
        rebuilt = put(rebuilt, pointer, body, {"start": began}, original)
    assert rebuilt == original


def test_rows_with_columns_conditions_and_ranges() -> None:
    where = {"column": "score", "op": ">", "value": 142}
    body, note, following = view_parts({"type": "rows", "columns": ["name"], "where": where}, CSV)
    assert list(csv.reader(io.StringIO(body))) == [["name"], *[[f"Name, {n}"] for n in range(995, 1001)]]
    assert note == "rows 1 to 6 of 6 that match, in 1000"
    assert following is None
    body, note, following = view_parts({"type": "rows", "start": 10, "end": 11}, RECORDS)
    assert body == "id,name,ok\n9,item 9,false\n10,item 10,true"
    assert (note, following) == ("rows 10 to 11 of 1500", {"type": "rows", "start": 12, "end": 13})
    assert view_parts({"rows": [400, 400]}, MARKDOWN)[0] == "name,size\nfile399,3990"
    assert view_parts({"rows": [900, 900]}, JSON_LINES)[0] == "n,level\n899,info"
    nested = view_parts({"type": "rows", "pointer": "/items", "columns": ["ID"], "end": 2}, NESTED)
    assert nested[0] == "id\n0\n1"
    assert view_parts({"type": "rows", "columns": ["id"], "end": 1}, NESTED)[0] == "id\n0"
    contains = [{"column": "name", "op": "contains", "value": "ITEM 14"}, {"column": "ok", "op": "=", "value": True}]
    assert "of 56 that match" in view_parts({"type": "rows", "where": contains}, RECORDS)[1]


LONG_CELLS = "a,b,c\n" + "\n".join(f"{n},{'x y ' * 900},z" for n in range(5))


@pytest.mark.parametrize(
    ("text", "header", "rows"),
    [
        (CSV, "id,name,score", CSV.split("\n")[1:]),
        (RECORDS, "id,name,ok", [f"{n},item {n},{'true' if n % 2 == 0 else 'false'}" for n in range(1500)]),
        (JSON_LINES, "n,level", [f"{n},info" for n in range(900)]),
        (LONG_CELLS, "a,b,c", LONG_CELLS.split("\n")[1:]),
    ],
)
def test_following_next_reads_every_row_once(text: str, header: str, rows: list[str]) -> None:
    rebuilt = ""
    for body, _, selector in everything({"type": "rows"}, text, 300):
        joint = "\n" if rebuilt and "offset" not in selector else ""
        rebuilt += joint + body.removeprefix(f"{header}\n")
    assert rebuilt.split("\n") == rows


def test_search_finds_text_without_regard_to_case_and_expressions_as_they_are() -> None:
    body, note, _ = view_parts({"type": "search", "text": "LINE 5", "context": 1}, NUMBERED)
    assert body.split("\n")[:3] == ["4- line 4", "5: line 5", "6- line 6"]
    assert note == "11 hits in 100 lines"
    assert view_parts({"regex": "^line [0-9]0$"}, NUMBERED)[1] == "9 hits in 100 lines"
    assert view_parts({"regex": "LINE"}, NUMBERED)[1] == "0 hits in 100 lines"
    assert view_parts({"regex": "(?i)LINE 100"}, NUMBERED)[0] == "100: line 100"
    assert view_parts({"search": "(a+"}, "x\nfoo (a+ bar")[0] == "2: foo (a+ bar"


def test_search_reads_on_and_shows_every_hit_once() -> None:
    numbers = [
        int(number)
        for body, _, _ in everything({"type": "search", "text": "error", "context": 2}, LOG, 150)
        for number in re.findall(r"^(\d+)[:-]", body, re.M)
    ]
    assert numbers == sorted(set(numbers))
    assert {8, 408, 808, 1208, 1608} <= set(numbers)


def test_search_in_a_long_line_shows_what_surrounds_the_find() -> None:
    text = "a " * 200_000 + "needle" + " b" * 200_000
    body, _, _ = view_parts({"search": "needle"}, text)
    assert "needle" in body
    assert len(body) < 500


@pytest.mark.parametrize("regex", ["(a+)+$", "(a|aa)+$", "(.*)*x", "a{0,500}b", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_no_expression_takes_long(regex: str) -> None:
    view_parts({"type": "search", "regex": regex}, "a" * 200_000 + "!")


@pytest.mark.parametrize("regex", ["[", "(", "a{1001}{1001}", r"(a)\1", "(?=a)", "*"])
def test_expressions_that_are_not_taken_are_refused(regex: str) -> None:
    with pytest.raises(GatewayError) as raised:
        view_parts({"type": "search", "regex": regex}, "a")
    assert raised.value.code == "VIEW_FAILED"


def test_bytes_come_whole_by_following_next() -> None:
    data = bytes(range(256)) * 40
    pages = everything({"type": "bytes"}, data, 300)
    assert b"".join(base64.b64decode(body) for body, _, _ in pages) == data
    body, note, following = view_parts({"bytes": [10, 4]}, data)
    assert base64.b64decode(body) == data[10:14]
    assert note == f"bytes 10 to 14 of {len(data)}, base64"
    assert following == {"type": "bytes", "offset": 14, "length": 4}


def test_an_image_is_shown_as_one() -> None:
    image = Artifact(b"\x89PNG", "image/png", "", is_text=False)
    page = show({"type": "bytes"}, image, CLEAN, COUNT, 800)
    assert page.block == {"type": "image", "data": base64.b64encode(b"\x89PNG").decode(), "mimeType": "image/png"}
    assert page.text == "[image/png, 4 bytes]"
    assert show({"type": "bytes", "offset": 1}, image, CLEAN, COUNT, 800).block is None
    assert "image/png, 4 bytes" in show("stats", image, CLEAN, COUNT, 800).text
    with pytest.raises(GatewayError, match="not a text"):
        show("head", image, CLEAN, COUNT, 800)


def test_stats_count_exactly() -> None:
    assert f"{COUNT(LOG)} tokens, 2000 lines" in page_of("stats", LOG).text
    assert "1000 rows; columns: id integer, name text, score number" in page_of("stats", CSV).text
    assert "items: array [900]" in page_of("stats", NESTED).text


@pytest.mark.parametrize(
    ("selector", "text", "says"),
    [
        ({"lines": [101, 102]}, NUMBERED, "100 lines"),
        ({"pointer": "/nothing"}, NESTED, "count, items, cursor"),
        ({"pointer": "/items/900"}, NESTED, "array of 900"),
        ({"type": "json", "start": 3}, NESTED, "3 members"),
        ({"type": "json"}, LOG, "this is log, not JSON"),
        ({"type": "json"}, HOSTILE["deep arrays"], "nested too deeply"),
        ({"type": "rows"}, PROSE, "not a table"),
        ({"type": "rows", "columns": ["colour"]}, CSV, "id, name, score"),
        ({"type": "rows", "start": 1001}, CSV, "1000 rows"),
        ({"bytes": [100_000, 5]}, NUMBERED, "bytes"),
        ({"type": "search", "text": "中" * 300}, NUMBERED, "too long"),
    ],
)
def test_refusals_say_what_there_is(selector: object, text: str, says: str) -> None:
    with pytest.raises(GatewayError) as raised:
        page_of(selector, text)
    assert raised.value.code == "VIEW_FAILED"
    assert says in raised.value.body.message


def test_what_escapes_hide_does_not_come_out_in_a_view() -> None:
    escaped = json.dumps({"<|im_start|>": "AKIAIOSFODNN7EXAMPL3", "a": "\u202eevil"}).replace("<", "\\u003c")
    escaped = escaped.replace("AKIA", "\\u0041KIA")
    for selector in ("json", "rows", "stats", {"pointer": "/a"}):
        text = page_of(selector, escaped).text
        assert "<|im_start|>" not in text
        assert "AKIAIOSF" not in text
        assert "\u202e" not in text


selectors = st.one_of(
    json_values,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["head", "tail", "lines", "json", "rows", "search", "bytes", "stats"])},
        optional={
            "start": st.integers(0, 50),
            "end": st.integers(0, 60),
            "lines": st.integers(1, 50),
            "offset": st.integers(0, 500),
            "length": st.integers(1, 500),
            "pointer": st.sampled_from(["", "/0", "/items", "/0/a", "/-1"]) | st.text(max_size=6),
            "within": st.sampled_from(["", "/0", "/x"]),
            "keys": st.lists(st.text(max_size=3), max_size=3),
            "depth": st.integers(0, 4),
            "columns": st.lists(st.sampled_from(["column 1", "value", "key"]), max_size=2),
            "where": json_values,
            "text": st.text(min_size=1, max_size=5),
            "regex": st.text(max_size=5),
            "context": st.integers(0, 3),
        },
    ),
)


@settings(max_examples=400, deadline=None)
@given(selectors, texts, st.integers(100, 400))
def test_no_selector_crashes_and_every_page_fits_and_is_the_same_again(
    selector: object, text: str, budget: int
) -> None:
    text = CLEAN(text)
    page = answer(selector, text, budget)
    assert page == "VIEW_FAILED" or page == answer(selector, text, budget)


@pytest.mark.parametrize("kind", ["head", "tail", "json", "rows", {"search": "a"}, {"regex": "."}, "bytes"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_have_pages_too(name: str, kind: object) -> None:
    page = answer(kind, CLEAN(HOSTILE[name]), 300)
    assert page == "VIEW_FAILED" or isinstance(page, ViewContent)
