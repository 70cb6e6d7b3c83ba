"""`leafgate leaf`: each command's lines. What the answers must be is shared-fixtures' business; here is the shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from leafgate.cli.main import cli
from leafgate.maps.files import MapFiles
from leafgate.model.leaf import CODEC_META_KEY

DIGEST = str(MapFiles().find("toy").digest)
WRAPPED = {"type": "text", "text": "the cat", "_meta": {CODEC_META_KEY: {"map_id": DIGEST, "ids": [261, 264]}}}
PLAIN = {"type": "text", "text": "the cat"}


def answers(*arguments: str, lines: list[Any]) -> list[Any]:
    given = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    found = CliRunner().invoke(cli, ["leaf", *arguments], input=given)
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_check() -> None:
    lines = [
        {"text": "the cat", "ids": [261, 264], "map_id": DIGEST},
        {"text": "the", "ids": [116, 104, 101]},
        {"text": "the"},
        {"text": "a", "ids": [97], "map_id": 5},
    ]
    found = answers("check", "--map", "toy", lines=lines)
    assert found[0] == {"verdict": "accept", "reason": None}
    assert found[1] == {"verdict": "reject", "reason": "non-canonical"}
    assert found[2]["error"] == "bad-line"
    assert found[3] == {"verdict": "reject", "reason": "foreign-map"}
    assert answers("check", "--map", "toy", "--level", "decode", lines=lines)[1]["verdict"] == "accept"


def test_wrap_verify_read_strip() -> None:
    [wrapped] = answers("wrap", "--map", "toy", lines=[{"result": {"content": [PLAIN]}}])
    assert wrapped == {"result": {"content": [WRAPPED]}}
    assert answers("verify", "--map", "toy", lines=[wrapped]) == [
        {"entries": [{"textIndex": 0, "verdict": "accept", "reason": None}]}
    ]
    entry = {"textIndex": 0, "text": "the cat", "ids": [261, 264], "mapId": DIGEST, "source": "meta"}
    assert answers("read", lines=[wrapped, {**wrapped, "expectedMapHash": DIGEST[7:]}]) == [{"entries": [entry]}] * 2
    assert answers("strip", lines=[wrapped]) == [{"result": {"content": [PLAIN]}}]


@pytest.mark.parametrize("least", ["8", None, 1.5, True, []])
def test_a_minimum_that_is_no_integer_ends_no_service(least: Any) -> None:
    good = {"result": {"content": []}}
    found = answers("wrap", "--map", "toy", lines=[{**good, "minTextLength": least}, good])
    assert [answer.get("error") for answer in found] == ["bad-line", None]


@pytest.mark.parametrize("content", [None, 5, "text", {}, [None, 5, "x"]])
@pytest.mark.parametrize("command", ["wrap", "verify", "read", "strip"])
def test_odd_content_ends_no_service(command: str, content: Any) -> None:
    options = ["--map", "toy"] if command in ("wrap", "verify") else []
    found = answers(command, *options, lines=[{"result": {"content": content}}])
    assert found in ([{"result": {"content": content}}], [{"entries": []}])


def test_read_refuses_another_map() -> None:
    other = "sha256:" + "0" * 64
    found = answers(
        "read", lines=[{"result": {"content": [WRAPPED]}, "expectedMapHash": hash} for hash in (other, "x")]
    )
    assert found[0] == {"error": "map-mismatch", "expected": other, "found": DIGEST, "textIndex": 0}
    assert found[1]["error"] == "bad-digest"


def test_digest() -> None:
    found = answers("digest", lines=[{"hash": DIGEST[7:].upper()}, {"hash": 5}, {}])
    assert found[0] == {"digest": DIGEST}
    assert [answer["error"] for answer in found[1:]] == ["bad-digest", "bad-digest"]
