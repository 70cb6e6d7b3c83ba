"""Every case of shared-fixtures/ on every implementation: a process per command, map and options, fed all its lines."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fixture_cases import Case, leaf_cases, without_message, write_map_file
from implementations import IMPLEMENTATIONS, Implementation, as_line, at_once

CASES = list(leaf_cases())
Answers = dict[tuple[str, str], Any]


def group_of(case: Case) -> tuple[Any, ...]:
    return (case.command, case.map_id, case.options)


def line_of(case: Case, folder: Path) -> str:
    """The line, with the path of a file in the place of its recipe."""
    if case.command != "load":
        return case.line
    fields = json.loads(case.line)
    path = folder / f"{hashlib.sha256(case.name.encode()).hexdigest()[:16]}.json"
    write_map_file(fields["file"], path)
    return as_line({**fields, "file": str(path)})


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("maps")
    groups = defaultdict(list)
    for case in CASES:
        groups[group_of(case)].append(case)

    def ask(implementation: Implementation, group: tuple[Any, ...]) -> Answers:
        command, map_id, options = group
        lines = [line_of(case, folder) for case in groups[group]]
        given = implementation.answer(command, lines, map_id, dict(options))
        return {(implementation.name, case.name): each for case, each in zip(groups[group], given, strict=True)}

    asked = at_once(*(partial(ask, implementation, group) for group in groups for implementation in IMPLEMENTATIONS))
    return {key: each for answers in asked for key, each in answers.items()}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=lambda i: i.name)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_case(case: Case, implementation: Implementation, answers: Answers) -> None:
    found = without_message(answers[implementation.name, case.name])
    if case.command == "load" and "found" in found and "found" not in case.allowed[0]:
        assert found.pop("found") != found["expected"]  # the digest of an edited file is not written in the case
    if case.command == "encode" and "ids" in case.allowed[0]:
        assert found["ids"] == case.allowed[0]["ids"]
    assert found in case.allowed, f"{case.path.name}: {case.line[:300]}"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=lambda i: i.name)
def test_a_line_that_is_no_utf8(implementation: Implementation) -> None:
    lines = [b'{"text":"\xff"}', b'{"text":"\xed\xa0\x80"}', b"", b'{"text":"\xc3\xa9"}', b'{"text":"a"}\r']
    found = implementation.answer_raw("encode", lines, "toy")
    assert [b'"bad-line"' in answer for answer in found] == [True, True, True, False, False]
    assert found[3] == b'{"ids":[195,169]}'
    assert found[4] == b'{"ids":[97]}'
