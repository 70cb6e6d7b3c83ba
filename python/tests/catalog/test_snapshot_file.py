"""Catalog files: the three shapes, and errors that say where and what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leafgate.catalog.snapshot_file import load_catalog_file
from leafgate.model.errors import ConfigError

A = {"name": "a.x", "description": "d", "inputSchema": {}}
B = {"name": "b", "description": "d", "inputSchema": {}}


def saved(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "catalog.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("document", "ids"),
    [
        ([A, B], ["a:x", "mcp:b"]),
        ({"tools": [B]}, ["mcp:b"]),
        ({"tools": [B], "server": "s"}, ["s:b"]),
        ({"tools": [], "resources": [{"uri": "f://x", "name": "r"}], "prompts": [{"name": "p"}]},
         ["prompt::mcp:p", "resource::f:r"]),
        ([{"server": "s", "tool": B}, {"server": "t", "tool": B}], ["s:b", "t:b"]),
        ([{"server": "s", "resource": {"uri": "f://x", "name": "r"}}], ["resource::s:r"]),
        ([], []),
    ],
)  # fmt: skip
def test_shapes(tmp_path: Path, document: Any, ids: list[str]) -> None:
    loaded = load_catalog_file(saved(tmp_path, document))
    assert [item.id.partition("#")[0] for item in loaded.catalog] == ids
    assert [flag for flag in loaded.report.flags if flag.left_out] == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("5", "a catalog is a list"),
        ({}, "none of the keys"),
        ({"tools": {}}, "tools is not a list"),
        ({"tools": "x"}, "tools is not a list"),
        ({"tools": [5]}, "tools[0] is not an object"),
        ([A, 5], "[1] is not an object"),
        ([A, {}], "[1] is neither a tool"),
        ([{"server": 5, "tool": A}], "server is not a name"),
        ([{"server": "s", "tool": 5}], "[0].tool is not an object"),
        ([{"server": "GitHub", "tool": A}, {"server": "github", "tool": A}], "share the namespace 'github'"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_errors_name_the_file_and_what_is_wrong(tmp_path: Path, document: Any, said: str) -> None:
    path = saved(tmp_path, document)
    with pytest.raises(ConfigError) as caught:
        load_catalog_file(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_catalog_file(tmp_path / "missing.json")
    binary = tmp_path / "binary.json"
    binary.write_bytes(b'["\xff\xfe"]')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_catalog_file(binary)


def test_hostile_definitions_are_flagged_not_raised(tmp_path: Path) -> None:
    loaded = load_catalog_file(saved(tmp_path, [{"name": 5}, {"name": "x", "inputSchema": 7}]))
    assert [item.name for item in loaded.catalog] == ["x"]
    assert len(loaded.report.left_out) == 1
