"""`leafgate call`, through real gateways: one that runs on HTTP, and one made for the call."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from command_line import SERVERS, Person, gateway, somebody
from warm_python import PYTHON

from leafgate.cli.call import arguments_of, needs_schema, selector_of
from leafgate.maps.files import MapFiles


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return somebody(tmp_path)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("call") / "leafgate.json"
    servers = {
        "notes": {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]},
        "more-notes": {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"], "include": ["search_*"]},
        "faulty": {
            "command": sys.executable,
            "args": [str(SERVERS / "faulty.py")],
            "env": {"FAULTY_FOLDER": str(file.parent)},
        },
    }
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


@pytest.fixture(scope="module")
def url(config: Path) -> Iterator[str]:
    with gateway("--config", str(config)) as running:
        yield running


def test_the_gateways_own_tools_and_the_servers(ada: Person, url: str) -> None:
    page = ada.runs("call", "tool_browse", "query=export notes", "top_k=2", "--url", url)
    assert page.code == 0, page.said
    assert "notes:export_notes#" in page.out
    found = re.search(
        r"notes:search_notes#[0-9a-f]{8}",
        ada.runs("call", "tool_browse", "query=search notes", "--url", url).out,
    )
    assert found is not None
    ran = ada.runs("call", found[0], '{"query": "rye", "limit": 1}', "--url", f"{url}/mcp")
    assert (ran.code, ran.out) == (0, "1: On day 1 we ordered a rye loaf and wrote 37 lines about the release.\n")


def test_pairs_become_what_the_schema_says(ada: Person, url: str) -> None:
    ran = ada.runs("call", "notes:search_notes", "query=37", "limit=1", "--url", url)
    assert (ran.code, ran.out[:2]) == (0, "1:")


def test_arguments_from_standard_input(ada: Person, url: str) -> None:
    ran = ada.runs("call", "notes:search_notes", "-", "--url", url, typed='{"query": "rye", "limit": 1}\n')
    assert (ran.code, ran.out[:2]) == (0, "1:")


def test_a_long_result_has_a_handle_that_can_be_viewed(ada: Person, url: str) -> None:
    ran = ada.runs("call", "export_notes", "--url", url)
    assert ran.code == 0
    hint = re.search(r"leafgate (call --url \S+ --view \S+ --selector lines:1-20)", ran.err)
    assert hint is not None, ran.err
    view = ada.runs(*hint[1].split())
    assert [line.split("\t")[0] for line in view.out.splitlines()[:20]] == [str(number) for number in range(1, 21)]
    handle = re.search(r"--view (\S+)", ran.err)
    assert handle is not None
    searched = ada.runs("call", "--view", handle[1], "--selector", "search:day 1999", "--url", url)
    assert "On day 1999" in searched.out


def test_a_refusal_exits_1_and_is_shown_as_the_model_sees_it(ada: Person, url: str) -> None:
    ran = ada.runs("call", "notes:search_notes", "query:=5", "--url", url)
    assert ran.code == 1
    assert json.loads(ran.out)["error"] == "ARGS_INVALID"


def test_a_dry_run_only_checks(ada: Person, url: str) -> None:
    ran = ada.runs("call", "notes:search_notes", "query=rye", "--dry-run", "--url", url)
    assert ran.code == 0
    assert json.loads(ran.out)["dry_run"] is True


def test_what_cannot_be_tried_is_not_called(ada: Person, url: str, tmp_path: Path) -> None:
    own = ada.runs("call", "tool_browse", "query=notes", "--dry-run", "--url", url)
    assert (own.code, own.out) == (2, "")
    file = tmp_path / "passthrough.yaml"
    servers = {"notes": {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]}}
    file.write_text(json.dumps({"mcpServers": servers, "mode": "passthrough"}))
    with gateway("--config", str(file)) as plain:
        assert shown_to(ada, plain) >= {"search_notes", "tool_view"}
        assert ada.runs("call", "search_notes", "query=rye", "limit=1", "--url", plain).out.startswith("1: ")
        refused = ada.runs("call", "search_notes", "query=rye", "--dry-run", "--url", plain)
        assert (refused.code, refused.out) == (2, "")


def shown_to(person: Person, url: str) -> set[str]:
    """The tools that a call of none of them is told of, once the server is up."""
    for _ in range(100):
        listed = person.runs("call", "no_such_tool", "--url", url)
        assert listed.code == 2
        shown = set(listed.err.strip().partition("the gateway shows: ")[2].split(", "))
        if shown > {"tool_view"}:
            break
    return shown


def test_ids_as_json_and_the_raw_result(ada: Person, url: str) -> None:
    words = ("call", "notes:search_notes", "query=rye", "limit=1", "--map", "qwen2", "--url", url)
    told = json.loads(ada.runs(*words, "--json").out)
    qwen = MapFiles().load("qwen/qwen2")
    (leaf,) = told["leaves"]
    assert leaf == {"map_id": qwen.map.digest, "ids": qwen.encode(told["text"])}
    assert told["is_error"] is False
    raw = json.loads(ada.runs(*words, "--raw").out)
    assert raw["content"][0]["text"] == told["text"]
    assert f"{len(leaf['ids'])} ids of map {qwen.map.digest}" in ada.runs(*words).err


def test_progress_is_shown_on_standard_error(ada: Person, url: str) -> None:
    ran = ada.runs("call", "faulty:progress", "steps=3", "--url", url)
    assert ran.code == 0, ran.said
    assert "1 of 3: step 1" in ran.err
    assert "1 of 3" not in ran.out


def test_a_gateway_made_for_this_call(ada: Person, config: Path) -> None:
    ran = ada.runs("call", "export_notes", "--selector", "lines:5-6", "--config", str(config))
    assert ran.code == 0, ran.said
    assert [line.split("\t")[0] for line in ran.out.splitlines()[:2]] == ["5", "6"]
    short = ada.runs("call", "export_notes", "--config", str(config))
    assert "add --selector" in short.err


def test_names_that_are_not_unique_or_not_there_are_refused(ada: Person, url: str) -> None:
    several = ada.runs("call", "search_notes", "query=rye", "--url", url)
    assert several.code == 2
    assert "notes:search_notes#" in several.err
    assert "more-notes:search_notes#" in several.err
    none = ada.runs("call", "no_such_tool", "--url", url)
    assert none.code == 2
    assert "no tool is called 'no_such_tool'" in none.err


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("x", "--view", "h"),
        ("x", "--url", "http://127.0.0.1:1"),
        ("x", "--url", "nonsense"),
        ("x", "--config", "nothing.yaml"),
        ("x", "--demo", "--url", "http://127.0.0.1:1"),
        ("--view", "h", "--demo"),
        ("x", "--selector", "nothing"),
        ("x", "--map", "no/such-map"),
        ("x", "--config", "broken.yaml"),
    ],
)
def test_wrong_words_exit_2(ada: Person, words: tuple[str, ...]) -> None:
    (ada.folder / "broken.yaml").write_text("mcpServers: {a: {}}")
    ran = ada.runs("call", *words)
    assert ran.code == 2, ran.said
    assert ran.out == ""
    assert "Traceback" not in ran.err


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
