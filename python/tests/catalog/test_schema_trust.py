"""Foreign schemas: what is found, that nothing is fetched, and that hostile ones cost little."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.catalog.schema_trust import SchemaLimits, check_schema


def codes(schema: object, limits: SchemaLimits | None = None) -> list[str]:
    return [finding.code for finding in check_schema(schema, limits or SchemaLimits())]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
        {"$schema": "http://json-schema.org/draft-07/schema", "type": "object"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"a": {}}, "$ref": "#/$defs/a"},
        {"properties": {"$ref": {"type": "string"}, "type": {"const": 1}}},
    ],
)
def test_honest_schemas_have_no_findings(schema: object) -> None:
    assert codes(schema) == []


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (None, "not-an-object"),
        (True, "not-an-object"),
        ([], "not-an-object"),
        ({"type": "objekt"}, "invalid"),
        ({"properties": []}, "invalid"),
        ({"properties": {"a": 5}}, "invalid"),
        ({"required": "a"}, "invalid"),
        ({"minLength": -1}, "invalid"),
        ({"$schema": "http://example.invalid/own"}, "invalid"),
        ({"$schema": 5}, "invalid"),
        ({1: {}}, "not-json"),
        ({"default": float("nan")}, "not-json"),
        ({"default": {1, 2}}, "not-json"),
        ({"$ref": "http://example.invalid/x"}, "remote-ref"),
        ({"$ref": "file:///etc/hosts"}, "remote-ref"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "remote-ref"),
        ({"allOf": [{"$dynamicRef": "//host/x"}]}, "remote-ref"),
    ],
)
def test_findings(schema: object, code: str) -> None:
    assert codes(schema) == [code]


def test_bounds() -> None:
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"items": deep}
    assert codes(deep) == ["too-deep"]
    assert codes({"description": "x" * 300_000}) == ["too-large"]
    assert codes({"enum": list(range(300_000))}) == ["too-large"]
    assert codes({"properties": {f"p{i}": {} for i in range(2_001)}}) == ["too-many-properties"]
    assert codes({"items": {}}, SchemaLimits(max_depth=1)) == ["too-deep"]
    assert codes({"properties": {"a": {}, "b": {}}}, SchemaLimits(max_properties=1)) == ["too-many-properties"]


def test_hostile_schemas_cost_little() -> None:
    bottomless: dict[str, Any] = {}
    inner = bottomless
    for _ in range(100_000):
        inner["not"] = {}
        inner = inner["not"]
    endless: dict[str, Any] = {"type": "object"}
    endless["properties"] = {"self": endless}
    wide = {"anyOf": [{"anyOf": [{"type": "string"}] * 60}] * 60}
    began = time.process_time()
    assert codes(bottomless) == ["too-deep"]
    assert codes(endless) == ["too-deep"]
    assert codes({"const": 1 << 10_000_000}) == ["too-large"]
    check_schema(wide)
    assert time.process_time() - began < 2


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


def test_nothing_is_ever_fetched(listener: tuple[str, list[str]], tmp_path: Path) -> None:
    base, asked = listener
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"type": "sesame"}))
    for at in (f"{base}/x", secret.as_uri()):
        for schema in (
            {"$ref": at},
            {"$schema": at},
            {"$id": at, "$ref": "#/x"},
            {"$id": at, "$ref": "y"},
            {"properties": {"a": {"$schema": at, "$ref": at}}},
            {"$defs": {"a": {"$id": at, "$dynamicRef": at}}, "$dynamicRef": "#a"},
            {"$vocabulary": {at: True}, "$recursiveRef": at},
        ):
            assert "sesame" not in str(check_schema(schema))
    assert asked == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | st.just("$ref"), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_no_json_raises(schema: object) -> None:
    for finding in check_schema(schema):
        assert finding.message.isprintable()
        assert len(finding.message) <= 240
