"""Resources by their URI: listed ones by their own id, the others by the templates that are seen."""

from __future__ import annotations

import pytest

from leafgate.clean.cleaner import Cleaner
from leafgate.gateway.snapshot import build_snapshot, narrow_snapshot
from leafgate.model.rights import Visibility
from leafgate.ports import Offers, ToolListing
from leafgate.server.mcp_server import sees_uri

WHOLE = build_snapshot(
    Offers(
        resources=[ToolListing("disk", {"name": name, "uri": f"file:///{name}"}) for name in ("open", "diary")],
        templates=[
            ToolListing("disk", {"name": "files", "uriTemplate": "file:///{name}"}),
            ToolListing("web", {"name": "pages", "uriTemplate": "page://{name}"}),
        ],
    ),
    Cleaner(),
)


@pytest.mark.parametrize(
    ("visibility", "server", "uri", "expected"),
    [
        (Visibility(include=("disk:*",)), "disk", "file:///diary", True),
        (Visibility(include=("disk:*",)), "disk", "file:///else", True),
        (Visibility(include=("disk:*",)), "web", "page://x", False),
        (Visibility(include=("disk:*",)), "disk", "page://x", False),
        (Visibility(exclude=("disk:diary",)), "disk", "file:///diary", False),
        (Visibility(exclude=("disk:diary",)), "disk", "file:///open", True),
        (Visibility(exclude=("disk:files",)), "disk", "file:///open", True),
        (Visibility(exclude=("disk:files",)), "disk", "file:///else", False),
        (Visibility(exclude=("web:*",)), "web", "page://x", False),
        (Visibility(exclude=("nothing",)), "web", "not://ours", False),
    ],
)
def test_what_is_seen(visibility: Visibility, server: str, uri: str, expected: bool) -> None:
    assert sees_uri(WHOLE, narrow_snapshot(WHOLE, visibility), server, uri) is expected


def test_who_sees_everything_sees_what_is_not_listed_too() -> None:
    assert sees_uri(WHOLE, WHOLE, "web", "not://listed")
