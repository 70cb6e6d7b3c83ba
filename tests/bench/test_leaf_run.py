"""`leafgate bench leaf` as a person runs it, with few and small texts."""

import json
import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import PROGRAM, Person, somebody
from leaf.figures import MEASURES
from leaf.gateways import ways_with
from leaf.run import installed_tokenizers

from leafgate.cli import tokens
from leafgate.model.errors import LeafgateError


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return somebody(tmp_path)


def test_it_runs_from_end_to_end_and_writes_its_files(person: Person) -> None:
    out = person.folder / "results"
    words = ["bench", "leaf", "--quick", "--size", "100", "--size", "32768", "--rounds", "1", "--json", "--out"]
    env = {**os.environ, "HOME": str(person.home)}
    # Not a fork: it measures the processes that it starts.
    ran = subprocess.run(
        [PROGRAM, *words, out], cwd=person.folder, env=env, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert "round 1 of at most 1" in ran.stderr
    _check_report(told)
    (file,) = out.glob("leaf-*.json")
    assert re.fullmatch(r"leaf-\d{4}-\d\d-\d\d\.json", file.name)
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert {key: value for key, value in kept.items() if key != "date"} == told
    assert sorted(path.name for path in out.glob("*.svg")) == ["leaf-bytes.svg", "leaf-cpu.svg", "leaf-sizes.svg"]
    for chart in out.glob("*.svg"):
        assert ElementTree.fromstring(chart.read_text(encoding="utf-8")).tag.endswith("}svg")
    tables = (out / "leaf.md").read_text(encoding="utf-8")
    assert all(way["title"] in tables for way in told["ways"])
    assert all(sentence in tables for sentence in told["words"])


def _check_report(told: dict[str, object]) -> None:
    assert {*told} == {"version", "machine", "map", "against", "ways", "calls", "bytes", "goals", "short", "words"}
    keys = {way.key for way in ways_with(installed_tokenizers())}
    calls = told["calls"]
    assert isinstance(calls, list)
    assert {(call["size"], call["way"]) for call in calls} == {(size, key) for size in (100, 32_768) for key in keys}
    for call in calls:
        assert {*call["ratio"]} == {*MEASURES}
        assert {*call["seconds"]} == {*MEASURES, "ids_cpu"}
        assert {*call["seconds"]["codec"]} == {"median", "q1", "q3"}
    goals = told["goals"]
    assert isinstance(goals, list)
    assert len(goals) == 2 * len({"leaf-decode", "leaf-canonical-accelerated", "leaf-packed"} & keys)
    assert {goal["measure"] for goal in goals} == {"codec", "gateway_cpu"}
    assert all(goal["met"] == (goal["ratio"]["median"] <= goal["at_most"]) for goal in goals)
    weights = told["bytes"]
    assert isinstance(weights, list)
    assert len(weights) == 2 * 4 * 15  # sizes, kinds, forms and formats
    assert "Infinity" not in json.dumps(told)


def test_without_node_it_says_what_to_do(person: Person) -> None:
    ran = person.runs("bench", "leaf", env={"PATH": str(PROGRAM.parent)})
    assert ran.code == 2
    assert "Node.js" in ran.err
    assert "Traceback" not in ran.said


def test_outside_a_checkout_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "BENCHMARKS", tmp_path)
    with pytest.raises(LeafgateError, match="get a checkout of leafgate and run `just bench-leaf` there"):
        tokens.bench.main(["leaf"], standalone_mode=False)


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_measured(person: Person) -> None:
    (person.folder / "file").touch()
    ran = person.runs("bench", "leaf", "--quick", "--out", str(person.folder / "file" / "results"))
    assert ran.code == 2
    assert "the folder of the results cannot be made" in ran.err
    assert "starting" not in ran.err


@pytest.mark.parametrize("words", [["--size", "0"], ["--size", "many"], ["--rounds", "0"], ["--size", "99999999"]])
def test_wrong_words_are_refused(person: Person, words: list[str]) -> None:
    assert person.runs("bench", "leaf", *words).code == 2
