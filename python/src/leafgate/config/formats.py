"""Parses YAML, TOML and JSON into plain values with the line of each key.

Values are dicts with text keys, lists and scalars, bounded in depth. A key that is given twice is reported with both
lines, where most parsers silently use the last.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time
from json import JSONDecodeError, JSONDecoder
from typing import Any, ClassVar, Final, NamedTuple

import yaml

KeyPath = tuple[str | int, ...]

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 100_000
_TOO_DEEP: Final = "nested too deeply"


class Malformed(Exception):
    """The text is not of its format; caught where the name of the file is at hand."""

    def __init__(self, what: str, line: int | None) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


class Span(NamedTuple):
    """Where a member of an object is in a text: its key, and its value from `start` to `end`. An entry of a list has
    its value in place of a key."""

    key: int
    start: int
    end: int


@dataclass(frozen=True)
class Parsed:
    """A value, and the line of each key path.

    `literals` has numbers and booleans as they were written; `repeats` the keys that are given twice, with both lines;
    `spans` the places of members and entries. In TOML a table has its header in place of a key.
    """

    value: Any
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    literals: Mapping[KeyPath, str] = field(default_factory=dict)
    repeats: Sequence[tuple[KeyPath, int, int]] = ()
    spans: Mapping[KeyPath, Span] = field(default_factory=dict)


class _Parser:
    """What every parser records while it reads."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.literals: dict[KeyPath, str] = {}
        self.repeats: list[tuple[KeyPath, int, int]] = []
        self.spans: dict[KeyPath, Span] = {}

    def parsed(self, value: Any) -> Parsed:
        return Parsed(value, self.lines, self.literals, self.repeats, self.spans)

    def note_key(self, path: KeyPath, line: int, *, is_repeated: bool) -> None:
        if is_repeated:
            self.repeats.append((path, self.lines[path], line))
        self.lines.setdefault(path, line)


