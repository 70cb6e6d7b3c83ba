from pathlib import Path

import pytest

from leafgate.config.problem import ConfigFileError, KeyPath, Problem, show_path, suggest
from leafgate.model.errors import ConfigError


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ((), ""),
        (("a", "b"), "a.b"),
        (("a", 0, "b"), "a[0].b"),
        (("principals", "*"), "principals.*"),
        (("mcpServers", "my.server", "url"), 'mcpServers."my.server".url'),
        (("a\nb\x1b[31m",), '"a\\nb\\u001b[31m"'),
        (("\ud800",), '"\\ud800"'),
        (("x" * 200,), '"' + "x" * 80 + '\\u2026"'),
    ],
)
def test_a_path_is_shown_plainly_and_without_tricks(path: KeyPath, shown: str) -> None:
    assert show_path(path) == shown


def test_one_problem_is_one_line() -> None:
    error = ConfigFileError(Path("leafgate.yaml"), [Problem(("a", "b"), "unknown key", 12)])
    assert str(error) == "leafgate.yaml:12: a.b: unknown key"
    assert isinstance(error, ConfigError)


def test_a_problem_without_a_place_names_the_file() -> None:
    assert str(ConfigFileError(Path("x.yaml"), [Problem((), "cannot be read")])) == "x.yaml: cannot be read"


def test_several_are_shown_together_in_the_order_of_the_file_and_at_most_ten() -> None:
    error = ConfigFileError(Path("x.yaml"), [Problem(("k",), "wrong", line) for line in range(12, 0, -1)])
    lines = str(error).splitlines()
    assert lines[0] == "x.yaml: 12 problems"
    assert lines[1] == "x.yaml:1: k: wrong"
    assert lines[10] == "x.yaml:10: k: wrong"
    assert lines[11:] == ["x.yaml: and 2 more"]
    assert len(error.problems) == 12


def test_a_word_is_suggested_where_one_is_near() -> None:
    assert suggest("comand", ["command", "url"]) == "; did you mean command?"
    assert suggest("MCPservers", ["mcpServers"]) == "; did you mean mcpServers?"
    assert suggest("zzz", ["command", "url"]) == "; known are command, url"
    assert "leafgate config reference" in suggest("zzz", [f"key{n}" for n in range(30)])
