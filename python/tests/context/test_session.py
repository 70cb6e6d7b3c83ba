"""The text of content blocks, and the leaves on them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.context.session import (
    LONGEST_LINE,
    MOST_OPEN,
    BadEvent,
    Recording,
    is_recorded,
    read_content,
    read_session,
)
from leafgate.model.context import ContextItem, ItemKind, LeafSpan
from leafgate.model.leaf import CODEC_META_KEY, LeafPayload

DIGEST = "sha256:" + "ab" * 32


def block(text: str, ids: Any = None, map_id: Any = DIGEST, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": text, "_meta": {CODEC_META_KEY: {"map_id": map_id, "ids": ids}}}


def test_texts_are_joined_by_lines_and_leaves_stay_with_them() -> None:
    read = read_content(
        [block("one", [1, 2]), {"type": "text", "text": "two"}, block("three", [3], DIGEST.upper()[7:])]
    )
    assert read.text == "one\ntwo\nthree"
    assert read.leaves == (LeafSpan(0, 3, LeafPayload(DIGEST, [1, 2])), LeafSpan(8, 13, LeafPayload(DIGEST, [3])))
    assert [read.text[span.start : span.end] for span in read.leaves] == ["one", "three"]


@pytest.mark.parametrize(
    "wrong",
    [
        block("x", None),
        block("x", "1"),
        block("x", {"0": 1}),
        block("x", [1], "sha256:short"),
        block("x", [1], None),
        block("", [1]),
        block("x", [1], kind="image"),
        {"type": "text", "text": "x", "_meta": None},
        {"type": "text", "text": "x", "_meta": {CODEC_META_KEY: [1]}},
    ],
)
def test_what_is_no_leaf_is_none(wrong: dict[str, Any]) -> None:
    assert read_content([wrong]).leaves == ()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("plain", "plain"),
        ({"type": "image", "mimeType": "image/png", "data": "AAAA"}, "[image image/png]"),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}, "inside"),
        ({"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}}, "[resource file:///a]"),
        ({"type": "resource", "resource": {"blob": "", "mimeType": "a/b"}}, "[resource a/b]"),
        ({"type": "resource_link", "uri": "file:///a", "name": "A\nfile"}, "[resource_link A file file:///a]"),
        ({"uri": "file:///a", "text": "a resource's own contents"}, "a resource's own contents"),
        (5, "[int]"),
        (None, "[NoneType]"),
        ({}, "[None]"),
    ],
)
def test_other_blocks_are_told_in_a_few_words(given: Any, text: str) -> None:
    assert read_content([given]).text == text


def line(direction: str, exchange: int, **message: Any) -> dict[str, Any]:
    return {"time": "now", "direction": direction, "exchange": exchange, "message": {"jsonrpc": "2.0", **message}}


def read(*lines: dict[str, Any]) -> list[ContextItem]:
    recording = Recording()
    return [item for number, each in enumerate(lines, 1) for item in recording.read(number, each)]


def asked(exchange: int, method: str = "tools/call", **params: Any) -> dict[str, Any]:
    return line("in", exchange, id=7, method=method, params=params)


def answered(exchange: int, **result: Any) -> dict[str, Any]:
    return line("out", exchange, id=7, result=result)


TEXT = {"type": "text", "text": "done"}


def test_a_call_and_its_result() -> None:
    call, result = read(asked(1, name="find", arguments={"q": "größe"}), answered(1, content=[TEXT]))
    assert call == ContextItem("call-1", ItemKind.tool_call, 'find({"q":"größe"})')
    assert result == ContextItem("result-2", ItemKind.tool_result, "done", "call-1")


def test_answers_find_their_calls_though_ids_repeat() -> None:
    items = read(
        asked(1, name="a"), asked(2, name="b"), answered(2, content=[{"type": "text", "text": "B"}]),
        answered(1, content=[{"type": "text", "text": "A"}]),
    )  # fmt: skip
    assert [(item.id, item.text, item.parent_id) for item in items] == [
        ("call-1", "a({})", None),
        ("call-2", "b({})", None),
        ("result-3", "B", "call-2"),
        ("result-4", "A", "call-1"),
    ]


def test_failures_are_results() -> None:
    error = line("out", 1, id=7, error={"code": -32602, "message": "no"})
    items = read(asked(1, name="a"), error, asked(2, name="b"), answered(2, content=[TEXT], isError=True))
    assert [(item.text, dict(item.metadata)) for item in items if item.kind is ItemKind.tool_result] == [
        ('error: {"code":-32602,"message":"no"}', {"is_error": True}),
        ("done", {"is_error": True}),
    ]


def test_structured_content_counts_where_there_is_no_other() -> None:
    _, only = read(asked(1, name="a"), answered(1, content=[], structuredContent={"n": 1}))
    assert only.text == '{"n":1}'


def test_leaves_are_kept() -> None:
    leaf = {CODEC_META_KEY: {"map_id": "sha256:" + "0" * 64, "ids": [5, 6]}}
    _, result = read(asked(1, name="a"), answered(1, content=[{**TEXT, "_meta": leaf}]))
    assert [span.payload.ids for span in result.leaves] == [[5, 6]]


def test_documents_and_instructions() -> None:
    items = read(
        asked(1, "initialize"), answered(1, instructions="Be kind."),
        asked(2, "server/discover"), answered(2, instructions="Be kind."),
        asked(3, "resources/read", uri="file:///a"), answered(3, contents=[{"uri": "file:///a", "text": "page"}]),
        asked(4, "prompts/get", name="greet"), answered(4, messages=[{"role": "user", "content": TEXT}]),
    )  # fmt: skip
    assert [(item.kind.value, item.text, dict(item.metadata)) for item in items] == [
        ("policy", "Be kind.", {}),
        ("doc_snippet", "page", {"source": "file:///a"}),
        ("doc_snippet", "done", {"source": "greet"}),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        [asked(1, "tools/list"), answered(1, tools=[])],
        [asked(1, "ping"), answered(1)],
        [line("in", 1, method="notifications/initialized")],
        [line("out", 1, id=7, result={"content": [TEXT]})],
        [line("out", 1, id=7, method="sampling/createMessage", params={})],
        [line("in", 1, id=7, result={"content": [TEXT]})],
        [asked(1, "resources/read"), line("out", 1, id=7, error={})],
        [asked(1, "initialize"), answered(1, instructions=5)],
        [{"recorder": "3 messages were dropped"}],
        [{"direction": "in", "message": {}}],
        [{"message": {"id": {"a": []}, "method": 5}}],
    ],
)
def test_the_rest_is_protocol(lines: list[dict[str, Any]]) -> None:
    assert all(is_recorded(each) for each in lines)
    assert read(*lines) == []


def test_an_event_is_no_message() -> None:
    assert not is_recorded({"id": "a", "type": "user_turn", "text": "x"})
    assert not is_recorded({"id": "a", "type": "user_turn", "text": "x", "message": "y", "recorder": "z"})


def test_lone_surrogates_are_replaced_in_place() -> None:
    _, result = read(asked(1, name="a"), answered(1, content=[{"type": "text", "text": "a\ud800b"}]))
    assert result.text == "a\ufffdb"


def test_requests_without_answers_are_forgotten_in_time() -> None:
    recording = Recording()
    for number in range(MOST_OPEN + 10):
        recording.read(number, asked(number, name="a"))
    assert recording.read(1, answered(0, content=[TEXT])) == ()
    assert len(recording.read(1, answered(MOST_OPEN + 9, content=[TEXT]))) == 1


def test_bare_messages_of_other_recorders_are_read() -> None:
    called = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "find", "arguments": {"q": 1}}}
    asked_back = {"jsonrpc": "2.0", "id": 3, "method": "ping"}
    done = {"jsonrpc": "2.0", "id": 3, "result": {"content": [TEXT]}}
    assert all(map(is_recorded, (called, asked_back, done)))
    assert [(item.id, item.text, item.parent_id) for item in read(called, asked_back, done, done)] == [
        ("call-1", 'find({"q":1})', None),
        ("result-3", "done", "call-1"),
    ]


@pytest.mark.parametrize(
    "bare",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": ["tools/call"]},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": None},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "direction": "out"},
        {"jsonrpc": "2.0", "message": []},
    ],
)
def test_bare_messages_that_are_no_events(bare: dict[str, Any]) -> None:
    assert is_recorded(bare)
    assert read(bare) == []


def read_lines(*lines: bytes | dict[str, Any]) -> list[tuple[int, ContextItem | BadEvent]]:
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return list(read_session(enumerate(raw, 1)))


def only(line: bytes | dict[str, Any]) -> ContextItem:
    ((_, found),) = read_lines(line)
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
        (b'{"id": NaN}', "NaN is not JSON"),
        (b'{"id": "a"} {"id": "b"}', "not JSON"),
        (b'{"id": ' + b"9" * 5000 + b"}", "not JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b'{"id": "\xc3"}', "not UTF-8 at byte 8"),
        (without("id"), "`id` is missing"),
        ({**GOOD, "id": 5}, "`id` is not a string"),
        ({**GOOD, "id": ""}, "`id` must have"),
        ({**GOOD, "id": "a\nb"}, "`id` holds"),
        ({**GOOD, "id": "x" * 500}, "`id` must have"),
        (without("type"), "`type` is missing"),
        ({**GOOD, "type": "assistant"}, "`type` is 'assistant'; it must be one of policy"),
        ({**GOOD, "type": ["user_turn"]}, "`type` is"),
        ({**GOOD, "type": None}, "`type` is"),
        (without("text"), "neither `text` nor `content`"),
        ({**GOOD, "content": "y"}, "both `text` and `content`"),
        ({**GOOD, "text": 5}, "`text` is not a string"),
        ({**GOOD, "text": ["x"]}, "`text` is not a string"),
        ({**GOOD, "text": "\ud800"}, "lone surrogates"),
        ({**GOOD, "parent_id": 5}, "`parent_id` is not a string"),
        ({**GOOD, "parent_id": "[x]"}, "`parent_id` holds"),
        ({**GOOD, "metadata": []}, "`metadata` is not an object"),
        ({**GOOD, "metadata": "x"}, "`metadata` is not an object"),
    ],
)
def test_what_is_no_event_says_why(line: bytes | dict[str, Any], reason: str) -> None:
    found = read_lines(GOOD, line, {**GOOD, "id": "b"})
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
    ((_, deep),) = read_lines(nested(200_000))
    assert str(deep) == "nested too deeply"
    ((_, number),) = read_lines(b'{"n": ' + b"1" * 5000 + b"}")
    assert str(number).startswith("not JSON: ")


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
))  # fmt: skip
def test_both_parsers_read_the_same(metadata: Any) -> None:
    line = json.dumps({**GOOD, "metadata": {"x": metadata}}).encode()
    assert only(line).metadata == json.loads(line)["metadata"]


def test_a_line_may_not_be_endless() -> None:
    ((_, found),) = read_lines(b'"' + b"x" * LONGEST_LINE)
    assert "longer than" in str(found)


def test_blank_lines_are_nothing() -> None:
    assert read_lines(b"", b"  \r\n", b"\n") == []


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["id", "type", "text", "content", "parent_id", "message", "method", "direction", "result"])
        | st.text(max_size=4), inner, max_size=6),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_no_line_breaks_the_reader(line: bytes) -> None:
    for _, found in read_session([(1, line)]):
        assert isinstance(found, ContextItem | BadEvent)
