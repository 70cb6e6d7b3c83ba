import pytest

from leafgate.config.env_file import parse_env_file


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("  A = 1  ", "1"),
        ("export A=1", "1"),
        ("A=", ""),
        ("A=a b", "a b"),
        ("A=a#b", "a#b"),
        ("A=a # a remark", "a"),
        ("A='a # no remark'", "a # no remark"),
        ('A="two\\nlines \\"quoted\\""', 'two\nlines "quoted"'),
        ("A=b=c", "b=c"),
        ("A='", "'"),
        ("A=0\nA=1", "1"),
    ],
)
def test_a_line_gives_a_variable(line: str, value: str) -> None:
    assert parse_env_file(line) == ({"A": value}, [])


def test_remarks_and_empty_lines_are_passed_over() -> None:
    assert parse_env_file("# A=1\n\n   \n") == ({}, [])


@pytest.mark.parametrize("line", ["A", "=1", "1A=2", "A B=1", "export", "- A=1", "A: 1"])
def test_other_lines_are_told_by_their_number(line: str) -> None:
    assert parse_env_file(f"# first\n{line}\nB=2") == ({"B": "2"}, [2])
