import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.config.formats import MAX_DEPTH, Malformed, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)

COMMENTED = """\ufeff{
  // a line comment with "quotes" and {braces}
  "mcpServers": { /* a block
     over two lines */
    "files": {
      "command": "x // no comment",
      "args": ["a", /* between */ "b",],
      "timeout": 1.50,
    },
  },
}
"""


@given(VALUES, st.sampled_from([None, 1, "\t"]))
def test_plain_json_is_read_as_the_standard_library_reads_it(value: object, indent: int | str | None) -> None:
    assert parse_json(json.dumps(value, indent=indent)).value == value


def test_comments_and_trailing_commas_are_passed_over() -> None:
    parsed = parse_json(COMMENTED)
    assert parsed.value == {
        "mcpServers": {"files": {"command": "x // no comment", "args": ["a", "b"], "timeout": 1.5}},
    }


def test_each_key_has_its_line_and_each_number_its_writing() -> None:
    parsed = parse_json(COMMENTED)
    assert parsed.lines[("mcpServers",)] == 3
    assert parsed.lines[("mcpServers", "files")] == 5
    assert parsed.lines[("mcpServers", "files", "args", 1)] == 7
    assert parsed.lines[("mcpServers", "files", "timeout")] == 8
    assert parsed.literals == {("mcpServers", "files", "timeout"): "1.50"}


def test_a_repeated_key_is_told_with_both_lines() -> None:
    assert parse_json('{\n "a": {\n  "b": 1,\n  "c": 2,\n  "b": 3}}').repeats == [(("a", "b"), 3, 5)]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "ends where a value is needed"),
        ("{\n", 2, "a key in double quotes"),
        ("{\n 'a': 1}", 2, "a key in double quotes"),
        ("{a: 1}", 1, "a key in double quotes"),
        ("{,}", 1, "a key in double quotes"),
        ('{"a" 1}', 1, "a colon"),
        ('{"a": 1\n "b": 2}', 2, "a comma or }"),
        ("[1 2]", 1, "a comma or ]"),
        ("[1,,2]", 1, "a value is needed"),
        ('{"a":}', 1, "a value is needed"),
        ('{"a": NaN}', 1, "a value is needed"),
        ('{"a": Infinity}', 1, "a value is needed"),
        ('{"a": 01}', 1, "a comma or }"),
        ('{"a": "b', 1, "a text is broken"),
        ('{\n"a": "\\x"}', 2, "a text is broken"),
        ('{"a": "line\nbreak"}', 1, "a text is broken"),
        ("{} {}", 1, "text after the end"),
        ("{}\n\n/* open", 3, "does not end"),
        ("[" * (MAX_DEPTH + 2), 1, "nested too deeply"),
        ("[" * 100_000, 1, "nested too deeply"),
        ("9" * 5_000, 1, "too long"),
    ],
)
def test_what_is_not_json_is_refused_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(Malformed) as raised:
        parse_json(text)
    assert raised.value.line == line
    assert said in raised.value.what


@given(st.text())
def test_any_text_is_read_or_malformed(text: str) -> None:
    with suppress(Malformed):
        parse_json(text)
