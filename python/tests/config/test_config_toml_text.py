import tomllib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.config.formats import KeyPath, Malformed, parse_toml, toml_lines


def test_values_are_those_of_toml() -> None:
    parsed = parse_toml('transport = "http"\nwhen = 2026-01-01T00:00:00Z\n[mcpServers.a]\ncommand = "x"\n')
    assert parsed.value == {
        "transport": "http",
        "when": "2026-01-01T00:00:00+00:00",
        "mcpServers": {"a": {"command": "x"}},
    }
    assert parsed.lines[("mcpServers", "a", "command")] == 4


@pytest.mark.parametrize(
    ("text", "path", "first", "second"),
    [
        ("a = 1\nb = 2\na = 3", ("a",), 1, 3),
        ("[t]\nx = 1\n[u]\n[t]\n", ("t",), 1, 4),
        ("[t]\nx = 1\n\nx = 1", ("t", "x"), 2, 4),
        ("a.\"b c\" = 1\na.'b c' = 2", ("a", "b c"), 1, 2),
        ("t = {x = 1, x = 2}", ("t", "x"), 1, 1),
        ("a = 1\na = [\n1,\n]\nb = 2", ("a",), 1, 2),
    ],
)
def test_a_repeated_key_is_told_with_both_lines(text: str, path: tuple[str, ...], first: int, second: int) -> None:
    assert [*parse_toml(text).repeats] == [(path, first, second)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a =", 1),
        ("a = 1\nb", 2),
        ("a = 1\nb = 'x\na = 2", 3),
        ("a = 1\nb c = 2", 2),
        ("a = 'x\n", 1),
        ("[a\nb = 1", 1),
        ("a = 1\na.b = 2", 2),
        ("x = [1,\n2\n3]", 3),
        ("x = tru", 1),
        ("n = " + "9" * 5_000, 1),
        ("x = " + "[" * 100_000, None),
    ],
)
def test_what_is_not_toml_is_refused_with_its_line(text: str, line: int | None) -> None:
    with pytest.raises(Malformed) as raised:
        parse_toml(text)
    assert raised.value.line == line
    assert "(at" not in raised.value.what


@given(st.text())
def test_any_text_is_read_or_malformed(text: str) -> None:
    with suppress(Malformed):
        parse_toml(text)


TEXT = '''\
# a comment with [brackets] and a = 1
title = "x # no comment"   # but this is
"quoted key" = 'a\\b'

[mcpServers.files]
command = "npx"
args = [
  "a", # the first
  "]b",

  """c
[not.a.table]
d = 1
""",
  "e",
]
env = { A = "1", "B.C" = "2", nested = { deep = true } }
a.dotted.key = 5

[mcpServers."my.server"]
url = 'https://x'

[[auth.tokens]]
name = "one"
[auth.tokens.extra]
when = 2026-01-01 10:00:00
[[auth.tokens]]
name = "two"
literal = \'\'\'
name = "three"\'\'\'
last = 1
'''

EXPECTED = {
    ("title",): 2,
    ("quoted key",): 3,
    ("mcpServers", "files"): 5,
    ("mcpServers", "files", "command"): 6,
    ("mcpServers", "files", "args"): 7,
    ("mcpServers", "files", "args", 0): 8,
    ("mcpServers", "files", "args", 1): 9,
    ("mcpServers", "files", "args", 2): 11,
    ("mcpServers", "files", "args", 3): 15,
    ("mcpServers", "files", "env"): 17,
    ("mcpServers", "files", "env", "B.C"): 17,
    ("mcpServers", "files", "env", "nested", "deep"): 17,
    ("mcpServers", "files", "a", "dotted"): 18,
    ("mcpServers", "files", "a", "dotted", "key"): 18,
    ("mcpServers", "my.server", "url"): 21,
    ("auth", "tokens"): 23,
    ("auth", "tokens", 0, "name"): 24,
    ("auth", "tokens", 0, "extra", "when"): 26,
    ("auth", "tokens", 1): 27,
    ("auth", "tokens", 1, "name"): 28,
    ("auth", "tokens", 1, "last"): 31,
}


def test_every_key_is_found_where_it_stands() -> None:
    lines = toml_lines(TEXT).lines
    assert {path: lines.get(path) for path in EXPECTED} == EXPECTED
    assert ("not", "a", "table") not in lines


def leaves(value: Any, path: KeyPath = ()) -> list[KeyPath]:
    if isinstance(value, dict):
        return [found for key, each in value.items() for found in leaves(each, (*path, key))]
    if isinstance(value, list):
        return [found for index, each in enumerate(value) for found in leaves(each, (*path, index))]
    return [path]


def test_no_key_of_the_text_is_missed() -> None:
    assert {*leaves(tomllib.loads(TEXT))} <= {*toml_lines(TEXT).lines}
    assert toml_lines(TEXT).repeats == []


SCALARS = st.sampled_from(
    ["1", "true", '"a]b}"', "'c#'", "2026-01-01", "1.5e3", '"""x\n[y]\nz=1"""', "'''\n'''", '"\\"="']
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: "[" + ", # c\n ".join(each) + "]")
        | st.dictionaries(st.sampled_from(["a", "b-c", '"d.e"', "'f'"]), inner, max_size=3).map(
            lambda each: "{" + ", ".join(f"{key} = {value}" for key, value in each.items()) + "}"
        )
    ),
    max_leaves=8,
)
TABLES = st.dictionaries(
    st.sampled_from(["[t]", "[t.u]", "[[l]]", "[l.m]", '["x y"]']),
    st.dictionaries(st.sampled_from(["k", "l.m", '"n o"', "p . q"]), VALUES, max_size=3),
)


@given(TABLES)
def test_generated_texts_have_a_line_for_every_key(tables: dict[str, dict[str, str]]) -> None:
    text = "\n\n".join(
        header + "\n" + "\n".join(f"{key} = {value}" for key, value in pairs.items())
        for header, pairs in tables.items()
    )
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        toml_lines(text)
        return
    found = toml_lines(text)
    assert {*leaves(value)} <= {*found.lines}
    assert found.repeats == []
    assert all(1 <= line <= text.count("\n") + 1 for line in found.lines.values())


@given(st.text(st.sampled_from("ab.=[]{}\"'#,\n \\u1")))
def test_any_text_ends(text: str) -> None:
    toml_lines(text)
