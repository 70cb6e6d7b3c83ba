"""Recorded messages as items. In: lines of `leafgate serve --record`, already parsed. Out: items. Touches nothing.

A recording has JSON-RPC messages, and no turns: nobody tells a gateway what a person said. Calls and their results,
resources that were read, prompts that were got, and the gateway's instructions become items; the rest is protocol.
Lines that are bare JSON-RPC messages, as other recorders write them, are read as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.context.content import ReadText, read_content, read_result
from leafgate.model.context import ContextItem, ItemKind

MOST_OPEN: Final = 10_000  # requests without an answer; beyond, the oldest is forgotten

TOLD: Final = frozenset(("tools/call", "resources/read", "prompts/get", "initialize", "server/discover"))

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class _Asked:
    method: str
    params: Mapping[str, Any]
    item_id: str


def is_recorded(event: Mapping[str, Any]) -> bool:
    """Whether a line is a recorded message, or a note that the recorder left, rather than an event."""
    bare = event.get("jsonrpc") == "2.0" or "recorder" in event
    return isinstance(event.get("message"), Mapping) or (bare and "type" not in event)


class Recording:
    """Follows one recording; answers are matched with their requests by exchange and id."""

    def __init__(self) -> None:
        self._open: dict[str, _Asked] = {}
        self._instructions: set[str] = set()

    def read(self, line: int, event: Mapping[str, Any]) -> Sequence[ContextItem]:
        """The items that this message makes. Ids are made of line numbers, and so are unique."""
        message = event.get("message", event)
        if not isinstance(message, Mapping) or "id" not in message:
            return ()
        key = json.dumps([event.get("exchange"), message["id"]], default=str)
        asks = "method" in message
        # A bare message has no direction; what it holds says which one it must have had.
        if event.get("direction", "in" if asks else "out") != ("in" if asks else "out"):
            return ()
        if asks:
            method = message["method"]
            return self._request(line, key, message) if isinstance(method, str) and method in TOLD else ()
        asked = self._open.pop(key, None)
        return () if asked is None else self._answer(line, asked, message)

    def _request(self, line: int, key: str, message: Mapping[str, Any]) -> Sequence[ContextItem]:
        params = message.get("params")
        asked = _Asked(message["method"], params if isinstance(params, Mapping) else {}, f"call-{line}")
        if len(self._open) >= MOST_OPEN:
            del self._open[next(iter(self._open))]
        self._open[key] = asked
        if asked.method != "tools/call":
            return ()
        text = _sound(f"{asked.params.get('name')}({_written(asked.params.get('arguments') or {})})")
        return (ContextItem(asked.item_id, ItemKind.tool_call, text),)

    def _answer(self, line: int, asked: _Asked, message: Mapping[str, Any]) -> Sequence[ContextItem]:
        result = message.get("result")
        if asked.method == "tools/call":
            read = _result_text(message)
            about = {"is_error": True} if _failed(message) else {}
            return (ContextItem(f"result-{line}", ItemKind.tool_result, read.text, asked.item_id, about, read.leaves),)
        if not isinstance(result, Mapping):
            return ()
        if asked.method in ("initialize", "server/discover"):
            return self._policy(line, result.get("instructions"))
        if asked.method == "resources/read":
            return _document(line, read_content(_list(result.get("contents"))), asked.params.get("uri"))
        if asked.method == "prompts/get":
            said = [m.get("content") for m in _list(result.get("messages")) if isinstance(m, Mapping)]
            return _document(line, read_content(said), asked.params.get("name"))
        return ()

    def _policy(self, line: int, instructions: Any) -> Sequence[ContextItem]:
        """The gateway's instructions, once: every client that connects is told them again."""
        if not isinstance(instructions, str) or not instructions or instructions in self._instructions:
            return ()
        self._instructions.add(instructions)
        return (ContextItem(f"policy-{line}", ItemKind.policy, _sound(instructions)),)


def _document(line: int, read: ReadText, name: Any) -> Sequence[ContextItem]:
    source = {"source": name} if isinstance(name, str) else {}
    return (ContextItem(f"document-{line}", ItemKind.doc_snippet, _sound(read.text), None, source, read.leaves),)


def _result_text(message: Mapping[str, Any]) -> ReadText:
    result = message.get("result")
    if not isinstance(result, Mapping):
        error = message.get("error")
        return ReadText(_sound(f"error: {_written(error)}"))
    read = read_result(result)
    return ReadText(_sound(read.text), read.leaves)


def _failed(message: Mapping[str, Any]) -> bool:
    result = message.get("result")
    return not isinstance(result, Mapping) or result.get("isError") is True


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _sound(text: str) -> str:
    """Lone surrogates have no tokenization. What replaces them is as long, so leaves stay where they are."""
    return _SURROGATE.sub("\ufffd", text)
