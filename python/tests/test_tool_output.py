"""A tool's output: whatever a program has in its hands becomes MCP content blocks, or is refused with a reason."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from mcp.types import CallToolResult, TextContent

from leafgate.embed.tool_output import read_output
from leafgate.model.context import ContextError

TEXT = {"type": "text", "text": "found"}


def only(raw: Any, media_type: str | None = None) -> dict[str, Any]:
    (block,) = read_output(raw, media_type).blocks
    return dict(block)


@pytest.mark.parametrize(
    "raw", ["found", b"found", bytearray(b"found"), memoryview(b"found"), [TEXT], {"content": [TEXT]}]
)
def test_a_text_is_a_text_block(raw: Any) -> None:
    assert only(raw) == TEXT


@pytest.mark.parametrize("raw", [{"a": 1}, [1, 2], [], 5, None, {"content": "no blocks"}, {"content": [{"rows": 3}]}])
def test_other_json_is_written_out(raw: Any) -> None:
    resource = only(raw)["resource"]
    assert resource["mimeType"] == "application/json"


def test_a_media_type_is_kept() -> None:
    assert only("a,b", "text/csv")["resource"] == {"uri": "result:", "mimeType": "text/csv", "text": "a,b"}
    assert only(b"\xffa,b", "text/csv")["resource"]["text"] == "\ufffda,b"


@pytest.mark.parametrize(("media_type", "told"), [(None, "application/octet-stream"), ("image/png", "image/png")])
def test_bytes_that_are_no_text_stay_bytes(media_type: str | None, told: str) -> None:
    resource = only(b"\x89PNG\xff", media_type)["resource"]
    assert resource["mimeType"] == told
    assert base64.b64decode(resource["blob"]) == b"\x89PNG\xff"


def test_a_result_of_a_client_is_read_as_it_is() -> None:
    result = CallToolResult(content=[TextContent(type="text", text="no such file")], isError=True)
    output = read_output(result, None)
    assert (output.blocks, output.failed) == (({"type": "text", "text": "no such file"},), True)


def test_structured_content_counts_where_there_is_no_other() -> None:
    assert only({"content": [], "structuredContent": {"n": 1}})["resource"]["text"] == '{"n": 1}'
    assert read_output({"content": []}, None).blocks == ()
    assert only({"content": [TEXT], "structuredContent": {"n": 1}}) == TEXT


@pytest.mark.parametrize("raw", [object(), {1, 2}, {"a": object()}, 1j])
def test_what_no_tool_can_give_is_refused(raw: Any) -> None:
    with pytest.raises(ContextError, match="is no tool's output"):
        read_output(raw, None)
