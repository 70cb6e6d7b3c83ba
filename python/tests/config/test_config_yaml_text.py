import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.config.formats import MAX_DEPTH, Malformed, parse_yaml


def test_each_key_has_its_line() -> None:
    parsed = parse_yaml("# c\nmcpServers:\n  files:\n    command: x\n    args:\n      - a\n      - b\n")
    assert parsed.value == {"mcpServers": {"files": {"command": "x", "args": ["a", "b"]}}}
    assert parsed.lines[("mcpServers", "files")] == 3
    assert parsed.lines[("mcpServers", "files", "args")] == 5
    assert parsed.lines[("mcpServers", "files", "args", 1)] == 7


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("off", "off"),
        ("yes", "yes"),
        ("NO", "NO"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("'true'", "true"),
        ("5", 5),
        ("-7", -7),
        ("0x1F", 31),
        ("0o17", 15),
        ("0755", "0755"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        ("1.10", 1.1),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".inf", ".inf"),
        ("!!str 5", "5"),
        ('"5"', "5"),
        ("9" * 5_000, "9" * 5_000),
    ],
)
def test_a_scalar_means_what_yaml_1_2_says(written: str, value: object) -> None:
    found = parse_yaml(f"k: {written}").value["k"]
    assert (found, type(found)) == (value, type(value))


def test_numbers_keep_their_writing() -> None:
    assert parse_yaml("a: {v: 1.10, t: True}\nb: [0x10]").literals == {
        ("a", "v"): "1.10",
        ("a", "t"): "True",
        ("b", 0): "0x10",
    }


def test_keys_are_texts() -> None:
    assert parse_yaml("1: a\ntrue: b\nnull: c").value == {"1": "a", "true": "b", "null": "c"}


def test_aliases_and_merges_stand_for_what_they_name() -> None:
    parsed = parse_yaml(
        "base: &b {timeout: 5, required: true}\nall: &c {timeout: 6}\n"
        "one:\n  <<: *b\n  timeout: 7\ntwo:\n  <<: [*c, *b]\nthree: *b\n"
    )
    assert parsed.value["one"] == {"timeout": 7, "required": True}
    assert parsed.value["two"] == {"timeout": 6, "required": True}
    assert parsed.value["three"] == parsed.value["base"]
    assert parsed.lines[("one", "required")] == 4
    assert parsed.lines[("three",)] == 8


def test_a_repeated_key_is_told_with_both_lines() -> None:
    repeats = parse_yaml("a: 1\nb: {c: 1,\n c: 2}\na: 2\n").repeats
    assert repeats == [(("b", "c"), 2, 3), (("a",), 1, 4)]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: b: c", 1, "mapping values"),
        ("a:\n\tb: 1", 2, "cannot start any token"),
        ("a: [1, 2", 1, "flow sequence"),
        ("a: 'x", 1, "quoted scalar"),
        ("a: 1\n b: 2", 2, "mapping values"),
        ("a: 1\n--- \nb: 2", 2, "several documents"),
        ("a: *nothing", 1, "no anchor of this name"),
        ("a: &a [*a]", 1, "no anchor of this name"),
        ("? [a, b]\n: 1", 1, "a key is a text"),
        ("<<: 5", 1, "takes an alias"),
        ("a: !!python/object/apply:os.system [x]", 1, "a tag"),
        ("a: !!python/name:os.system ''", 1, "a tag"),
        ("a: !!binary aGk=", 1, "a tag"),
        ("a: !!set {x}", 1, "a tag"),
        ("a: !own x", 1, "a tag"),
        ("[" * (MAX_DEPTH + 2), 1, "nested too deeply"),
        ("a: \x00", None, "not allowed"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, line: int | None, said: str) -> None:
    with pytest.raises(Malformed) as raised:
        parse_yaml(text)
    assert said in raised.value.what
    assert raised.value.line in (line, (line or 0) + 1)  # an end of text counts as the line behind it


def test_aliases_of_aliases_do_not_grow_without_bound() -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(Malformed, match="more than"):
        parse_yaml("\n".join(["a0: &a0 x", *levels]))


def test_aliases_of_aliases_do_not_nest_without_bound() -> None:
    levels = [f"a{n}: &a{n} [[[[[[[[*a{n - 1}]]]]]]]]" for n in range(1, 20)]
    with pytest.raises(Malformed, match="nested too deeply") as raised:
        parse_yaml("\n".join(["a0: &a0 x", *levels]))
    assert raised.value.line == 9


def test_the_parsers_words_do_not_repeat_the_content() -> None:
    with pytest.raises(Malformed) as raised:
        parse_yaml("token: s3cret: s3cret")
    assert "s3cret" not in raised.value.what


@given(
    st.dictionaries(st.text(st.characters(codec="ascii")), st.none() | st.booleans() | st.integers(0, 9) | st.just("x"))
)
def test_json_is_yaml(value: dict[str, object]) -> None:
    assert parse_yaml(json.dumps(value)).value == value


@given(st.text())
def test_any_text_is_read_or_malformed(text: str) -> None:
    with suppress(Malformed):
        parse_yaml(text)