class _Scanner(_Parser):
    """A parser with a position in a text. `blank` matches what may be between values."""

    blank: ClassVar[re.Pattern[str]]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.place = 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]

    def line(self) -> int:
        return bisect_right(self._newlines, self.place - 1) + 1

    def malformed(self, what: str) -> Malformed:
        return Malformed(what, self.line())

    def is_at(self, sign: str) -> bool:
        return self.text.startswith(sign, self.place)

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Skip what the pattern matches here, or raise Malformed."""
        match = pattern.match(self.text, self.place)
        if match is None:
            raise self.malformed(what)
        self.place = match.end()
        return match

    def skip(self) -> None:
        self.match(self.blank, "")  # it also matches the empty text

    def expect(self, sign: str, what: str = "") -> None:
        self.skip()
        if not self.is_at(sign):
            raise self.malformed(what)
        self.place += len(sign)

    def entries(self, end: str) -> Iterator[int]:
        """Yield at each entry of an object or array, and stop after its end. A trailing comma is allowed."""
        self.place += 1
        self.skip()
        index = 0
        while not self.is_at(end):
            yield index
            index += 1
            self.skip()
            if self.is_at(","):
                self.place += 1
                self.skip()
            elif not self.is_at(end):
                raise self.malformed(f"a comma or {end} is needed here")
        self.place += 1


# JSON, also with comments and trailing commas, as editors keep it

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_STRINGS: Final = JSONDecoder()
_JSON_WORDS: Final = {"true": True, "false": False, "null": None}
_LONGEST_NUMBER: Final = 400
JSON_BLANK: Final = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*[\s\S]*?\*/)*")


def parse_json(text: str) -> Parsed:
    """The value in the text."""
    parser = _JsonParser(text)
    value = parser.value((), 0)
    parser.skip()
    if parser.place < len(text):
        raise parser.malformed("unexpected text after the end of the value")
    return parser.parsed(value)


class _JsonParser(_Scanner):
    blank = JSON_BLANK

    def skip(self) -> None:
        super().skip()
        if self.is_at("/*"):
            raise self.malformed("a comment begins here and does not end; close it with */")

    def value(self, path: KeyPath, key_place: int) -> Any:
        if len(path) > MAX_DEPTH:
            raise self.malformed(_TOO_DEEP)
        self.skip()
        self.lines.setdefault(path, self.line())
        start = self.place
        match self.text[start : start + 1]:
            case "{":
                value: Any = self.object(path)
            case "[":
                value = [self.value((*path, index), self.place) for index in self.entries("]")]
            case '"':
                value = self.string()
            case "":
                raise self.malformed("the text ends where a value is needed")
            case _:
                value = self.scalar(path)
        self.spans[path] = Span(key_place, start, self.place)
        return value

    def object(self, path: KeyPath) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for _ in self.entries("}"):
            if not self.is_at('"'):
                raise self.malformed("a key in double quotes, or }, is needed here")
            place, line, key = self.place, self.line(), self.string()
            self.note_key((*path, key), line, is_repeated=key in members)
            self.expect(":", "a colon is needed after the key")
            members[key] = self.value((*path, key), place)
        return members

    def string(self) -> str:
        try:
            text, self.place = _STRINGS.raw_decode(self.text, self.place)
        except JSONDecodeError as error:
            self.place = min(error.pos, len(self.text))
            raise self.malformed(f"a text is broken: {error.msg}") from None
        return str(text)

    def scalar(self, path: KeyPath) -> Any:
        for word, meaning in _JSON_WORDS.items():
            if self.is_at(word):
                self.place += len(word)
                self.literals[path] = word
                return meaning
        number = self.match(_NUMBER, "a value is needed here; put texts in double quotes")
        if len(number[0]) > _LONGEST_NUMBER:
            raise self.malformed("a number is too long")
        self.literals[path] = number[0]
        return float(number[0]) if number[1] or number[2] else int(number[0])


# TOML: the values are those of the standard library, which gives no positions

_PLACE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_CLASH: Final = re.compile("Cannot|Duplicate")
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'")
_TOML_SCALAR: Final = re.compile(
    r"\"\"\"(?:[^\\]|\\[\s\S])*?\"\"\"\"{0,2}|'''[\s\S]*?''''{0,2}|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'"
    r"|[^\s,#\]}]+(?: [0-9][^\s,#\]}]*)?"
)


def parse_toml(text: str) -> Parsed:
    """The value in the text. Dates and times are texts here, as in the other formats."""
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise Malformed(_TOO_DEEP, None) from None
    except ValueError as error:
        message = str(error)
    else:
        return toml_lines(text).parsed(_plain_toml(value, 0))
    place = _PLACE.search(message)
    line = int(place[1]) if place and place[1] else text.rstrip("\n").count("\n") + 1
    # A repeated key is reported as in the other formats: with both lines.
    repeats = toml_lines(text).repeats if _CLASH.match(message) else []
    for repeat in repeats:
        if repeat[2] <= line:
            return Parsed({}, repeats=(repeat,))
    raise Malformed(message[: place.start()] if place else message.split("\n", 1)[0], line)


def _plain_toml(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise Malformed(_TOO_DEEP, None)
    if isinstance(value, dict):
        return {key: _plain_toml(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain_toml(each, depth + 1) for each in value]
    return value.isoformat() if isinstance(value, datetime | date | time) else value


def toml_lines(text: str) -> _TomlWalk:
    """Find the line of each key and table, and the keys that are given twice.

    Ends early, without an error, where the text is not TOML.
    """
    walk = _TomlWalk(text)
    with suppress(Malformed):
        walk.statements()
    return walk


class _TomlWalk(_Scanner):
    blank = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lines[()] = 1
        self._once: set[KeyPath] = set()  # keys and tables that may not be repeated
        self._last: dict[KeyPath, int] = {}  # the index of the last table of each [[array]] so far

    def statements(self) -> None:
        table: KeyPath = ()
        self.skip()
        while self.place < len(self.text):
            line, start = self.line(), self.place
            if self.is_at("[["):
                *outer, name = self.keys("[[")
                self.expect("]]")
                array = (*self.resolve(outer), name)
                self._last[array] = self._last.get(array, -1) + 1
                table = (*array, self._last[array])
                self.lines.setdefault(array, line)
                self.lines.setdefault(table, line)
            elif self.is_at("["):
                table = self.resolve(self.keys("["))
                self.expect("]")
                self.note_once(table, line)
            else:
                self.pair(table)
                start = self.spans[table].key if table in self.spans else -1
            if table and start >= 0:
                self.spans[table] = Span(start, start, self.place)
            self.skip()

    def resolve(self, keys: Sequence[str]) -> KeyPath:
        """A header's keys, with the last table of an array for each that names one."""
        path: KeyPath = ()
        for key in keys:
            path = (*path, key)
            if path in self._last:
                path = (*path, self._last[path])
        return path

    def pair(self, table: KeyPath) -> None:
        line, start, path = self.line(), self.place, (*table, *self.keys(""))
        self.expect("=")
        for length in range(len(table) + 1, len(path)):
            self.lines.setdefault(path[:length], line)
        self.note_once(path, line)
        self.skip()
        place = self.place
        self.value(path)
        self.spans[path] = Span(start, place, self.place)

    def value(self, path: KeyPath) -> None:
        if len(path) > MAX_DEPTH:
            raise self.malformed(_TOO_DEEP)
        if self.is_at("["):
            for index in self.entries("]"):
                self.lines.setdefault((*path, index), self.line())
                self.value((*path, index))
        elif self.is_at("{"):
            for _ in self.entries("}"):
                self.pair(path)
        else:
            self.match(_TOML_SCALAR, "a value is needed here")

    def keys(self, sign: str) -> list[str]:
        """The keys of a dotted key behind this sign."""
        keys: list[str] = []
        while sign == "." or not keys:
            self.expect(sign)
            self.skip()
            key = self.match(_KEY, "a key is needed here")[0]
            try:
                keys.append(next(iter(tomllib.loads(f"{key} = 0"))) if key[0] in "'\"" else key)
            except ValueError:
                raise self.malformed("a key is needed here") from None
            self.skip()
            sign = "." if self.is_at(".") else ""
        return keys

    def note_once(self, path: KeyPath, line: int) -> None:
        self.note_key(path, line, is_repeated=path in self._once)
        self._once.add(path)


