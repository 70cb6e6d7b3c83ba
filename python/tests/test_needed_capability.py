"""Which capability a message needs; what is not known needs the most that clients have."""

from __future__ import annotations

from typing import Any

import pytest

from leafgate.model.mode import ALL_META_TOOLS, META_TOOLS, ExposureMode
from leafgate.server.auth.needed_capability import needed_for


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        ("initialize", None),
        ("ping", None),
        ("server/discover", None),
        ("notifications/initialized", None),
        ("notifications/cancelled", None),
        ("tools/list", "browse"),
        ("prompts/list", "browse"),
        ("resources/templates/list", "browse"),
        ("resources/read", "execute"),
        ("prompts/get", "execute"),
        ("completion/complete", "execute"),
        ("leafgate/status", "operate"),
        ("leafgate/anything", "operate"),
        ("tasks/get", "execute"),
        ("", "execute"),
        ("TOOLS/LIST", "execute"),
    ],
)
def test_methods(method: str, needed: str | None) -> None:
    assert needed_for(method, {}, ALL_META_TOOLS) == needed


@pytest.mark.parametrize(
    ("params", "needed"),
    [
        ({"name": "tool_browse"}, "browse"),
        ({"name": "tool_hydrate"}, "browse"),
        ({"name": "resource_browse"}, "browse"),
        ({"name": "tool_view"}, "view"),
        ({"name": "tool_execute"}, "execute"),
        ({"name": "resource_read"}, "execute"),
        ({"name": "prompt_get"}, "execute"),
        ({"name": "of a server"}, "execute"),
        ({"name": ["tool_browse"]}, "execute"),
        ({"name": None}, "execute"),
        ({}, "execute"),
        (None, "execute"),
    ],
)
def test_calls(params: dict[str, Any] | None, needed: str) -> None:
    assert needed_for("tools/call", params, ALL_META_TOOLS) == needed


def test_a_servers_tool_with_one_of_our_names_is_executed() -> None:
    listed = META_TOOLS[ExposureMode.PASSTHROUGH]
    assert needed_for("tools/call", {"name": "tool_browse"}, listed) == "execute"
    assert needed_for("tools/call", {"name": "tool_view"}, listed) == "view"
