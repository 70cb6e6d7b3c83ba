"""Ready once nothing is missing, and from then on."""

from __future__ import annotations

from leafgate.telemetry.readiness import Readiness


def test_what_is_missing_is_told_until_nothing_is() -> None:
    missing = ["the catalog"]
    readiness = Readiness(lambda: missing)
    assert readiness.missing() == ["the catalog"]
    missing = []
    assert readiness.missing() == []


def test_a_catalog_that_is_rebuilt_later_changes_nothing() -> None:
    missing: list[str] = []
    readiness = Readiness(lambda: missing)
    assert not readiness.missing()
    missing.append("the catalog")
    assert not readiness.missing()
