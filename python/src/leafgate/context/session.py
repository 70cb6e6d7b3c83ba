"""Reads the lines of a session: events as the reference documents write them, and messages of a recording.

Both may be in one file. Every line is foreign: the fields that are used are checked, and all others are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pydantic_core

from leafgate.context.holdings import id_problem
from leafgate.model.context import ContextItem, ItemKind, LeafSpan
from leafgate.model.leaf import CODEC_META_KEY, LeafPayload
from leafgate.tokens.ids import read_payload

BETWEEN_BLOCKS: Final = "\n"
BLOCK_TYPES: Final = frozenset(("text", "image", "audio", "resource", "resource_link"))


@dataclass(frozen=True)
class ReadText:
    """A text, and the spans of it that have ids. The ids are not verified yet."""

    text: str
    leaves: tuple[LeafSpan, ...] = ()


def read_content(blocks: Sequence[Any]) -> ReadText:
    """The texts of the blocks, one per line; other blocks appear as a short description."""
    texts: list[str] = []
    leaves: list[LeafSpan] = []
    at = 0
    for block in blocks:
        text = _text_of(block)
        payload = _payload(block)
        if payload is not None and text:
            leaves.append(LeafSpan(at, at + len(text), payload))
        texts.append(text)
        at += len(text) + len(BETWEEN_BLOCKS)
    return ReadText(BETWEEN_BLOCKS.join(texts), tuple(leaves))


def read_result(result: Mapping[str, Any]) -> ReadText:
    """The text of an MCP result, or its structured content if it has no other."""
    content = result.get("content")
    if not content and result.get("structuredContent") is not None:
        return ReadText(json.dumps(result["structuredContent"], ensure_ascii=False, separators=(",", ":")))
    return read_content(content if isinstance(content, list) else [])


def is_blocks(values: Sequence[Any]) -> bool:
    """Whether these are MCP content blocks, rather than other JSON."""
    return all(isinstance(each, dict) and each.get("type") in BLOCK_TYPES for each in values)


def _text_of(block: Any) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return f"[{type(block).__name__}]"
    if isinstance(block.get("text"), str):
        return str(block["text"])
    inner = block.get("resource")
    if isinstance(inner, dict):
        return inner["text"] if isinstance(inner.get("text"), str) else _describe("resource", inner)
    return _describe(_short(block.get("type")), block)


def _describe(kind: str, about: Mapping[str, Any]) -> str:
    return f"[{' '.join((kind, *(_short(about[name]) for name in ('name', 'uri', 'mimeType') if about.get(name))))}]"


def _short(value: Any) -> str:
    return " ".join(str(value).split())[:120]


def _payload(block: Any) -> LeafPayload | None:
    meta = block.get("_meta") if isinstance(block, dict) and block.get("type") == "text" else None
    payload = read_payload(meta.get(CODEC_META_KEY)) if isinstance(meta, dict) else None
    return payload if payload is None else LeafPayload(payload.map_id, [*payload.ids])


MOST_OPEN: Final = 10_000  # requests without an answer; beyond it the oldest is dropped
METHODS: Final = frozenset(("tools/call", "resources/read", "prompts/get", "initialize", "server/discover"))

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class _Request:
    method: str
    params: Mapping[str, Any]
    item_id: str


def is_recorded(event: Mapping[str, Any]) -> bool:
    """Whether a line is a recorded message, or a note of the recorder, rather than an event."""
    bare = event.get("jsonrpc") == "2.0" or "recorder" in event
    return isinstance(event.get("message"), Mapping) or (bare and "type" not in event)


class Recording:
    """Reads a recording (`leafgate serve --record`), or bare JSON-RPC messages as other recorders write them.

    Answers are matched with their requests by exchange and id. A recording has no turns, because a gateway does not see
    what a user writes. Calls and results, resources, prompts and instructions become items; the rest is skipped.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Request] = {}
        self._instructions: set[str] = set()

    def read(self, line: int, event: Mapping[str, Any]) -> Sequence[ContextItem]:
        """The items of this message. Their ids contain the line number, so they are unique."""
        message = event.get("message", event)
        if not isinstance(message, Mapping) or "id" not in message:
            return ()
        key = json.dumps([event.get("exchange"), message["id"]], default=str)
        is_request = "method" in message
        # A bare message has no direction; its fields show which one it had.
        if event.get("direction", "in" if is_request else "out") != ("in" if is_request else "out"):
            return ()
        if is_request:
            method = message["method"]
            return self._request(line, key, message) if isinstance(method, str) and method in METHODS else ()
        request = self._open.pop(key, None)
        return () if request is None else self._answer(line, request, message)

    def _request(self, line: int, key: str, message: Mapping[str, Any]) -> Sequence[ContextItem]:
        params = message.get("params")
        request = _Request(message["method"], params if isinstance(params, Mapping) else {}, f"call-{line}")
        if len(self._open) >= MOST_OPEN:
            del self._open[next(iter(self._open))]
        self._open[key] = request
        if request.method != "tools/call":
            return ()
        text = _replace_surrogates(f"{request.params.get('name')}({_to_json(request.params.get('arguments') or {})})")
        return (ContextItem(request.item_id, ItemKind.tool_call, text),)

    def _answer(self, line: int, request: _Request, message: Mapping[str, Any]) -> Sequence[ContextItem]:
        result = message.get("result")
        if request.method == "tools/call":
            failed, read = True, ReadText(f"error: {_to_json(message.get('error'))}")
            if isinstance(result, Mapping):
                failed, read = result.get("isError") is True, read_result(result)
            about = {"is_error": True} if failed else {}
            text = _replace_surrogates(read.text)
            return (ContextItem(f"result-{line}", ItemKind.tool_result, text, request.item_id, about, read.leaves),)
        if not isinstance(result, Mapping):
            return ()
        if request.method in ("initialize", "server/discover"):
            policy = result.get("instructions")
            # Every client that connects gets the gateway's instructions again; they become one item.
            if not isinstance(policy, str) or not policy or policy in self._instructions:
                return ()
            self._instructions.add(policy)
            return (ContextItem(f"policy-{line}", ItemKind.policy, _replace_surrogates(policy)),)
        if request.method == "resources/read":
            contents, name = _list(result.get("contents")), request.params.get("uri")
        else:
            messages, name = _list(result.get("messages")), request.params.get("name")
            contents = [message.get("content") for message in messages if isinstance(message, Mapping)]
        read = read_content(contents)
        source = {"source": name} if isinstance(name, str) else {}
        text = _replace_surrogates(read.text)
        return (ContextItem(f"document-{line}", ItemKind.doc_snippet, text, None, source, read.leaves),)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be tokenized. The replacement has the same length, so spans stay valid."""
    return _SURROGATE.sub("\ufffd", text)


LONGEST_LINE: Final = 64 * 1024 * 1024
KINDS: Final = {kind.value: kind for kind in ItemKind}


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


class BadEvent(Exception):
    """The line is not an event; the message says why."""


def read_session(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, ContextItem | BadEvent]]:
    """The items of all lines in order, or why a line has none. Blank lines and other messages have no items."""
    recording = Recording()
    for number, raw in lines:
        if not raw.strip():
            continue
        try:
            event = _parse(raw)
            items = recording.read(number, event) if is_recorded(event) else (_item(event),)
        except BadEvent as bad:
            yield number, bad
            continue
        for item in items:
            yield number, item


def _parse(raw: bytes) -> dict[str, Any]:
    if len(raw) > LONGEST_LINE:
        raise BadEvent(f"longer than {LONGEST_LINE} bytes")
    try:
        event = pydantic_core.from_json(raw, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        event = _parse_slowly(raw)
    if not isinstance(event, dict):
        raise BadEvent("not a JSON object")
    return event


def _parse_slowly(raw: bytes) -> Any:
    """Parse what the fast parser refuses, such as lone surrogates and great depth, or say why it is not JSON."""
    try:
        return _DECODER.decode(raw.decode())
    except UnicodeDecodeError as error:
        raise BadEvent(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise BadEvent("nested too deeply") from None
    except json.JSONDecodeError as error:  # its own text would name the line as line 1
        raise BadEvent(f"not JSON: {error.msg}, at column {error.colno}") from None
    except ValueError as error:
        raise BadEvent(f"not JSON: {error}") from None


def _item(event: Mapping[str, Any]) -> ContextItem:
    if problem := "is missing" if "id" not in event else id_problem(event["id"]):
        raise BadEvent(f"`id` {problem}")
    if "type" not in event:
        raise BadEvent("`type` is missing")
    kind = KINDS.get(event["type"]) if isinstance(event["type"], str) else None
    if kind is None:
        raise BadEvent(f"`type` is {str(event['type'])[:40]!r}; it must be one of {', '.join(KINDS)}")
    parent = event.get("parent_id")
    if parent is not None and (problem := id_problem(parent)):
        raise BadEvent(f"`parent_id` {problem}")
    metadata = event.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise BadEvent("`metadata` is not an object")
    read = _text(event)
    return ContextItem(event["id"], kind, read.text, parent, metadata or {}, read.leaves)


def _text(event: Mapping[str, Any]) -> ReadText:
    text, content = event.get("text"), event.get("content")
    if text is not None and content is not None:
        raise BadEvent("both `text` and `content`; only one is allowed")
    if text is None and content is None:
        raise BadEvent("neither `text` nor `content`")
    if text is not None and not isinstance(text, str):
        raise BadEvent("`text` is not a string")
    value = content if text is None else text
    if isinstance(value, str):
        leaf = event.get("_meta")
        read = ReadText(value) if leaf is None else read_content([{"type": "text", "text": value, "_meta": leaf}])
    elif isinstance(value, list) and (not value or any(isinstance(each, str) or is_blocks((each,)) for each in value)):
        read = read_content(value)
    elif isinstance(value, dict) and isinstance(value.get("content"), list) and is_blocks(value["content"]):
        read = read_result(value)
    elif isinstance(value, dict) and is_blocks((value,)):
        read = read_content((value,))
    else:
        read = read_content([{"type": "text", "text": json.dumps(value, ensure_ascii=False)}])
    try:
        read.text.encode()
    except UnicodeEncodeError:
        raise BadEvent("the text holds lone surrogates") from None
    return read
