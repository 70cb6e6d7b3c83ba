"""The fixtures themselves: shape, names, citations, no orphans, and expected values that others confirm."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fixture_cases import FIXTURES, LEAF_FOLDERS, fixture_files, leaf_cases, read_fixture
from implementations import MAPS, ROOT

SCHEMA = json.loads((FIXTURES / "fixture.schema.json").read_bytes())
FILES = fixture_files()
ALL: list[tuple[Path, dict[str, Any]]] = [(path, case) for path in FILES for case in read_fixture(path)["cases"]]


def headings() -> set[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "spec").glob("*.md")))
    return set(re.findall(r"^#+ ([0-9]+(?:\.[0-9]+)*)\.? ", text, re.MULTILINE))


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(FIXTURES)))
def test_shape(path: Path) -> None:
    found = jsonschema.Draft202012Validator(SCHEMA).iter_errors(read_fixture(path))
    assert [f"{error.json_path}: {error.message[:200]}" for error in found] == []
    to_schema = path.parent / read_fixture(path)["$schema"]
    assert to_schema.resolve() == FIXTURES / "fixture.schema.json"


def test_names_are_unique() -> None:
    assert [name for name, times in Counter(case["name"] for _, case in ALL).items() if times > 1] == []


def test_every_case_cites_a_heading_of_the_spec() -> None:
    known = headings()
    assert [f"{case['name']}: {case['cites']}" for _, case in ALL if case["cites"] not in known] == []


def test_every_map_exists() -> None:
    assert {case["map"] for _, case in ALL if "map" in case} <= set(MAPS)


def test_no_orphans() -> None:
    """Every file is a fixture, or is named in the README; every folder too; every case is run by somebody."""
    readme = (FIXTURES / "README.md").read_text(encoding="utf-8")
    for path in FIXTURES.rglob("*"):
        if "__pycache__" in path.parts or path in FILES or path == FIXTURES / "README.md":
            continue
        assert path.name in readme, f"{path.relative_to(FIXTURES)} is neither a fixture nor named in the README"
    assert {path.relative_to(FIXTURES).parts[0] for path in FILES} <= {*LEAF_FOLDERS, "frames", "models", "build-map"}
    assert len(list(leaf_cases())) == sum(path.relative_to(FIXTURES).parts[0] in LEAF_FOLDERS for path, _ in ALL)


def test_every_map_has_tokenize_cases() -> None:
    assert {case["map"] for path, case in ALL if path.parent.name == "tokenize"} == set(MAPS)


def test_twice_as_many_refusals() -> None:
    accepted, refused = (
        sum((FIXTURES / "read-leaf" / kind) in path.parents for path, _ in ALL) for kind in ("accept", "reject")
    )
    assert refused >= 2 * accepted > 0


def test_every_reason_at_every_level() -> None:
    spec = (ROOT / "spec" / "5-leaf-tokens.md").read_text(encoding="utf-8")
    table = spec.partition("## 5.7")[2].partition("\n## ")[0]
    reasons = set(re.findall(r"^\|[^|]*\| `([a-z-]+)` \|", table, re.MULTILINE))
    assert len(reasons) == 11
    wanted = {(reason, level) for reason in reasons for level in ("decode", "canonical")}
    shown = {
        (case["expect"]["reason"], case["options"]["level"])
        for path, case in ALL
        if path.parent.name == "reject" and case["command"] == "check" and "reason" in case["expect"]
    }
    assert wanted - shown == {("non-canonical", "decode")}


def test_other_answers_are_allowed_for_a_reason() -> None:
    assert [case["name"] for _, case in ALL if "also_allowed" in case and "1.0 from 1" not in case["description"]] == []


def test_expected_ids_are_confirmed_by_others() -> None:
    ran = subprocess.run(
        [sys.executable, str(FIXTURES / "oracle.py")], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
