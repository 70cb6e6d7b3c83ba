"""Leafgate in passthrough loses nothing that a direct connection has but what is named; the other modes likewise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import anyio
import pytest
import survival_results as results
from connections import Transport
from matrix import FEATURES, KEPT, ROUTES, Outcome, Outcomes, features_of, key_of, run_subjects
from named_losses import ALL, BY_DESIGN, OPEN, PASSTHROUGH, stale, unnamed
from subjects import DIRECT, LEAFGATES

Found = Mapping[str, Mapping[str, Outcomes]]
# The other modes differ from passthrough in how tools are shown, not in how bytes travel: one transport is enough.
TRANSPORTS: Final[Mapping[str, Sequence[Transport]]] = {
    "direct": ("http", "stdio", "sse"),
    PASSTHROUGH: ("http", "stdio", "sse"),
    "leafgate transparent": ("http",),
    "leafgate gateway": ("http",),
}


@pytest.fixture(scope="session")
def found() -> Found:
    return anyio.run(run_subjects, (DIRECT, *LEAFGATES), TRANSPORTS)


@pytest.mark.parametrize("subject", ["direct", *ALL])
def test_nothing_is_lost_but_what_is_named(found: Found, subject: str) -> None:
    assert {route: len(outcomes) for route, outcomes in found[subject].items()} == {
        f"{transport} {era}": len(features_of(transport, era))
        for transport, era in ROUTES
        if transport in TRANSPORTS[subject]
    }
    assert unnamed(subject, found[subject]) == {}


@pytest.mark.parametrize("subject", ["direct", *ALL])
def test_what_is_named_as_lost_by_design_is_lost(found: Found, subject: str) -> None:
    assert stale(subject, found[subject]) == []


@pytest.mark.parametrize("subject", ["direct", *ALL])
def test_the_results_file_has_what_is_seen(found: Found, subject: str) -> None:
    """`just survival` writes it anew."""
    kept = results.outcomes_of(results.load()["subjects"][subject])
    routes = found[subject]
    seen = {
        (check, route, outcome.outcome)
        for route, outcomes in routes.items()
        for check, outcome in outcomes.items()
        if outcome != KEPT
    }
    assert seen == {
        (check, route, outcome) for check, each in kept.items() for route, outcome in each.items() if route in routes
    }


def test_the_page_is_made_of_the_results_file() -> None:
    found = results.load()
    assert {*found["checks"]} == {key_of(feature) for feature in FEATURES}
    assert results.PAGE.read_text(encoding="utf-8") == results.render(found)


def test_every_named_loss_is_a_check_with_a_reason() -> None:
    checks = {key_of(feature) for feature in FEATURES}
    assert len(checks) == len(FEATURES)
    for loss in (*BY_DESIGN, *OPEN):
        assert loss.check in checks
        assert loss.reason
        assert {*loss.subjects} <= {*ALL}


def test_a_loss_that_is_not_named_is_found() -> None:
    named = next(loss.check for loss in BY_DESIGN if PASSTHROUGH in loss.subjects)
    lost = Outcome("lost", "nothing")
    routes = {"http 2025-11-25": {named: lost, "results: text": lost, "results: image": KEPT}}
    assert unnamed(PASSTHROUGH, routes) == {"http 2025-11-25: results: text": lost}
    assert named not in stale(PASSTHROUGH, routes)
    assert named in stale(PASSTHROUGH, {"http 2025-11-25": {named: KEPT}})
