"""The selection turn: only offered ids before, no guesses afterwards."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.browse.cards import BREAKPOINT, selection_schema, validate_selection
from leafgate.model.errors import RouteError
from leafgate.model.tool import ChoiceCard

IDS = ["github:create_issue#3a91c7d2", "github:create_issues#00000000", "Slack:x", "slack:X", "weather:get@2024-05"]


def test_the_schema_admits_the_offered_ids_only() -> None:
    schema = selection_schema(IDS)
    assert schema["properties"]["selection"]["enum"] == IDS
    valid = jsonschema_rs.validator_for(schema)
    assert all(valid.is_valid({"selection": one}) for one in IDS)
    for wrong in ({"selection": "a:b"}, {}, {"selection": IDS[0], "more": 1}, {"selection": None}):
        assert not valid.is_valid(wrong)


def test_provider_envelopes() -> None:
    bare = selection_schema(IDS)
    openai = selection_schema(IDS, provider="openai")
    assert (openai["type"], openai["json_schema"]["strict"]) == ("json_schema", True)
    assert openai["json_schema"]["schema"] == bare
    anthropic = selection_schema(IDS, provider="anthropic")
    assert anthropic["input_schema"] == bare
    assert {"name", "description"} <= anthropic.keys()
    with pytest.raises(RouteError):
        selection_schema(IDS, provider="else")  # type: ignore[arg-type]


def test_cards_may_be_given_and_the_marker_is_no_candidate() -> None:
    cards = [ChoiceCard(id=one, name="", description="") for one in IDS]
    assert selection_schema([*cards, BREAKPOINT, cards[0]]) == selection_schema(IDS)


def test_no_candidates() -> None:
    for nothing in ([], [BREAKPOINT]):
        with pytest.raises(RouteError):
            selection_schema(nothing)
    assert validate_selection("a:b", []).status == "rejected"


@pytest.mark.parametrize(
    ("selected", "status", "found"),
    [
        (IDS[0], "accepted", IDS[0]),
        (f"  {IDS[0]}\n", "repaired", IDS[0]),
        ("GitHub:Create_Issue#3A91C7D2", "repaired", IDS[0]),
        ("github:create_issues", "repaired", IDS[1]),
        ("WEATHER:", "repaired", IDS[4]),
        ("Slack:x", "accepted", "Slack:x"),
        ("SLACK:X", "rejected", None),
        ("github:create_issue", "rejected", None),
        ("slack", "rejected", None),
        ("create_issue", "rejected", None),
        ("github:create_issue#3a91c7d2x", "rejected", None),
        ("", "rejected", None),
        ("   ", "rejected", None),
        (None, "rejected", None),
        (["Slack:x"], "rejected", None),
    ],
)
def test_verdicts(selected: Any, status: str, found: str | None) -> None:
    verdict = validate_selection(selected, IDS)
    assert (verdict.status, verdict.id) == (status, found)
    assert verdict.reason


@given(st.text(max_size=20), st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=6))
def test_what_is_not_rejected_was_offered(selected: str, offered: list[str]) -> None:
    verdict = validate_selection(selected, offered)
    assert (verdict.id is None) == (verdict.status == "rejected")
    assert verdict.id is None or verdict.id in offered
