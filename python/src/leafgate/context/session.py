"""Reads a session's lines. In: raw lines with their numbers. Out: items, or why a line is none. Touches nothing.

Two kinds of lines may stand in one file: events as the reference documents write them, and messages of a recording
(context/recording). Every line is foreign: what it holds is checked, and what it holds beyond that is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pydantic_core

from leafgate.context.content import ReadText, is_blocks, read_content, read_result
from leafgate.context.holdings import id_problem
from leafgate.context.recording import Recording, is_recorded
from leafgate.model.context import ContextItem, ItemKind

LONGEST_LINE: Final = 64 * 1024 * 1024
KINDS: Final = {kind.value: kind for kind in ItemKind}


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


class BadEvent(Exception):
    """The line is no event; the message says why."""


def read_session(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, ContextItem | BadEvent]]:
    """What each line holds, in order. A line may hold nothing: blank lines and messages that are no events."""
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
    """What the quick parser refuses: it knows no lone surrogates, less depth, and few words for what is wrong."""
    try:
        return _DECODER.decode(raw.decode())
    except UnicodeDecodeError as error:
        raise BadEvent(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise BadEvent("nested too deeply") from None
    except json.JSONDecodeError as error:  # which would call every line the first
        raise BadEvent(f"not JSON: {error.msg}, at column {error.colno}") from None
    except ValueError as error:
        raise BadEvent(f"not JSON: {error}") from None


def _item(event: Mapping[str, Any]) -> ContextItem:
    problem = "is missing" if "id" not in event else id_problem(event["id"])
    if problem:
        raise BadEvent(f"`id` {problem}")
    kind = _kind(event)
    parent = event.get("parent_id")
    problem = "" if parent is None else id_problem(parent)
    if problem:
        raise BadEvent(f"`parent_id` {problem}")
    metadata = event.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise BadEvent("`metadata` is no object")
    read = _text(event)
    return ContextItem(event["id"], kind, read.text, parent, metadata or {}, read.leaves)


def _kind(event: Mapping[str, Any]) -> ItemKind:
    if "type" not in event:
        raise BadEvent("`type` is missing")
    kind = KINDS.get(event["type"]) if isinstance(event["type"], str) else None
    if kind is None:
        raise BadEvent(f"`type` is {str(event['type'])[:40]!r}; it must be one of {', '.join(KINDS)}")
    return kind


def _text(event: Mapping[str, Any]) -> ReadText:
    text, content = event.get("text"), event.get("content")
    if text is not None and content is not None:
        raise BadEvent("both `text` and `content`; one of them says it all")
    if text is None and content is None:
        raise BadEvent("neither `text` nor `content`")
    if text is not None and not isinstance(text, str):
        raise BadEvent("`text` is no string")
    given = content if text is None else text
    if isinstance(given, str):
        leaf = event.get("_meta")
        read = ReadText(given) if leaf is None else read_content([{"type": "text", "text": given, "_meta": leaf}])
    elif isinstance(given, list) and (not given or any(isinstance(each, str) or is_blocks((each,)) for each in given)):
        read = read_content(given)
    elif isinstance(given, dict) and isinstance(given.get("content"), list) and is_blocks(given["content"]):
        read = read_result(given)
    elif isinstance(given, dict) and is_blocks((given,)):
        read = read_content((given,))
    else:
        read = read_content([{"type": "text", "text": json.dumps(given, ensure_ascii=False)}])
    try:
        read.text.encode()
    except UnicodeEncodeError:
        raise BadEvent("the text holds lone surrogates") from None
    return read
