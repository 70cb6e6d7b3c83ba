"""One member changes, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.cli.text_edit import edit_members, with_value, without_member
from leafgate.config.document import Format
from leafgate.config.formats import parse_json, parse_toml, parse_yaml, write_yaml
from leafgate.model.errors import ConfigError

COMMENTED = """\
{
  // my servers, "quoted" and with a } in it
  "mcpServers": {
    "a": {"command": "x"}, // the first, with a comma
    "b": {"command": "y"} /* the last */
  },
  "theme": "dark",
}
"""


def value_of(text: str) -> Any:
    return parse_json(text).value


def test_a_new_member_stands_behind_the_others_and_comments_stay() -> None:
    made = with_value(COMMENTED, ("mcpServers", "c"), {"command": "z"})
    assert made == COMMENTED.replace(
        '"y"} /* the last */', '"y"}, /* the last */\n    "c": {\n      "command": "z"\n    }'
    )


def test_a_value_is_replaced_where_it_stands() -> None:
    made = with_value(COMMENTED, ("mcpServers", "a"), {})
    assert made == COMMENTED.replace('"a": {"command": "x"}', '"a": {}')


def test_objects_on_the_way_are_made() -> None:
    assert value_of(with_value("{}", ("projects", "/srv", "mcpServers", "a"), 1)) == {
        "projects": {"/srv": {"mcpServers": {"a": 1}}}
    }


def test_members_go_with_their_line_and_the_comma_that_they_need_no_more() -> None:
    assert without_member(COMMENTED, ("mcpServers", "a")) == COMMENTED.replace(
        '    "a": {"command": "x"}, // the first, with a comma\n', ""
    )
    last = without_member(COMMENTED, ("mcpServers", "b"))
    assert value_of(last)["mcpServers"] == {"a": {"command": "x"}}
    assert '"x"} // the first' in last
    assert without_member('{"a": 1}', ("a",)) == "{}"


def test_what_is_not_there_is_not_removed() -> None:
    assert without_member(COMMENTED, ("mcpServers", "c")) == COMMENTED
    assert without_member(COMMENTED, ("servers", "a")) == COMMENTED


def test_line_ends_indentation_and_byte_order_mark_stay() -> None:
    text = "\ufeff" + '{\n\t"mcpServers": {}\n}\n'.replace("\n", "\r\n")
    made = with_value(text, ("mcpServers", "a"), {"b": 1})
    assert made == "\ufeff" + '{\n\t"mcpServers": {\n\t\t"a": {\n\t\t\t"b": 1\n\t\t}\n\t}\n}\n'.replace("\n", "\r\n")
    assert without_member(made, ("mcpServers", "a")).count("\r\n") == made.count("\r\n") - 3


def test_a_trailing_comma_is_kept_up_and_one_in_a_comment_is_none() -> None:
    assert with_value('{\n  "a": 1,\n}', ("b",), 2) == '{\n  "a": 1,\n  "b": 2,\n}'
    assert without_member('{\n  "a": 1,\n  "b": 2,\n}', ("b",)) == '{\n  "a": 1,\n}'
    assert with_value('{\n  "a": 1 // one, two\n}', ("b",), 2) == '{\n  "a": 1, // one, two\n  "b": 2\n}'


@pytest.mark.parametrize("text", ["[]", "5", '"mcpServers"', '{"mcpServers": []}', '{"mcpServers": "a"}'])
def test_where_no_object_stands_nothing_is_put(text: str) -> None:
    with pytest.raises(ConfigError, match="an object is needed"):
        with_value(text, ("mcpServers", "a"), 1)


KEYS = st.text(st.characters(codec="utf-8"), max_size=5) | st.sampled_from(["a", "b", "//", "/*", "*/", '"', ",", "}"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=4), max_size=4)
LAYOUTS = st.sampled_from([None, 2, 4, "\t"])


def written(value: Any, layout: int | str | None, commented: bool) -> str:
    text = json.dumps(value, indent=layout, ensure_ascii=False)
    if not commented or layout is None:
        return text
    lines = text.split("\n")
    return "\n".join(f'{line} // a comma, a brace }} and a " quote' for line in lines[:-1]) + f"\n/* x, */ {lines[-1]}"


@given(OBJECTS, st.tuples(KEYS, KEYS), VALUES, LAYOUTS, st.booleans())
def test_setting_a_member_changes_that_member_only(
    before: dict[str, Any], path: tuple[str, str], value: Any, layout: int | str | None, commented: bool
) -> None:
    first, second = path
    inner = before.get(first, {})
    text = written(before, layout, commented)
    if not isinstance(inner, dict):
        with pytest.raises(ConfigError):
            with_value(text, path, value)
        return
    after = with_value(text, path, value)
    assert value_of(after) == {**before, first: {**inner, second: value}}
    assert list(value_of(after)) == list({**before, first: None})


@given(OBJECTS, st.data(), LAYOUTS, st.booleans())
def test_removing_a_member_removes_that_member_only(
    before: dict[str, Any], data: st.DataObject, layout: int | str | None, commented: bool
) -> None:
    key = data.draw(st.sampled_from([*before]) if before else KEYS)
    text = written(before, layout, commented)
    after = without_member(text, (key,))
    assert value_of(after) == {name: value for name, value in before.items() if name != key}


@given(OBJECTS, LAYOUTS, st.booleans())
def test_what_was_added_and_taken_out_again_leaves_the_others_as_they_were(
    before: dict[str, Any], layout: int | str | None, commented: bool
) -> None:
    text = written({name: value for name, value in before.items() if name != "leafgate"}, layout, commented)
    assert value_of(without_member(with_value(text, ("leafgate",), {"x": [1]}), ("leafgate",))) == value_of(text)


# TOML and YAML

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=6)
NAMES = st.text("abcXYZ09_- .é#:'\"", min_size=1, max_size=6) | st.sampled_from(["leafgate", "yes", "null", "5", "a.b"])
ENTRIES = st.dictionaries(
    st.sampled_from(["command", "url", "a key", "on"]),
    WORDS
    | st.booleans()
    | st.integers(-9, 9)
    | st.lists(WORDS, max_size=2)
    | st.dictionaries(NAMES, WORDS, max_size=2),
    max_size=3,
)
SERVERS = st.dictionaries(NAMES, ENTRIES, max_size=4)


def as_toml(servers: dict[str, Any]) -> str:
    lines = ["# first", 'model = "x" # the usual', ""]
    for name, entry in servers.items():
        lines += ["# about a server", *edit_members("", "toml", ("servers",), put={name: entry}).splitlines(), ""]
    return "\n".join([*lines, "# last", "[other]", "n = 1", ""])


def as_yaml(servers: dict[str, Any]) -> str:
    lines = ["# first", "model: x # the usual", "servers:" if servers else "servers: {}"]
    for name, entry in servers.items():
        block = write_yaml({name: entry})
        lines += ["    # about a server", *(f"    {line}" for line in block.splitlines())]
    return "\n".join([*lines, "# last", "other: {n: 1}", ""])


@pytest.mark.parametrize("kind", ["toml", "yaml"])
@given(SERVERS, SERVERS, st.data(), st.booleans())
def test_servers_come_and_go_in_toml_and_yaml(
    kind: Format, before: dict[str, Any], put: dict[str, Any], data: st.DataObject, crlf: bool
) -> None:
    """Every edit is checked by parsing the result, so here nothing is refused and no comment is lost."""
    write, parse = (as_toml, parse_toml) if kind == "toml" else (as_yaml, parse_yaml)
    remove = data.draw(st.lists(st.sampled_from([*before]))) if before else []
    text = write(before).replace("\n", "\r\n" if crlf else "\n")
    after = edit_members(text, kind, ("servers",), put=put, remove=remove)
    expected = {name: entry for name, entry in before.items() if name not in remove} | put
    assert parse(after).value.get("servers", {}) == expected
    assert parse(after).value["other"] == {"n": 1}
    assert after.count("\n") == after.count("\r\n") if crlf else "\r" not in after
    comments = [line for line in text.splitlines() if line.strip().startswith("#")]
    assert [line for line in after.splitlines() if line.strip().startswith("#")] == comments


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("toml", 'servers = {a = {command = "x"}, b = {}}\n'),
        ("toml", "servers = 5\n"),
        ("yaml", "servers: &all\n  a: {command: x}\nothers: *all\n"),
        ("yaml", "? servers\n: a: {command: x}\n"),
        ("json", '{"servers": []}'),
    ],
)
def test_what_cannot_be_changed_alone_is_refused(kind: Format, text: str) -> None:
    with pytest.raises(ConfigError):
        edit_members(text, kind, ("servers",), put={"leafgate": {"command": "y"}}, remove=["a"])
