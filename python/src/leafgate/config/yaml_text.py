"""Reads YAML into plain values. In: a text. Out: Parsed. Touches nothing.

Built from the parser's events: no tag makes an object, `yes`, `on` and dates are texts as in YAML 1.2, repeated keys
are told, and aliases count for what they stand for, so that a small file cannot become a large value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from leafgate.config.parsed import MAX_DEPTH, Malformed, Parsed, repeated
from leafgate.config.problem import KeyPath, Problem

MAX_VALUES: Final = 100_000
MERGE: Final = "<<"
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,399})")
_OTHER_INTEGER: Final = re.compile(r"0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,9})?")
_WORDS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
_TAG: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = ("str", "int", "float", "bool", "null")


def parse_yaml(text: str) -> Parsed:
    """The value in the text; None where it is empty."""
    try:
        reading = _Reading(yaml.parse(text, Loader=_LOADER))
        value = reading.document()
    except yaml.YAMLError as error:
        raise Malformed(_told(error), _line_of(error)) from None
    return Parsed(value, reading.lines, reading.literals, tuple(reading.problems))


def _told(error: yaml.YAMLError) -> str:
    # Only the parser's own words: the excerpt that it can show is the file's content.
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    context, mark = getattr(error, "context", None), getattr(error, "context_mark", None)
    begun = f" ({context}, begun on line {mark.line + 1})" if context and mark is not None else ""
    return f"{said}{begun}; look at the indentation (spaces, never tabs), colons and quotes there"


def _line_of(error: yaml.YAMLError) -> int | None:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return None if mark is None else mark.line + 1


class _Reading:
    """One pass over the events of a text."""

    def __init__(self, events: Iterator[Event]) -> None:
        self.events = events
        self.lines: dict[KeyPath, int] = {}
        self.literals: dict[KeyPath, str] = {}
        self.problems: list[Problem] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._size = 0

    def document(self) -> Any:
        found: list[Any] = []
        for event in self.events:
            if isinstance(event, ScalarEvent | MappingStartEvent | SequenceStartEvent | AliasEvent):
                if found:
                    raise Malformed("the file holds several documents; keep one", _line(event))
                found.append(self._value(event, ()))
        return found[0] if found else None

    def _value(self, event: Event, path: KeyPath) -> Any:
        if len(path) > MAX_DEPTH:
            raise Malformed("nested too deeply", _line(event))
        self.lines.setdefault(path, _line(event))
        if isinstance(event, AliasEvent):
            return self._alias(event, len(path))
        before = self._size
        self._grow(1, event)
        if isinstance(event, ScalarEvent):
            value = self._scalar(event, path)
        elif isinstance(event, MappingStartEvent):
            value = self._mapping(event, path)
        else:
            assert isinstance(event, SequenceStartEvent)
            value = self._sequence(event, path)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._size - before)
        return value

    def _grow(self, by: int, event: Event) -> None:
        self._size += by
        if self._size > MAX_VALUES:
            raise Malformed(f"more than {MAX_VALUES} values", _line(event))

    def _alias(self, event: AliasEvent, depth: int) -> Any:
        if event.anchor not in self._anchors:
            raise Malformed("the alias stands for nothing above it", _line(event))
        value, size = self._anchors[event.anchor]
        self._grow(size, event)
        if depth + _height(value) > MAX_DEPTH:
            raise Malformed("nested too deeply", _line(event))
        return value

    def _mapping(self, event: MappingStartEvent, path: KeyPath) -> dict[str, Any]:
        _only(event, "map")
        found: dict[str, Any] = {}
        inherited: dict[str, tuple[Any, int]] = {}
        while not isinstance(event_of_key := next(self.events), MappingEndEvent):
            if not isinstance(event_of_key, ScalarEvent):
                raise Malformed("a key is a text", _line(event_of_key))
            key, line = event_of_key.value, _line(event_of_key)
            here = (*path, key)
            if key in found:
                self.problems.append(repeated(here, self.lines[here], line))
            self.lines.setdefault(here, line)
            value = self._value(next(self.events), here)
            if key == MERGE and event_of_key.implicit[0]:
                inherited |= {name: (each, line) for name, each in self._merged(value, line).items()}
            else:
                found[key] = value
        for name, (each, line) in inherited.items():
            if name not in found:
                found[name] = each
                self.lines.setdefault((*path, name), line)
        return found

    def _merged(self, value: Any, line: int) -> dict[str, Any]:
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise Malformed("<< takes an alias of an object, or a list of them", line)
        return {name: each for source in reversed(sources) for name, each in source.items()}

    def _sequence(self, event: SequenceStartEvent, path: KeyPath) -> list[Any]:
        _only(event, "seq")
        found: list[Any] = []
        while not isinstance(inner := next(self.events), SequenceEndEvent):
            found.append(self._value(inner, (*path, len(found))))
        return found

    def _scalar(self, event: ScalarEvent, path: KeyPath) -> Any:
        written: str = event.value
        if event.tag is not None and event.tag != "!":
            _only(event, *_SCALAR_TAGS)
        if not event.implicit[0] and event.tag in (None, "!", f"{_TAG}str"):
            return written
        value = _plain(written)
        if not isinstance(value, str):
            self.literals[path] = written
        return value


def _height(value: Any) -> int:
    """How many levels a value has below it."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_height(each) for each in inner), default=-1)


def _plain(written: str) -> Any:
    """What a scalar without quotes means in YAML 1.2, but that a number with a leading zero stays a text."""
    if written in _WORDS:
        return _WORDS[written]
    if _INTEGER.fullmatch(written):
        return int(written)
    if _OTHER_INTEGER.fullmatch(written):
        return int(written, 0)
    if _FLOAT.fullmatch(written) and not re.match(r"[-+]?0[0-9]", written) and not written.lstrip("-+").isdigit():
        return float(written)
    return written


def _only(event: Any, *names: str) -> None:
    if event.tag is not None and event.tag not in ("!", *(_TAG + name for name in names)):
        raise Malformed("a tag (the word with !) is not taken here; leave it out", _line(event))


def _line(event: Event) -> int:
    return 1 if event.start_mark is None else event.start_mark.line + 1
