from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.config.parsed import Malformed
from leafgate.config.toml_text import parse_toml


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
    (problem,) = parse_toml(text).problems
    assert (problem.path, problem.line) == (path, second)
    assert f"first on line {first}" in problem.what


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
