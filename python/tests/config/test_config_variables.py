import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.config.variables import (
    MAX_FILE_BYTES,
    VARIABLE,
    Unfilled,
    Unreadable,
    Variables,
    input_variable,
    parse_env_file,
    read_small_file,
)

ENVIRON = {"NAME": "value", "EMPTY": "", "NESTED": "${NAME}", "HOME": "/home/someone", "LEAFGATE_INPUT_API_KEY": "k"}


def variables(folder: Path = Path("/work/.vscode")) -> Variables:
    return Variables(ENVIRON, folder, {"region": "eu"})


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("${NAME}", "value"),
        ("${env:NAME}", "value"),
        ("a ${NAME} b ${NAME}", "a value b value"),
        ("${MISSING:-other}", "other"),
        ("${env:MISSING:-}", ""),
        ("${NAME:-other}", "value"),
        ("${EMPTY:-other}", ""),
        ("${NESTED}", "${NAME}"),
        ("${input:api-key}", "k"),
        ("${input:region}", "eu"),
        ("$${NAME}", "${NAME}"),
        ("${workspaceFolder}/x", "/work/x"),
        ("${workspaceFolderBasename}", "work"),
        ("${userHome}${/}x${pathSeparator}", f"/home/someone{os.sep}x{os.sep}"),
    ],
)
def test_variables_are_filled_once(text: str, filled: str) -> None:
    found = variables().fill(text)
    assert (found.text, found.had_variables) == (filled, True)


@pytest.mark.parametrize(
    "text", ["", "plain", "$NAME", "${}", "${a b}", "${ NAME}", "$ {NAME}", "${NAME", "{NAME}", "${1}"]
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    found = variables().fill(text)
    assert (found.text, found.had_variables) == (text, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${MISSING}", "the environment has no MISSING"),
        ("${env:MISSING}", "the environment has no MISSING"),
        ("${NAME}${MISSING}", "the environment has no MISSING"),
        ("${input:other-key}", "set LEAFGATE_INPUT_OTHER_KEY"),
        ("${command:pick.one}", "only the client can fill"),
        ("${config:editor.x}", "only the client can fill"),
        ("${file:none.txt}", "none.txt cannot be read"),
    ],
)
def test_a_variable_without_a_value_is_told_with_what_to_set(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Unfilled) as raised:
        variables(tmp_path).fill(text)
    assert said in str(raised.value)
    assert "value" not in str(raised.value).replace("write the value", "")


def test_a_file_gives_its_content_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    found = variables(tmp_path).fill("Bearer ${file:token}")
    assert found.text == "Bearer s3cret"
    assert found.files == (tmp_path / "token",)
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("a.json", "/work/.vscode/a.json"),
        ("../a.json", "/work/.vscode/../a.json"),
        ("/abs/a.json", "/abs/a.json"),
        ("~/a.json", "/home/someone/a.json"),
        ("~", "/home/someone"),
        ("~other/a.json", "/work/.vscode/~other/a.json"),
    ],
)
def test_paths_are_relative_to_the_file_that_names_them(written: str, path: str) -> None:
    assert variables().path(written) == Path(path)


def test_neither_values_nor_defaults_are_shown() -> None:
    assert "value" not in repr(variables())
    assert "eu" not in repr(variables())


def test_an_input_has_a_variable_of_its_name() -> None:
    assert input_variable("my-API.key 2") == "LEAFGATE_INPUT_MY_API_KEY_2"


@given(st.text(st.sampled_from("${}:-/envfilinputNAME 1")))
def test_the_schemas_pattern_finds_what_is_filled(text: str) -> None:
    """But for `$${`, which an editor may take for a variable."""
    try:
        had_variables = Variables({}, Path()).fill(text).had_variables
    except Unfilled:
        had_variables = True
    if "$${" not in text:
        assert (re.search(VARIABLE, text) is not None) == had_variables


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


def test_a_small_text_is_read_without_its_mark(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfgr\xc3\xbcn\n")
    assert read_small_file(tmp_path / "f") == "grün\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"s3cret\xff", "is not UTF-8 text"), (b"x" * (MAX_FILE_BYTES + 1), "is larger than")],
)
def test_other_content_is_refused_and_not_shown(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(Unreadable, match=said) as raised:
        read_small_file(tmp_path / "f")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("name", ["none", ".", "a\x00b"])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unreadable, match="cannot be read"):
        read_small_file(tmp_path / name)
