import codecs
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leafgate.config.document import (
    MAX_BYTES,
    ConfigFileError,
    Document,
    Problem,
    document_of,
    load_document,
    show_path,
    suggest,
)
from leafgate.config.formats import KeyPath
from leafgate.model.errors import ConfigError

YAML = "mcpServers:\n  a:\n    command: x\n"
TOML = '[mcpServers.a]\n\ncommand = "x"\n'
JSON = '{"mcpServers": {\n"a": {\n"command": "x"}}}\n'


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("leafgate.yaml", YAML),
        ("leafgate.yml", YAML),
        ("leafgate.YAML", YAML),
        ("leafgate.toml", TOML),
        ("leafgate.json", JSON),
        ("leafgate.jsonc", "// c\n" + JSON.replace("\n", "", 1)),
        (".mcp.json", JSON),
        ("config", YAML),
        ("config.txt", JSON),
        ("bom.json", codecs.BOM_UTF8 + JSON.encode()),
        ("bom.yaml", codecs.BOM_UTF8 + YAML.encode()),
        ("bom.toml", codecs.BOM_UTF8 + TOML.encode()),
        ("windows.yaml", YAML.replace("\n", "\r\n")),
        ("windows.toml", TOML.replace("\n", "\r\n")),
        ("powershell.yaml", YAML.encode("utf-16")),
        ("powershell.json", codecs.BOM_UTF16_BE + JSON.encode("utf-16-be")),
    ],
)
def test_every_format_gives_the_same_value_and_line(tmp_path: Path, name: str, content: str | bytes) -> None:
    document = load_document(write(tmp_path, name, content))
    assert document.value == {"mcpServers": {"a": {"command": "x"}}}
    assert document.line_of(("mcpServers", "a", "command")) == 3


def test_a_path_without_a_line_has_that_of_what_is_round_it() -> None:
    document = Document(Path("x"), "yaml", {}, {("a",): 4})
    assert document.line_of(("a", "b", 0)) == 4
    assert document.line_of(("c",)) is None


def test_a_document_does_not_show_its_values() -> None:
    assert "s3cret" not in repr(document_of(Path("x"), "yaml", "token: s3cret"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.yaml", "", "does not hold an object"),
        ("a.yaml", "just text", "does not hold an object"),
        ("a.json", "[1]", "does not hold an object"),
        ("a.json", "5", "does not hold an object"),
        ("a.json", '{"a":\n {,}}', "a.json:2: not JSON"),
        ("a.yaml", "a: b: c", "a.yaml:1: not YAML"),
        ("a.toml", "a = 1\nb = = 2", "a.toml:2: not TOML"),
        ("a.yaml", "a: 1\na: 2", "a.yaml:2: a: given twice, first on line 1"),
        ("a.json", '{"a": 1,\n"a": 2}', "a.json:2: a: given twice, first on line 1"),
        ("a.toml", "a = 1\na = 2", "a.toml:2: a: given twice, first on line 1"),
        ("a.yaml", b"a: 1\nb: \xff\xfe", "a.yaml:2: cannot be read: not UTF-8"),
        ("a.yaml", codecs.BOM_UTF16_LE + b"a", "not UTF-8"),
        ("a.yaml", "#" * (MAX_BYTES["yaml"] + 1), "larger than"),
        ("a.toml", "#" * (MAX_BYTES["toml"] + 1), "larger than"),
        ("a.json", " " * (MAX_BYTES["json"] + 1), "larger than"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, name: str, content: str | bytes, said: str) -> None:
    file = write(tmp_path, name, content)
    with pytest.raises(ConfigError) as raised:
        load_document(file)
    assert said in str(raised.value)
    assert str(file) in str(raised.value)


@pytest.mark.parametrize("name", ["none.yaml", ".", "a\x00b"])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_document(tmp_path / name)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["a.yaml", "a.toml", "a.json", "a"]),
    st.binary() | st.text(st.characters(codec="utf-8")).map(str.encode),
)
def test_any_bytes_are_read_or_refused(tmp_path: Path, name: str, content: bytes) -> None:
    file = write(tmp_path, name, content)
    try:
        document = load_document(file)
    except ConfigError as error:
        told = str(error)
    else:
        told = f"{file} {json.dumps(document.value)}"
    assert told.startswith(str(file))


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
