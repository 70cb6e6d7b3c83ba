"""Tools called by name."""

import pytest
from routing_catalog import SMALL, tool

from leafgate.browse.mention import build_mentions
from leafgate.browse.query import parse_query

ITEMS = (*SMALL, tool("Send Fax", server="Old Post"), tool("größe"), tool("ab.cd/ef"))
MENTIONS = build_mentions(ITEMS, frozenset(("echo", "weather", "send")).__contains__)


def named(query: str) -> set[str]:
    return {ITEMS[k].id.split("#")[0] for k in MENTIONS.find(parse_query(query))}


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("call move_file now", {"disk:move_file"}),
        ("create_issue", {"github:create_issue", "gitlab:create_issue"}),
        ("gitlab.create_issue", {"gitlab:create_issue"}),
        ("gitlab/create_issue please", {"gitlab:create_issue"}),
        ("mcp__gitlab__create_issue", {"gitlab:create_issue"}),
        ("gitlab:create_issue#00000000?", {"gitlab:create_issue"}),
        ("nowhere.create_issue", set()),
        ("SENDMAIL", {"post:sendMail"}),
        ("please send fax to Bob", {"Old Post:Send Fax"}),
        ("größe", {"box:größe"}),
        ("run ab.cd/ef", {"box:ab.cd/ef"}),
        ("the echo of a sound", set()),
        ("use the echo tool", {"toys:echo"}),
        ("what does `echo` do with this text", {"toys:echo"}),
        ("weather", {"sky:weather"}),
        ("", set()),
    ],
)
def test_names_are_found(query: str, ids: set[str]) -> None:
    assert named(query) == ids
