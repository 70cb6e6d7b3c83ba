"""`leafgate tokens`, as a person or a pipe uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from leafgate.cli.main import cli
from leafgate.maps.files import MapFiles
from leafgate.model.errors import MapUnreachableError


def run(*arguments: str, lines: str = "") -> Result:
    return CliRunner().invoke(cli, ["tokens", *arguments], input=lines)


def answers(*arguments: str, lines: str) -> list[Any]:
    found = run(*arguments, lines=lines)
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_encode() -> None:
    lines = '{"text":"the cat"}\n{"text":""}\n{"text":"\\ud800"}\n{"txt":""}\n{"text":"<|stop|>"}\n'
    found = answers("encode", "--map", "toy", lines=lines)
    assert found[:2] == [{"ids": [261, 264]}, {"ids": []}]
    assert [answer.get("error") for answer in found[2:4]] == ["bad-text", "bad-line"]
    assert 300 not in found[4]["ids"]


def test_decode() -> None:
    lines = '{"ids":[261,264]}\n{"ids":[300]}\n{"ids":[195]}\n{"ids":[1.0]}\n{"ids":[true]}\n{"ids":5}\n'
    found = answers("decode", "--map", "toy", lines=lines)
    assert found[0] == {"text": "the cat"}
    errors = [answer["error"] for answer in found[1:]]
    assert errors == ["special-id", "bad-text", "not-integer", "not-integer", "bad-line"]


def test_a_map_by_its_path() -> None:
    path = str(MapFiles().find("toy-metaspace").path)
    assert answers("encode", "--map", path, lines='{"text":"the cat"}\n') == [{"ids": [309, 312]}]


def test_info() -> None:
    facts = json.loads(run("info", "--map", "toy", "--json").stdout)
    assert (facts["id"], facts["encoder"], facts["tokens"], facts["max_id"]) == ("toy", "byte_level", 266, 300)
    assert facts["map_id"] == MapFiles().find("toy").digest
    assert facts["special_tokens"] == {"<|stop|>": 300}
    shown = run("info", "--map", "qwen2").stdout
    assert "qwen/qwen2" in shown
    assert "<|im_end|>" in shown


def test_an_unknown_map_is_an_error_of_the_caller(tmp_path: Path) -> None:
    found = run("encode", "--map", str(tmp_path / "missing.json"))
    assert isinstance(found.exception, MapUnreachableError)


@pytest.mark.parametrize("arguments", [["encode"], ["decode"], ["info"], ["nothing"]])
def test_usage(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2
