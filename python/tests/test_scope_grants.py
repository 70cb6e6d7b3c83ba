"""Scopes and the capabilities that they grant."""

from __future__ import annotations

import pytest

from leafgate.model.principal import CLIENT_CAPABILITIES, EVERY_CAPABILITY, Capability
from leafgate.server.auth.scope_grants import ScopeGrants

NO_TABLE = ScopeGrants()
TABLE = ScopeGrants(
    {
        "all": EVERY_CAPABILITY,
        "look": frozenset({"browse"}),
        "work": frozenset({"execute", "view"}),
        "nothing": frozenset(),
    }
)


def test_without_a_table_the_operators_own_tokens_may_do_everything() -> None:
    assert NO_TABLE.of_token(None) == EVERY_CAPABILITY
    assert NO_TABLE.of_jwt(["operate", "whatever"]) == CLIENT_CAPABILITIES


@pytest.mark.parametrize(
    ("scopes", "granted"), [([], set()), (["browse"], {"browse"}), (["view", "operate", "x"], {"view", "operate"})]
)
def test_without_a_table_a_tokens_scopes_are_capabilities(scopes: list[str], granted: set[str]) -> None:
    assert NO_TABLE.of_token(scopes) == granted


@pytest.mark.parametrize(
    ("scopes", "granted"),
    [
        (["look"], {"browse"}),
        (["look", "work"], {"browse", "execute", "view"}),
        (["all"], EVERY_CAPABILITY),
        (["nothing"], set()),
        (["browse"], set()),
        (["operate"], set()),
        (["LOOK", "unknown"], set()),
        ([], set()),
    ],
)
def test_with_a_table_only_what_it_grants(scopes: list[str], granted: set[str]) -> None:
    assert TABLE.of_token(scopes) == granted
    assert TABLE.of_jwt(scopes) == granted


def test_with_a_table_a_token_without_scopes_may_do_nothing() -> None:
    assert TABLE.of_token(None) == frozenset()


@pytest.mark.parametrize(
    ("needed", "scopes"),
    [(["browse"], ("look",)), (["execute", "view"], ("work",)), (["operate"], ("all",)), ([], ())],
)
def test_the_scopes_to_ask_for_grant_no_more_than_needed(needed: list[Capability], scopes: tuple[str, ...]) -> None:
    assert TABLE.scopes_for(needed) == scopes
    assert NO_TABLE.scopes_for(needed) == ()
