"""Recorded messages: calls with their results, documents, the gateway's instructions; the rest is protocol."""

from __future__ import annotations

from typing import Any

import pytest

from leafgate.context.recording import MOST_OPEN, Recording, is_recorded
from leafgate.model.context import ContextItem, ItemKind
from leafgate.model.leaf import CODEC_META_KEY


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
