"""tool_view: from a handle to a page, for its owner only."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hostile_texts import LOG
from test_deliver import ORIGIN, count, door, text_result

from leafgate.gateway.deliver import deliver_result, view
from leafgate.model.envelope import ENVELOPE_META_KEY
from leafgate.model.errors import GatewayError
from leafgate.model.request import Request

pytestmark = pytest.mark.anyio

ME = Request("me")


async def kept(at: Any, raw: dict[str, Any]) -> str:
    result = (await deliver_result(at, ME, ORIGIN, raw)).as_mcp()
    return str(result["_meta"][ENVELOPE_META_KEY]["artifacts"][0]["handle"])


async def test_a_page_says_what_it_is_a_part_of_and_how_to_go_on() -> None:
    at = door()
    handle = await kept(at, text_result(LOG))
    result = (await view(at, ME, handle, {"lines": [1500, 1501]})).as_mcp()
    assert result["isError"] is False
    (block,) = result["content"]
    lines = block["text"].split("\n")
    assert lines[:2] == LOG.split("\n")[1499:1501]
    assert lines[2] == '[lines 1500 to 1501 of 2000; next: {"type":"lines","start":1502,"end":1503}]'
    assert count((await view(at, ME, handle, "head")).as_mcp()["content"][0]["text"]) <= 800


async def test_an_image_comes_back_as_an_image() -> None:
    at = door()
    image = {"type": "image", "data": base64.b64encode(b"x" * 400_000).decode(), "mimeType": "image/png"}
    handle = await kept(at, {"content": [image]})
    result = (await view(at, ME, handle, {"type": "bytes"})).as_mcp()
    assert result["content"] == [image, {"type": "text", "text": "[image/png, 400000 bytes]"}]


async def test_handles_of_others_forged_and_unknown_ones_look_alike() -> None:
    at = door()
    handle = await kept(at, text_result(LOG))
    messages = set()
    for request, tried in ((Request("you"), handle), (ME, "0" * 24), (ME, "")):
        with pytest.raises(GatewayError) as raised:
            await view(at, request, tried, "head")
        assert raised.value.code == "VIEW_FAILED"
        messages.add(raised.value.body.message)
    assert len(messages) == 1
    with pytest.raises(GatewayError) as wrong:
        await view(at, ME, 7, "head")
    assert wrong.value.code == "ARGS_INVALID"
