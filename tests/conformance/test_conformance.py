"""Whatever the official suite finds right in the reference server, it finds right through the gateway.

Needs the suite in .tools/conformance. Where it is missing the tests are skipped, but with CI=true they fail.
LEAFGATE_CONFORMANCE decides otherwise: `require` fails, `skip` skips always.
"""

from __future__ import annotations

import os

import pytest
from losses import KnownLoss, compare, load_known
from suite_results import VERSIONS, Check, Results, SuiteMissing, find_suite, run_suite, run_until_steady
from targets import reference_behind_gateway, reference_directly

KNOWN = load_known()

Runs = dict[str, Results]


@pytest.fixture(scope="session")
def suite() -> None:
    """The suite is there, or the tests that need it say why they do not run."""
    wish = os.environ.get("LEAFGATE_CONFORMANCE", "require" if os.environ.get("CI") == "true" else "")
    if wish == "skip":
        pytest.skip("LEAFGATE_CONFORMANCE=skip")
    missing = _missing()
    if missing and wish == "require":
        pytest.fail(missing, pytrace=False)
    if missing:
        pytest.skip(missing)


def _missing() -> str | None:
    """What there is to do before the suite can run."""
    try:
        find_suite()
    except SuiteMissing as missing:
        return str(missing)
    return None


@pytest.fixture(scope="session")
def direct(suite: None) -> Runs:
    with reference_directly() as url:
        return {version: run_until_steady(url, version) for version in VERSIONS}


@pytest.fixture(scope="session")
def through(suite: None) -> Runs:
    with reference_behind_gateway() as url:
        return {version: run_until_steady(url, version) for version in VERSIONS}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_reference_server_passes_everything(direct: Runs, version: str) -> None:
    assert direct[version].not_passed() == []
    assert len(direct[version].scenarios()) >= 30


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_lost_through_the_gateway(direct: Runs, through: Runs, version: str) -> None:
    unexpected = compare(version, direct[version], through[version], KNOWN).unexpected
    assert unexpected == [], "\n".join(f"{check.status} {check.key} {check.message}" for check in unexpected)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_known_loss_is_still_a_loss(direct: Runs, through: Runs, version: str) -> None:
    stale = compare(version, direct[version], through[version], KNOWN).stale
    assert stale == (), "not lost any more: take them off known_losses.json"


TASK_SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)
# The gateway waits for the task itself, so that a client without the extension gets the result in place of the error.
WAITED_FOR = "tasks-required-task-error:sep-2663-server-returns-missing-capability"


def test_tasks_through_the_gateway(suite: None) -> None:
    def run(url: str) -> Results:
        runs = [run_suite(url, "2026-07-28", scenario=scenario) for scenario in TASK_SCENARIOS]
        return Results({key: check for results in runs for key, check in results.checks.items()})

    with reference_directly() as url:
        direct = run(url)
    with reference_behind_gateway() as url:
        through = run(url)
    assert direct.not_passed() == []
    assert len(direct.checks) > 35
    lost = compare("2026-07-28", direct, through, ()).lost
    assert [check.key for check in lost] == [f"{WAITED_FOR}-when-required", f"{WAITED_FOR}-data-shape"]


def test_a_check_that_is_warned_of_or_absent_is_lost() -> None:
    """Of the comparison itself; needs no suite."""

    def results(**statuses: str) -> Results:
        return Results({f"s:{id}": Check(f"s:{id}", id, status) for id, status in statuses.items()})

    one = results(a="SUCCESS", b="SUCCESS", c="SUCCESS", d="SUCCESS", e="FAILURE")
    other = results(a="SUCCESS", b="WARNING", c="FAILURE", e="SUCCESS")
    known = (KnownLoss("v", "s:c", "known"), KnownLoss("v", "s:a", "gone"), KnownLoss("other", "s:d", "not of v"))
    found = compare("v", one, other, known)
    assert [(check.key, check.status) for check in found.lost] == [
        ("s:b", "WARNING"),
        ("s:c", "FAILURE"),
        ("s:d", "ABSENT"),
    ]
    assert [check.key for check in found.unexpected] == ["s:b", "s:d"]
    assert [loss.check for loss in found.stale] == ["s:a"]
    assert [check.key for check in found.gained] == ["s:e"]
