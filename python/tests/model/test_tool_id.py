"""Ids: the shared cases, and properties over generated names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.maps.files import MapFiles
from leafgate.model.errors import CatalogError
from leafgate.model.tool import (
    MAX_ID_LENGTH,
    MAX_ID_WEIGHT,
    ToolIdParts,
    canonical_hash8,
    canonical_shape,
    clashing_namespaces,
    format_primitive_id,
    format_tool_id,
    id_weight,
    infer_namespace,
    normalize_namespace,
    parse_primitive_id,
    parse_tool_id,
    prompt_id_for,
    resolve_collisions,
    resource_id_for,
    tool_id_for,
)

CL100K = MapFiles().load("openai/cl100k_base")
FIXTURES = Path(__file__).parents[3] / "shared-fixtures" / "tool-id"
CASES = [case for path in sorted(FIXTURES.glob("*.json")) for case in json.loads(path.read_bytes())["cases"]]


def fields(parts: ToolIdParts) -> dict[str, Any]:
    return {"namespace": parts.namespace, "name": parts.name, "version": parts.version, "hash8": parts.hash8}


def parsed(id: str) -> dict[str, Any]:
    try:
        return fields(parse_tool_id(id))
    except CatalogError:
        return {"error": "not-a-tool-id"}


def parsed_primitive(id: str) -> dict[str, Any]:
    try:
        kind, parts = parse_primitive_id(id)
    except CatalogError:
        return {"error": "not-a-tool-id"}
    return {"kind": kind, **fields(parts)}


def made(name: str, input_schema: object, server: str | None, version: str | None) -> dict[str, Any]:
    try:
        return {"id": tool_id_for(name, input_schema, server=server, version=version)}
    except CatalogError:
        return {"error": "no-usable-name"}


ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "parse-tool-id": parsed,
    "parse-primitive-id": parsed_primitive,
    "hash8": lambda name, input_schema: {
        "shape": canonical_shape(input_schema),
        "hash8": canonical_hash8(name, input_schema),
    },
    "infer-namespace": lambda name: {"namespace": infer_namespace(name)},
    "normalize-namespace": lambda server: {"namespace": normalize_namespace(server)},
    "tool-id": made,
    "resource-id": lambda uri, name, server: {"id": resource_id_for(uri, name, server)},
    "prompt-id": lambda name, arguments, server: {"id": prompt_id_for(name, arguments, server)},
    "resolve-collisions": lambda ids: {"keys": resolve_collisions(ids)},
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_shared_case(case: dict[str, Any]) -> None:
    asked = {key: value for key, value in case["input"].items() if key != "ask"}
    assert ANSWERS[case["input"]["ask"]](**asked) == case["expect"]


def test_there_are_twice_as_many_refusals() -> None:
    parsing = [case for case in CASES if case["input"]["ask"] == "parse-tool-id"]
    refused = [case for case in parsing if "error" in case["expect"]]
    assert len(refused) >= 2 * (len(parsing) - len(refused))


def test_accepted_ids_format_back() -> None:
    for case in CASES:
        if case["input"]["ask"] == "parse-tool-id" and "error" not in case["expect"]:
            assert format_tool_id(ToolIdParts(**case["expect"])) == case["input"]["id"]


NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300),
    st.text("abcdefgqzjXYZ0123456789_.-/ ", min_size=1, max_size=250),
    st.from_regex(r"[a-z]{1,9}([_./][a-zA-Z0-9]{1,9}){0,5}", fullmatch=True),
)
SERVERS = st.none() | NAMES
VERSIONS = st.none() | st.text(max_size=40) | st.from_regex(r"[0-9]{1,3}\.[0-9]{1,3}", fullmatch=True)


@given(NAMES, SERVERS, VERSIONS)
@settings(max_examples=400)
def test_every_name_gets_an_id_that_round_trips(name: str, server: str | None, version: str | None) -> None:
    made_id = tool_id_for(name, {"properties": {"a": {}}}, server=server, version=version)
    parts = parse_tool_id(made_id)
    assert format_tool_id(parts) == made_id
    assert parts.version is not None or parts.hash8 is not None
    assert len(made_id) <= MAX_ID_LENGTH
    assert id_weight(made_id) <= MAX_ID_WEIGHT
    assert made_id == tool_id_for(name, {"properties": {"a": {}}}, server=server, version=version)


@given(st.lists(NAMES, min_size=2, max_size=12, unique=True), st.sampled_from([None, "1.0"]))
def test_names_of_one_server_never_share_an_id(names: list[str], version: str | None) -> None:
    ids = [tool_id_for(name, {}, server="files", version=version) for name in names]
    assert len(set(ids)) == len(names)


@given(st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-:#@/", max_size=120))
def test_the_weight_is_never_below_the_tokens(text: str) -> None:
    assert len(CL100K.encode(text)) <= id_weight(text)


@given(NAMES, SERVERS)
def test_resources_and_prompts_round_trip_and_never_meet_tools(name: str, server: str | None) -> None:
    resource, prompt, tool = (
        resource_id_for(name, name, server),
        prompt_id_for(name, [name], server),
        tool_id_for(name, {}, server=server),
    )
    assert len({resource, prompt, tool}) == 3
    for made_id in (resource, prompt, tool):
        assert format_primitive_id(*parse_primitive_id(made_id)) == made_id
    for made_id in (resource, prompt):
        with pytest.raises(CatalogError):
            parse_tool_id(made_id)


@given(st.text(max_size=60))
def test_a_server_name_always_becomes_a_namespace(server: str) -> None:
    namespace = normalize_namespace(server)
    assert re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", namespace)
    assert normalize_namespace(namespace) == namespace


def test_servers_that_would_share_a_namespace_are_named() -> None:
    assert clashing_namespaces(["GitHub", "github", "slack", "github"]) == {"github": ["GitHub", "github"]}


@pytest.mark.parametrize("value", [None, 5, b"a:b", ["a:b"]])
def test_what_is_no_string_is_refused(value: Any) -> None:
    with pytest.raises(CatalogError):
        parse_tool_id(value)


@pytest.mark.parametrize(
    "parts",
    [
        ToolIdParts("A", "b"),
        ToolIdParts("a", ""),
        ToolIdParts("a", "b", version=""),
        ToolIdParts("a", "b", hash8="0"),
        ToolIdParts("a", "b:c"),
        ToolIdParts("a", "b\n"),
    ],
)
def test_fields_outside_of_the_grammar_are_not_formatted(parts: ToolIdParts) -> None:
    with pytest.raises(CatalogError):
        format_tool_id(parts)


@given(st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=5), max_size=6), st.text(max_size=20))
def test_prose_does_not_change_an_id(properties: dict[str, Any], prose: str) -> None:
    plain = {"properties": properties}
    wordy = {"properties": {name: {"description": prose} for name in properties}, "description": prose, "title": prose}
    assert canonical_hash8("t", plain) == canonical_hash8("t", wordy)
