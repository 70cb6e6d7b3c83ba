"""Definitions on their way in: the mapping of the reference, hostile shapes, and that nothing given is changed."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.catalog.intake import (
    IntakeMemory,
    as_is,
    intake,
    mcp_tool_to_selectable,
)
from leafgate.clean.cleaner import Cleaner
from leafgate.model.tool import SelectableItem

TOOL: dict[str, Any] = {
    "name": "search_database",
    "title": "Search",
    "description": "Search records in the database",
    "inputSchema": {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "what"}, "limit": {"type": "integer", "default": 10}},
    },
    "outputSchema": {"type": "object", "properties": {"results": {"type": "array"}}},
}


def test_a_tool_of_the_reference() -> None:
    item = mcp_tool_to_selectable(TOOL)
    assert item.id.startswith("mcp:search_database#")
    assert (item.kind, item.name, item.namespace, item.title) == ("tool", "search_database", "mcp", "Search")
    assert item.output_schema == TOOL["outputSchema"]
    assert item.args_schema == TOOL["inputSchema"]
    assert mcp_tool_to_selectable({"name": "x"}).output_schema is None


def test_a_known_server_is_the_namespace() -> None:
    item = mcp_tool_to_selectable({"name": "get_file_contents"}, server="github")
    assert item.id.startswith("github:get_file_contents#")
    assert (item.namespace, item.server) == ("github", "github")


@pytest.mark.parametrize(
    ("annotations", "side_effects", "tags", "cost"),
    [
        ({}, True, (), 0.0),
        ({"readOnlyHint": True}, False, ("read-only",), 0.0),
        ({"destructiveHint": True, "costHint": 0.25}, True, ("destructive",), 0.25),
        ({"readOnlyHint": True, "destructiveHint": True}, True, ("destructive", "read-only"), 0.0),
        ({"readOnlyHint": "yes", "destructiveHint": 1, "costHint": "9"}, True, (), 0.0),
        ({"costHint": float("nan")}, True, (), 0.0),
        ({"costHint": -3}, True, (), 0.0),
        ({"costHint": True}, True, (), 0.0),
        ({"costHint": 10**400}, True, (), 0.0),
    ],
)
def test_annotations_are_claims(
    annotations: dict[str, Any], side_effects: bool, tags: tuple[str, ...], cost: float
) -> None:
    item = mcp_tool_to_selectable({"name": "t", "annotations": annotations})
    assert (item.side_effects, item.tags, item.cost_hint) == (side_effects, tags, cost)
    assert item.metadata["annotations"]["verified"] is False


def test_a_server_cannot_verify_itself() -> None:
    item = mcp_tool_to_selectable({"name": "t", "annotations": {"verified": True}, "_meta": {"tags": ["read-only"]}})
    assert item.metadata["annotations"]["verified"] is False
    assert item.tags == ()


def test_tags_are_labels_only() -> None:
    meta = {"tags": ["b", "A"], "fastmcp": {"tags": ["c", "http://x/y", '{"type": "object"}', "", 5, "x" * 25]}}
    assert mcp_tool_to_selectable({"name": "t", "_meta": meta}).tags == ("a", "b", "c")


def test_versions() -> None:
    assert mcp_tool_to_selectable({"name": "a.b", "_meta": {"version": "1.4.0"}}).id == "a:b@1.4.0"
    items, report = intake([{"name": "a.b", "_meta": {"version": "1.0 beta"}}])
    assert "#" in items[0].id
    assert "version-unusable" in [flag.code for flag in report.flags]


def test_without_description_a_tool_is_described_by_its_name_and_parameters() -> None:
    item = mcp_tool_to_selectable({"name": "getFileContents", "inputSchema": {"properties": {"path": {}, "ref": {}}}})
    assert item.description == "get File Contents (path, ref)"
    titled = mcp_tool_to_selectable({"name": "x", "title": "Read a file"})
    assert titled.description == "Read a file"


def test_prose_is_cleaned_and_values_are_not() -> None:
    schema = {
        "description": "bad words",
        "properties": {
            "description": {"type": "string", "title": "bad title", "enum": ["bad"], "default": "bad"},
            "b": {"anyOf": [{"description": "bad"}], "examples": ["bad"], "pattern": "bad"},
        },
        "required": ["description"],
    }
    tool = {"name": "bad_tool", "description": "bad", "inputSchema": schema, "icons": [{"src": "bad"}]}
    item = mcp_tool_to_selectable(tool, clean=lambda text: text.replace("bad", "good"))
    assert item.description == "good"
    assert item.name == "good_tool"
    assert item.upstream_name == "bad_tool"
    assert item.metadata["icons"] == [{"src": "good"}]
    assert item.args_schema["description"] == "good words"
    first, second = item.args_schema["properties"]["description"], item.args_schema["properties"]["b"]
    assert first == {"type": "string", "title": "good title", "enum": ["bad"], "default": "bad"}
    assert second == {"anyOf": [{"description": "good"}], "examples": ["good"], "pattern": "bad"}
    assert item.args_schema["required"] == ["description"]


def test_what_is_given_is_not_changed_and_not_shared() -> None:
    given_tool = copy.deepcopy(TOOL)
    item = mcp_tool_to_selectable(given_tool, clean=str.upper)
    assert given_tool == TOOL
    given_tool["inputSchema"]["properties"]["query"]["type"] = "null"
    assert item.args_schema["properties"]["query"]["type"] == "string"


def test_the_report_says_what_was_taken_flagged_and_left_out() -> None:
    tools = [
        {"name": "good", "description": "d", "inputSchema": {"type": "object"}},
        {"name": "good", "description": "again", "inputSchema": {"type": "object", "properties": {"a": {}}}},
        {"description": "nameless"},
        {"name": ""},
        {"name": "a\ud800"},
        None,
        {"name": "odd", "description": "d", "inputSchema": {"type": "objekt"}, "outputSchema": []},
    ]
    items, report = intake(tools, server="s")
    assert [item.name for item in items] == ["good", "odd"]
    assert report.taken == tuple(item.id for item in items)
    assert [(flag.code, flag.left_out) for flag in report.flags] == [
        ("duplicate-name", True),
        ("no-usable-name", True),
        ("no-usable-name", True),
        ("no-usable-name", True),
        ("no-usable-name", True),
        ("input-schema-invalid", False),
        ("output-schema-not-an-object", False),
    ]
    assert len(items[1].metadata["schema_findings"]) == 2
    assert len(report.left_out) == 5
    json.dumps(report.as_json())


@pytest.mark.parametrize("tools", [None, 5, "tools", {"name": "x"}, b"x"])
def test_what_is_no_list_is_flagged(tools: object) -> None:
    items, report = intake(tools)
    assert items == []
    assert [flag.code for flag in report.flags] == ["not-a-list"]


@pytest.mark.parametrize("name", ["Über Tool", "a/b/c", "X" * 200, "日本語", "😀", "get file", "1", "-", "a.b.c"])
def test_every_legal_name_is_taken_and_kept_for_dispatch(name: str) -> None:
    items, report = intake([{"name": name, "description": "d", "inputSchema": {}}], server="srv")
    assert [item.upstream_name for item in items] == [name]
    assert report.flags == ()


def test_resources_and_prompts() -> None:
    resource = {"uri": "file:///docs/readme.md", "name": "README", "mimeType": "text/markdown"}
    prompt = {"name": "summarize", "arguments": [{"name": "repo", "required": True}, {"name": "n"}, 5, {}]}
    items, report = intake(resources=[resource, resource], prompts=[prompt], server="fs")
    assert [item.kind for item in items] == ["resource", "prompt"]
    assert items[0].id.startswith("resource::fs:README#")
    assert (items[0].upstream_name, items[0].side_effects) == ("file:///docs/readme.md", False)
    assert items[0].description == "file:///docs/readme.md (text/markdown)"
    assert items[1].args_schema["required"] == ["repo"]
    assert list(items[1].args_schema["properties"]) == ["repo", "n"]
    assert [flag.code for flag in report.left_out] == ["duplicate-name"]
    (template,) = intake(resources=[{"uriTemplate": "a://{x}"}])[0]
    assert template.metadata["uriTemplate"] == "a://{x}"
    (prompt,) = intake(prompts=[{"name": "p"}])[0]
    assert prompt.args_schema == {}
    _, report = intake(resources=[{"name": "x"}], prompts=[{}])
    assert [(flag.kind, flag.code) for flag in report.left_out] == [
        ("resource", "no-usable-name"),
        ("prompt", "no-usable-name"),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEY_LIST = "name title description inputSchema outputSchema annotations _meta icons execution tags uri arguments"
KEYS = st.sampled_from(KEY_LIST.split())
DEFINITIONS = JSON | st.dictionaries(KEYS, JSON, max_size=8)


@given(st.lists(DEFINITIONS, max_size=5))
@settings(max_examples=200)
def test_no_definition_raises(definitions: list[Any]) -> None:
    before = repr(definitions)
    items, report = intake(definitions, resources=definitions, prompts=definitions, clean=str.strip)
    assert repr(definitions) == before
    assert len({item.id for item in items}) == len(items) == len(report.taken)
    # Each definition is asked for thrice; all are accounted for.
    assert len(items) + len(report.left_out) == 3 * len(definitions)


def test_huge_definitions_are_quick() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"properties": {"a": deep}}
    tools = [
        {"name": "long", "description": "x" * 5_000_000},
        {"name": "deep", "description": "d", "inputSchema": deep, "_meta": deep},
        {"name": "n" * 4_000, "description": "d"},
        {"name": "n" * 1_000_000, "description": "d"},
    ]
    began = time.process_time()
    items, report = intake(tools)
    assert time.process_time() - began < 1
    assert len(items) == 3
    assert len(items[0].description) < 20_000
    assert "input-schema-too-deep" in [flag.code for flag in report.flags]


def test_a_definition_that_comes_again_is_not_worked_on_again() -> None:
    cleaned: list[str] = []

    def clean(text: str) -> str:
        cleaned.append(text)
        return text

    def take(definition: dict[str, Any], memory: IntakeMemory) -> SelectableItem:
        return intake([json.loads(json.dumps(definition))], server="s", clean=clean, memory=memory)[0][0]

    tool = {"name": "t", "description": "does it", "inputSchema": {"type": "object", "default": 1}}
    first = IntakeMemory(clean)
    item = take(tool, first)
    assert cleaned
    cleaned.clear()
    second = IntakeMemory(clean, first)
    assert take(tool, second) is item
    assert cleaned == []
    changed = {**tool, "inputSchema": {"type": "object", "default": True}}  # which equals 1 in Python
    assert take(changed, second).args_schema["default"] is True
    assert take(tool, IntakeMemory(str, second)) is not item, "another way of cleaning gives another item"


def test_what_nests_too_deep_to_be_remembered_is_taken_all_the_same() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    memory = IntakeMemory(as_is)
    items, _ = intake([{"name": "t", "inputSchema": deep}], server="s", memory=memory)
    assert [item.name for item in items] == ["t"]


@pytest.mark.parametrize("key", ["title", "description", "$comment", "examples"])
@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: [text]])
def test_words_of_a_schema_are_clean_wherever_they_stand(key: str, wrap: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", key: wrap("zero\u200bwidth")}}}
    item = mcp_tool_to_selectable({"name": "t", "inputSchema": schema}, clean=Cleaner())
    assert item.args_schema["properties"]["a"][key] == wrap("zerowidth")
