"""Tools that copy another server's tool are found, by text and by name; what many servers have in common is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from leafgate.catalog.twins import MAX_LISTED, MOST_OWNERS, find_twins, list_pairs
from leafgate.cli.clean import scan as command

TEXT = "Search for articles on PubMed using key words. Returns at most ten articles, newest first."
ORIGINAL = {"name": "search_pubmed", "description": TEXT}


def twins_of(copy: dict[str, Any]) -> list[tuple[str, str]]:
    twins = find_twins([("pubmed", ORIGINAL), ("other", copy)])
    return [(twin.other_tool, twin.by) for twin in twins if twin.server == "other"]


@pytest.mark.parametrize(
    "copy",
    [
        {"name": "find_papers", "description": TEXT},
        {"name": "find_papers", "description": f"This is the best tool in the world. {TEXT}"},
        {"name": "find_papers", "description": TEXT.upper().replace(" ", "\n")},
        {"name": "find_papers", "description": TEXT.replace("ten", "5")},
        {"name": "find_papers", "description": TEXT.replace("e", "\u0435")},  # Cyrillic
    ],
)
def test_a_copied_text_is_found(copy: dict[str, Any]) -> None:
    assert twins_of(copy) == [("search_pubmed", "text")]


@pytest.mark.parametrize("name", ["search_pubmed", "searchPubmed", "search-pubmed-v2", "SEARCH_PUBMED_new"])
def test_a_copied_name_is_found(name: str) -> None:
    assert twins_of({"name": name, "description": "Finds papers."}) == [("search_pubmed", "name")]


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "search", "description": "Search for articles."},
        {
            "name": "search_arxiv",
            "description": "Search for preprints on arXiv by author. Returns titles and abstracts.",
        },
        {"name": 5, "description": None},
        {},
    ],
)
def test_other_tools_are_not_twins(tool: dict[str, Any]) -> None:
    assert twins_of(tool) == []


def test_tools_of_one_server_are_not_twins() -> None:
    assert find_twins([("pubmed", ORIGINAL), ("pubmed", {**ORIGINAL, "name": "search_pubmed_v2"})]) == []


def test_what_many_servers_have_is_not_distinctive() -> None:
    assert find_twins([(f"server{number}", ORIGINAL) for number in range(MOST_OWNERS + 1)]) == []


def test_a_server_that_is_configured_twice_is_one_pair_in_each_direction() -> None:
    tools = [
        {"name": f"tool_{number}", "description": " ".join(f"word{number}{letter}" for letter in "abcdefgh")}
        for number in range(MAX_LISTED + 5)
    ]
    pairs = list_pairs(find_twins([(server, tool) for server in ("one", "two") for tool in tools]))
    assert [(pair["server"], pair["other"], pair["count"]) for pair in pairs] == [
        ("one", "two", MAX_LISTED + 5),
        ("two", "one", MAX_LISTED + 5),
    ]
    assert len(pairs[0]["tools"]) == MAX_LISTED


def test_the_command_names_twins_and_does_not_flag_them(tmp_path: Path) -> None:
    servers = {"pubmed": [ORIGINAL], "copy": [{**ORIGINAL, "name": "find_papers"}]}
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([{"server": name, "tool": tool} for name, tools in servers.items() for tool in tools]))
    done = CliRunner().invoke(command, ["--catalog", str(file), "--check"])
    assert done.exit_code == 0, done.output
    assert "twins of other servers' tools: 2" in done.output
    rows = json.loads(CliRunner().invoke(command, ["--catalog", str(file), "--json"]).output)
    assert [(row["risk"], row["findings"][-1]["kind"], row["findings"][-1]["excerpt"]) for row in rows] == [
        (0.0, "twin", "copy: find_papers"),
        (0.0, "twin", "pubmed: search_pubmed"),
    ]
