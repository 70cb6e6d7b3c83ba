"""What a person types to call a tool."""

from __future__ import annotations

from typing import Any

import click
import pytest

from leafgate.cli.call_words import arguments_of, needs_schema, selector_of

SCHEMA = {
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}, "any": {"type": ["string", "null"]}}
}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), {}),
        (('{"query": 5}',), {"query": 5}),
        ((' {"query": {}} ',), {"query": {}}),
        (("query=5",), {"query": "5"}),
        (("query=a=b",), {"query": "a=b"}),
        (("query=",), {"query": ""}),
        (("limit=5",), {"limit": 5}),
        (("limit=many",), {"limit": "many"}),
        (("any=null",), {"any": "null"}),
        (("any:=null",), {"any": None}),
        (("other=true", "list:=[1]"), {"other": True, "list": [1]}),
        (("url=http://h:=x",), {"url": "http://h:=x"}),
    ],
)
def test_words_become_arguments(words: tuple[str, ...], expected: dict[str, Any]) -> None:
    assert arguments_of(words, SCHEMA) == expected


@pytest.mark.parametrize("words", [("query",), ("=5",), ("{",), ("a=1", "{}"), ("a:=x",), ("{} {}",), ("{nan}",)])
def test_what_is_neither_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(click.BadParameter):
        arguments_of(words, SCHEMA)


def test_a_schema_is_asked_for_only_where_it_matters() -> None:
    assert needs_schema(("a=1",))
    assert not needs_schema(())
    assert not needs_schema(('{"a": "b=c"}',))
    assert not needs_schema(("a:=1",))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("stats", {"type": "stats"}),
        ("head:20", {"type": "head", "lines": 20}),
        ("lines:5-10", {"type": "lines", "start": 5, "end": 10}),
        ("json:/a/0", {"type": "json", "pointer": "/a/0"}),
        ("search:a:b", {"type": "search", "text": "a:b"}),
        ('{"type": "tail", "lines": 3}', {"type": "tail", "lines": 3}),
    ],
)
def test_selectors_have_short_forms(word: str, expected: dict[str, Any]) -> None:
    assert selector_of(word) == expected


@pytest.mark.parametrize("word", ["", "nothing", "nothing:5", "{", "[]", "lines:9-5", "search:", '{"type": "x"}'])
def test_wrong_selectors_are_refused(word: str) -> None:
    with pytest.raises(click.BadParameter):
        selector_of(word)
