"""Session lines: what is taken, and twice as much that is refused, each with its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.context.session import LONGEST_LINE, BadEvent, read_session
from leafgate.model.context import ContextItem, ItemKind
from leafgate.model.leaf import CODEC_META_KEY


def read(*lines: bytes | dict[str, Any]) -> list[tuple[int, ContextItem | BadEvent]]:
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return list(read_session(enumerate(raw, 1)))


def only(line: bytes | dict[str, Any]) -> ContextItem:
    ((_, found),) = read(line)
    assert isinstance(found, ContextItem), found
    return found


@pytest.mark.parametrize("kind", ItemKind)
def test_every_kind_is_an_event(kind: ItemKind) -> None:
    assert only({"id": "a", "type": kind.value, "text": "x"}) == ContextItem("a", kind, "x")


def test_everything_an_event_may_have() -> None:
    found = only(
        {"id": "r", "type": "tool_result", "content": [{"type": "text", "text": "x"}], "parent_id": "c",
         "metadata": {"tool_name": "find"}, "unknown": 5}
    )  # fmt: skip
    assert found == ContextItem("r", ItemKind.tool_result, "x", "c", {"tool_name": "find"})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"content": "plain"}, "plain"),
        ({"content": {"total": 3}}, '{"total": 3}'),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": []}, ""),
        ({"content": [{"row": 1}, {"row": 2}]}, '[{"row": 1}, {"row": 2}]'),
        ({"content": [1, None]}, "[1, null]"),
        ({"content": ["a", 1]}, "a\n[int]"),
        ({"content": {"type": "text", "text": "a"}}, "a"),
        ({"content": {"content": [{"type": "text", "text": "a"}], "isError": True}}, "a"),
        ({"content": {"content": [], "structuredContent": {"n": 1}}}, '{"n":1}'),
        ({"content": {"content": ["no block"]}}, '{"content": ["no block"]}'),
        ({"text": ""}, ""),
        ({"text": "x", "content": None}, "x"),
    ],
)
def test_text_or_content(given: dict[str, Any], text: str) -> None:
    assert only({"id": "a", "type": "user_turn", **given}).text == text


def test_ids_may_come_along() -> None:
    leaf = {CODEC_META_KEY: {"map_id": "sha256:" + "0" * 64, "ids": [1, 2]}}
    found = only({"id": "a", "type": "user_turn", "text": "xyz", "_meta": leaf})
    ((start, end, ids),) = [(span.start, span.end, span.payload.ids) for span in found.leaves]
    assert (start, end, ids) == (0, 3, [1, 2])


GOOD = {"id": "a", "type": "user_turn", "text": "x"}


def without(*names: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key not in names}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b"nonsense", "not JSON: Expecting value, at column 1"),
        (b'{"id": NaN}', "NaN is no JSON"),
        (b'{"id": "a"} {"id": "b"}', "not JSON"),
        (b'{"id": ' + b"9" * 5000 + b"}", "not JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b'{"id": "\xc3"}', "not UTF-8 at byte 8"),
        (without("id"), "`id` is missing"),
        ({**GOOD, "id": 5}, "`id` is no string"),
        ({**GOOD, "id": ""}, "`id` must have"),
        ({**GOOD, "id": "a\nb"}, "`id` holds"),
        ({**GOOD, "id": "x" * 500}, "`id` must have"),
        (without("type"), "`type` is missing"),
        ({**GOOD, "type": "assistant"}, "`type` is 'assistant'; it must be one of policy"),
        ({**GOOD, "type": ["user_turn"]}, "`type` is"),
        ({**GOOD, "type": None}, "`type` is"),
        (without("text"), "neither `text` nor `content`"),
        ({**GOOD, "content": "y"}, "both `text` and `content`"),
        ({**GOOD, "text": 5}, "`text` is no string"),
        ({**GOOD, "text": ["x"]}, "`text` is no string"),
        ({**GOOD, "text": "\ud800"}, "lone surrogates"),
        ({**GOOD, "parent_id": 5}, "`parent_id` is no string"),
        ({**GOOD, "parent_id": "[x]"}, "`parent_id` holds"),
        ({**GOOD, "metadata": []}, "`metadata` is no object"),
        ({**GOOD, "metadata": "x"}, "`metadata` is no object"),
    ],
)
def test_what_is_no_event_says_why(line: bytes | dict[str, Any], reason: str) -> None:
    found = read(GOOD, line, {**GOOD, "id": "b"})
    assert [number for number, _ in found] == [1, 2, 3]
    assert isinstance(found[1][1], BadEvent)
    assert reason in str(found[1][1])
    assert isinstance(found[2][1], ContextItem)


def nested(depth: int) -> bytes:
    return b'{"id": "a", "type": "user_turn", "content": ' + b"[" * depth + b"]" * depth + b"}"


def test_what_the_quick_parser_refuses_is_read_all_the_same() -> None:
    recorded = {"direction": "in", "exchange": 1,
                "message": {"id": 1, "method": "tools/call", "params": {"name": "\ud800"}}}  # fmt: skip
    assert only(recorded).text == "\ufffd({})"
    assert only(nested(300)).text.startswith("[[[")
    ((_, deep),) = read(nested(200_000))
    assert str(deep) == "nested too deeply"
    ((_, number),) = read(b'{"n": ' + b"1" * 5000 + b"}")
    assert str(number).startswith("not JSON: ")


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
))  # fmt: skip
def test_both_parsers_read_the_same(metadata: Any) -> None:
    line = json.dumps({**GOOD, "metadata": {"x": metadata}}).encode()
    assert only(line).metadata == json.loads(line)["metadata"]


def test_a_line_may_not_be_endless() -> None:
    ((_, found),) = read(b'"' + b"x" * LONGEST_LINE)
    assert "longer than" in str(found)


def test_blank_lines_are_nothing() -> None:
    assert read(b"", b"  \r\n", b"\n") == []


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["id", "type", "text", "content", "parent_id", "message", "method", "direction", "result"])
        | st.text(max_size=4), inner, max_size=6),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_no_line_breaks_the_reader(line: bytes) -> None:
    for _, found in read_session([(1, line)]):
        assert isinstance(found, ContextItem | BadEvent)
