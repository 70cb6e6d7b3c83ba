"""Names and definitions as plain clients list them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from leafgate.clean.cleaner import Cleaner
from leafgate.gateway.native import Key, native_offers, public_names
from leafgate.gateway.snapshot import build_snapshot
from leafgate.ports import Offers, ToolListing
from leafgate.server.definitions import fit_for_lists

SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ([("one", "echo")], ["echo"]),
        ([("one", "echo"), ("two", "echo"), ("two", "say")], ["one__echo", "two__echo", "say"]),
        ([("one", "tool_view")], ["one__tool_view"]),
        ([("one", "a.b"), ("one", "a_b")], ["a_b_c32902f2", "a_b"]),
        ([("one", "a.b"), ("one", "a/b")], ["a_b_c32902f2", "a_b_b6658f7e"]),
        ([("one", "x" * 65)], ["x" * 55 + "_b6c7fa68"]),
        # Neither server wins where a name and a prefixed one are equal.
        ([("one", "b"), ("a", "b"), ("c", "one__b")], ["one__b_de53b711", "a__b", "c__one__b"]),
        # Two servers whose names become the same namespace.
        ([("My Server", "x"), ("my-server", "x")], ["my-server__x_ba8c0b4d", "my-server__x_564a9830"]),
    ],
)  # fmt: skip
def test_the_rule_of_names(keys: list[Key], names: list[str]) -> None:
    assert [*public_names(keys).values()] == names
    assert [*public_names(reversed(keys)).values()] == [*reversed(names)]  # the order does not matter


def test_a_server_cannot_take_the_name_of_another_by_writing_its_hash() -> None:
    victim = ("good", "read.file")
    (name,) = public_names([victim]).values()
    names = public_names([victim, ("evil", name)])
    assert [*names.values()] == [f"good__{name}", f"evil__{name}"]


@pytest.mark.parametrize("prefix", [False, True])
def test_every_name_is_safe_and_leads_to_one_tool(prefix: bool) -> None:
    odd = ["", "日本語", "中文", "a b", "a\tb", "\ud800", "😀", ".", "..", "-", "_", "x" * 64, "x" * 65, "y" * 4_000]
    keys = [(server, name) for server in ("", "one", "Two!", "ünï", "s" * 90) for name in odd if name]
    names = public_names(keys, prefix=prefix)
    assert len({*names.values()}) == len(keys)
    assert all(SAFE.fullmatch(name) for name in names.values())


def test_a_prefixed_name_is_the_same_with_and_without_other_servers() -> None:
    keys = [("one", "echo"), ("one", "a.b"), ("one", "x" * 80)]
    alone = public_names(keys, prefix=True)
    beside = public_names([*keys, *((server, name) for server in ("two", "three") for _, name in keys)], prefix=True)
    assert alone == {key: beside[key] for key in keys}
    assert alone["one", "echo"] == "one__echo"


def listed(definition: dict[str, Any]) -> dict[str, Any]:
    offers = Offers(tools=[ToolListing("one", definition)])
    cleaner = Cleaner()
    snapshot = build_snapshot(offers, cleaner, fit=fit_for_lists)
    (tool,) = native_offers(snapshot, lambda value: cleaner.json(value).value).tools.values()
    return dict(tool.definition)


def test_what_clients_show_passes() -> None:
    shown = {
        "title": "Say it",
        "annotations": {"title": "Say", "readOnlyHint": True, "openWorldHint": False},
        "icons": [{"src": "https://example.com/i.png", "sizes": ["48x48"]}, {"src": "data:image/png;base64,AAAA"}],
        "_meta": {"vendor/key": 1},
    }
    tool = listed({"name": "say", "inputSchema": {"type": "object", "properties": {"text": {}}}, **shown})
    assert {key: tool[key] for key in shown} == shown
    assert listed({"name": "say.it", "inputSchema": {}})["title"] == "say.it"
    assert "title" not in listed({"name": "say.it", "annotations": {"title": "Say"}})


def test_a_definition_that_clients_would_refuse_is_mended() -> None:
    """Else one tool makes the whole list unreadable."""
    tool = listed(
        {
            "name": "say",
            "title": 5,
            "description": None,
            "inputSchema": "none",
            "outputSchema": [],
            "annotations": {"readOnlyHint": "yes", "title": ["x"], "idempotentHint": True},
            "icons": [{"src": "javascript:alert(1)"}, {"src": "https://example.com/i.png", "sizes": "any"}, "x", {}],
            "_meta": [],
        }
    )
    assert tool == {
        "name": "say",
        "inputSchema": {"type": "object"},
        "annotations": {"idempotentHint": True},
        "icons": [{"src": "https://example.com/i.png"}],
    }
