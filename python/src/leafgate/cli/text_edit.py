"""Change members of a JSON, TOML or YAML text, and nothing else: comments, order, layout and line ends stay.

A member is replaced, added behind the others or removed at the places that the parsers of config.formats find. The
result is parsed again: where it is not the old value with exactly these changes, the edit is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from leafgate.config.document import PARSERS, Format
from leafgate.config.formats import JSON_BLANK, KeyPath, Malformed, Span, parse_json, parse_toml, parse_yaml, write_yaml
from leafgate.model.errors import ConfigError

Members = Mapping[str, Mapping[str, Any]]


def edit_members(
    text: str,
    kind: Format,
    path: Sequence[str],
    *,
    put: Members | None = None,
    remove: Collection[str] = (),
    as_list: bool = False,
) -> str:
    """Return the text with these members in the object at this path, and without those in `remove`.

    In place of the object there may be a list of objects with a `name`, as in Continue's file; `as_list` makes one
    where nothing is yet. ConfigError if the text cannot be changed in this way.
    """
    put, gone = put or {}, [name for name in remove if name not in (put or {})]
    try:
        expected = deepcopy(PARSERS[kind](text).value or {})
        inner = expected
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        members = inner.get(path[-1]) or ([] if as_list else {})
        if not isinstance(members, dict | list):
            raise Malformed("not an object", None)
        inner[path[-1]] = _changed(members, put, gone)
        after = _EDITORS[kind](text, tuple(path), put, gone, as_list)
        result = PARSERS[kind](after).value
        if kind == "toml" and not inner[path[-1]]:  # a table without members may be missing
            result.setdefault(path[-1], {})
        if result == expected:
            return after
    except Malformed:
        pass
    raise ConfigError(f"{'.'.join(path)}: leafgate cannot change only this part of the file; edit it by hand")


def _changed(members: Any, put: Members, gone: Collection[str]) -> Any:
    if not isinstance(members, list):
        return {name: each for name, each in members.items() if name not in gone} | dict(put)
    names = [name_of(each) for each in members]
    stay = [put.get(name or "", each) for name, each in zip(names, members, strict=True) if name not in gone]
    return [*stay, *(each for name, each in put.items() if name not in names)]


def name_of(entry: object) -> str | None:
    """Return the name of an entry of a list; None if it has none."""
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return name if isinstance(name, str) else None


def _whole_lines(text: str, span: Span) -> tuple[int, int]:
    end = text.find("\n", span.end)
    return text.rfind("\n", 0, span.key) + 1, len(text) if end < 0 else end + 1


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# TOML: a member is a table with its subtables, or a pair

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def _edit_toml(text: str, path: KeyPath, put: Members, remove: Sequence[str], as_list: bool) -> str:
    newline = _newline(text)
    for name in (*put, *remove):
        member = (*path, name)
        spans = [span for at, span in parse_toml(text).spans.items() if at[: len(member)] == member]
        outer = {span for span in spans if not any(one.key < span.key and span.end <= one.end for one in spans)}
        for span in sorted(outer, reverse=True):
            start, end = _whole_lines(text, span)
            if not text[:start].strip() or text[:start].endswith(2 * newline):  # one empty line is enough
                end = len(text) - len(text[end:].lstrip("\r\n"))
            text = text[:start] + text[end:]
    for name, value in put.items():
        gap = newline * (0 if not text.strip() else 1 if text.endswith("\n") else 2)
        text += gap + newline.join(_toml_table((*path, name), value)) + newline
    return text


def _toml_table(path: KeyPath, table: Mapping[str, Any]) -> Iterator[str]:
    yield f"[{'.'.join(map(_toml_key, path))}]"
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    # JSON is also TOML for texts, numbers, booleans, and lists of those.
    yield from (f"{_toml_key(key)} = {_toml_value(value)}" for key, value in table.items() if key not in tables)
    for key, value in tables.items():
        yield ""
        yield from _toml_table((*path, key), value)


def _toml_key(key: str | int) -> str:
    return str(key) if _BARE_KEY.fullmatch(str(key)) else _toml_value(key)


def _toml_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# YAML: a member of a block has its own lines; any other collection is written again as a block


def _edit_yaml(text: str, path: KeyPath, put: Members, remove: Sequence[str], as_list: bool) -> str:
    for name in (*put, *remove):
        text = _change_yaml(text, path, name, put.get(name), as_list)
    return text


def _change_yaml(text: str, path: KeyPath, name: str, value: Mapping[str, Any] | None, as_list: bool) -> str:
    parsed, (key,) = parse_yaml(text), path
    members: Any = (parsed.value or {}).get(key) or ([] if as_list else {})
    after = _changed(members, {} if value is None else {name: value}, (name,) if value is None else ())
    if after == members:
        return text
    is_list = isinstance(members, list)
    names: list[Any] = [name_of(each) for each in members] if is_list else [*members]
    if members and text[parsed.spans[path].start] not in "{[":
        place = names.index(name) if name in names else len(names) - 1
        start, end = _whole_lines(text, parsed.spans[(*path, place if is_list else names[place])])
        if not after:
            colon = text.index(":", parsed.spans[path].key + len(str(key))) + 1
            return f"{text[:colon]} {'[]' if is_list else '{}'}{text[colon:start]}{text[end:]}"
        indent = len(text[start:]) - len(text[start:].lstrip(" "))
        start = start if name in names else end
        block: Any = None if value is None else [value] if is_list else {name: value}
    else:
        start, end = _whole_lines(text, parsed.spans[path]) if path in parsed.spans else (len(text), len(text))
        indent, block = 0, {key: after}
    lines = write_yaml(block).splitlines() if block else ()
    newline = _newline(text)
    break_before = newline if start and text[start - 1] != "\n" else ""
    return text[:start] + break_before + "".join(f"{' ' * indent}{line}{newline}" for line in lines) + text[end:]


# JSON, also with comments and trailing commas


def _edit_json(text: str, path: KeyPath, put: Members, remove: Sequence[str], as_list: bool) -> str:
    for name in remove:
        text = without_member(text, (*path, name))
    for name, value in put.items():
        text = with_value(text, (*path, name), value)
    return text


_REST_OF_LINE: Final = re.compile(r"[ \t]*(?://[^\r\n]*)?\r?\n")


def with_value(text: str, path: Sequence[str | int], value: Any) -> str:
    """Return the JSON text with this value at this path; missing objects on the way are added."""
    document = _Document(text)
    depth = max(length for length in range(len(path) + 1) if tuple(path[:length]) in document.spans)
    if depth == len(path):
        return document.replace(document.spans[tuple(path)], value)
    for missing in reversed(path[depth + 1 :]):
        value = {missing: value}
    return document.insert(tuple(path[:depth]), str(path[depth]), value)


def without_member(text: str, path: Sequence[str | int]) -> str:
    """Return the JSON text without the member at this path; the same text if there is none."""
    document = _Document(text)
    return document.remove(tuple(path)) if tuple(path) in document.spans else text


class _Document:
    """A JSON text, the places of its members, and how it is laid out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans = parse_json(text).spans
        self.newline = _newline(text)
        self.unit = next((self._indent_at(span.key) for span in self._members(())), "") or "  "

    def replace(self, span: Span, value: Any) -> str:
        return self.text[: span.start] + self._format(value, self._indent_at(span.start)) + self.text[span.end :]

    def insert(self, path: KeyPath, key: str, value: Any) -> str:
        """Insert a member after the last one, on its own line; a trailing comma stays a trailing comma."""
        span = self.spans[path]
        if self.text[span.start] != "{":
            raise ConfigError(f"{'.'.join(map(str, path)) or 'the file'}: an object is needed here")
        members, close = self._members(path), span.end - 1
        outer = self._indent_at(span.start)
        inner = self._indent_at(members[-1].key) if members else outer
        inner = outer + self.unit if inner == outer else inner  # an empty object, or one on a single line
        head = self.text[:close].rstrip()
        space = self.text[len(head) : close]
        has_comma = bool(members) and self._comma_after(members[-1]) is not None
        if members and not has_comma:
            head = f"{head[: members[-1].end]},{head[members[-1].end :]}"
        tail = space if "\n" in space else self.newline + outer
        member = f"{json.dumps(key, ensure_ascii=False)}: {self._format(value, inner)}{',' if has_comma else ''}"
        return f"{head}{self.newline}{inner}{member}{tail}{self.text[close:]}"

    def remove(self, path: KeyPath) -> str:
        """Remove a member with its comma, and with its line if nothing else is on it."""
        member, members = self.spans[path], self._members(path[:-1])
        before = members[: members.index(member)]
        comma = self._comma_after(member)
        start, end = member.key, member.end if comma is None else comma + 1
        line, rest = self.text.rfind("\n", 0, start) + 1, _REST_OF_LINE.match(self.text, end)
        if rest and not self.text[line:start].strip():
            start, end = line, rest.end()
        head = self.text[:start]
        comma_before = self._comma_after(before[-1]) if before and comma is None else None
        if comma_before is not None:
            head = head[:comma_before] + head[comma_before + 1 :]
        return head + self.text[end:]

    def _members(self, path: KeyPath) -> list[Span]:
        return [span for at, span in self.spans.items() if at and at[:-1] == path]

    def _comma_after(self, member: Span) -> int | None:
        blank = JSON_BLANK.match(self.text, member.end)
        place = member.end if blank is None else blank.end()
        return place if self.text[place] == "," else None

    def _format(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, indent=self.unit, ensure_ascii=False).split("\n")
        return f"{self.newline}{indent}".join(lines)

    def _indent_at(self, position: int) -> str:
        before = self.text[self.text.rfind("\n", 0, position) + 1 : position].lstrip("\ufeff")
        return before[: len(before) - len(before.lstrip(" \t"))]


_EDITORS: Final[Mapping[Format, Callable[[str, KeyPath, Members, Sequence[str], bool], str]]] = {
    "json": _edit_json,
    "toml": _edit_toml,
    "yaml": _edit_yaml,
}
