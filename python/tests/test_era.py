"""How requests are addressed: judged by the SDK's own reading of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request, decode_header_value

from leafgate.client.era import Session, Stateless


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {}),
        ("server/discover", {}),
        ("tools/call", {"name": "echo"}),
        ("tools/call", {"name": " spaces "}),
        ("tools/call", {"name": "ключ"}),
        ("tools/call", {"name": "=?base64?eA==?="}),
        ("tools/call", {"name": ""}),
        ("resources/read", {"uri": "file:///a b"}),
        ("prompts/get", {"name": "x\ny"}),
    ],
)
def test_a_stateless_request_is_taken(method: str, params: dict[str, str]) -> None:
    era = Stateless()
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": dict(era.meta)}}
    assert isinstance(classify_inbound_request(body, headers=era.headers(method, params)), InboundModernRoute)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_comes_back(name: str) -> None:
    value = Stateless().headers("tools/call", {"name": name})["mcp-name"]
    assert value.isascii()
    assert value.isprintable()
    assert decode_header_value(value) == name


def test_a_session_names_itself_and_its_version() -> None:
    assert Session("2025-06-18", "s1").headers("tools/call", {"name": "x"}) == {
        "mcp-protocol-version": "2025-06-18",
        "mcp-session-id": "s1",
    }
    assert Session().headers("ping", {}) == {"mcp-protocol-version": "2025-11-25"}
    assert Session().meta == {}