# YAML: on the parser's events, so that no tag makes an object, and `yes`, `on` and dates are texts as in YAML 1.2

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,399})")
_OTHER_INTEGER: Final = re.compile(r"0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,9})?")
_YAML_WORDS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
_TAG: Final = "tag:yaml.org,2002:"
_TAGS: Final = {
    yaml.ScalarEvent: {_TAG + name for name in ("str", "int", "float", "bool", "null")},
    yaml.MappingStartEvent: {f"{_TAG}map"},
    yaml.SequenceStartEvent: {f"{_TAG}seq"},
}


def parse_yaml(text: str) -> Parsed:
    """The value in the text; None where it is empty."""
    value = None
    try:
        parser = _YamlParser(text)
        for event in parser.events:
            if isinstance(event, yaml.NodeEvent):
                if parser.lines:
                    raise Malformed("the file holds several documents; keep one", _line(event))
                value = parser.value(event, (), event)
    except yaml.YAMLError as error:
        # Only the message of the parser: the excerpt that it can show is content of the file.
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        context, start = getattr(error, "context", None), getattr(error, "context_mark", None)
        begun = f" ({context}, begun on line {start.line + 1})" if context and start is not None else ""
        mark = getattr(error, "problem_mark", None) or start
        what = f"{problem}{begun}; look at the indentation (spaces, never tabs), colons and quotes there"
        raise Malformed(what, None if mark is None else mark.line + 1) from None
    return parser.parsed(value)


class _YamlParser(_Parser):
    """An alias counts with the size of its target, so that a small file cannot become a large value."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._end = 0  # of the last scalar, alias or flow collection
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._size = 0

    def value(self, event: Any, path: KeyPath, key: Any) -> Any:
        value = self._value(event, path)
        self.spans[path] = Span(key.start_mark.index, event.start_mark.index, self._end)
        return value

    def _value(self, event: Any, path: KeyPath) -> Any:
        self.lines.setdefault(path, _line(event))
        before = self._size
        is_alias = isinstance(event, yaml.AliasEvent)
        if is_alias and event.anchor not in self._anchors:
            raise Malformed("no anchor of this name is above the alias", _line(event))
        value, size = self._anchors[event.anchor] if is_alias else (None, 1)
        self._size += size
        if self._size > MAX_VALUES:
            raise Malformed(f"more than {MAX_VALUES} values", _line(event))
        if len(path) + _height(value) > MAX_DEPTH:
            raise Malformed(_TOO_DEEP, _line(event))
        if is_alias:
            self._end = _end(event)
            return value
        if event.tag not in (None, "!") and event.tag not in _TAGS[type(event)]:
            raise Malformed("a tag (the word with !) is not allowed here; leave it out", _line(event))
        if isinstance(event, yaml.ScalarEvent):
            value = self.scalar(event, path)
            self._end = _end(event)
            if event.style in ("|", ">"):  # it ends with the empty lines behind it
                self._end = len(self.text[: self._end].rstrip())
        elif isinstance(event, yaml.MappingStartEvent):
            value = self.mapping(event, path)
        else:
            value = []
            while not isinstance(entry := next(self.events), yaml.SequenceEndEvent):
                value.append(self.value(entry, (*path, len(value)), entry))
            if event.flow_style:
                self._end = _end(entry)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._size - before)
        return value

    def mapping(self, event: Any, path: KeyPath) -> dict[str, Any]:
        members: dict[str, Any] = {}
        inherited: dict[str, tuple[Any, int]] = {}
        while not isinstance(key_event := next(self.events), yaml.MappingEndEvent):
            line = _line(key_event)
            if not isinstance(key_event, yaml.ScalarEvent):
                raise Malformed("a key is a text", line)
            key = key_event.value
            self.note_key((*path, key), line, is_repeated=key in members)
            value = self.value(next(self.events), (*path, key), key_event)
            if key != "<<" or not key_event.implicit[0]:
                members[key] = value
                continue
            sources = value if isinstance(value, list) else [value]
            if not all(isinstance(source, dict) for source in sources):
                raise Malformed("<< takes an alias of an object, or a list of them", line)
            for source in reversed(sources):
                inherited |= {name: (each, line) for name, each in source.items()}
        if event.flow_style:
            self._end = _end(key_event)
        for name, (each, line) in inherited.items():
            if name not in members:
                members[name] = each
                self.lines.setdefault((*path, name), line)
        return members

    def scalar(self, event: yaml.ScalarEvent, path: KeyPath) -> Any:
        text: str = event.value
        if not event.implicit[0] and event.tag in (None, "!", f"{_TAG}str"):
            return text
        value = _plain_yaml(text)
        if not isinstance(value, str):
            self.literals[path] = text
        return value


def _height(value: Any) -> int:
    """Return how many levels a value has below it."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_height(each) for each in inner), default=-1)


def _plain_yaml(text: str) -> Any:
    """Return the value of a scalar without quotes in YAML 1.2. A number with a leading zero stays a text."""
    if text in _YAML_WORDS:
        return _YAML_WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OTHER_INTEGER.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text) and not re.match(r"[-+]?0[0-9]", text) and not text.lstrip("-+").isdigit():
        return float(text)
    return text


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that YAML 1.2 takes for another value, also where YAML 1.1 does not, such as 1e5."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(f"{_TAG}str", text, style=None if isinstance(_plain_yaml(text), str) else "'")


_Dumper.add_representer(str, _represent_text)


def write_yaml(value: Any) -> str:
    """The value as a text that parse_yaml reads as the same value."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000))


def _line(event: Any) -> int:
    return 1 if event.start_mark is None else int(event.start_mark.line) + 1


def _end(event: Any) -> int:
    return int(event.end_mark.index)
