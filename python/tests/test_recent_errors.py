"""The last failures: the latest first, bounded, names and codes only."""

from __future__ import annotations

from leafgate.model.served import Served
from leafgate.telemetry.recent_errors import KEPT, RecentErrors


def test_the_latest_comes_first_and_old_ones_fall_out() -> None:
    errors = RecentErrors(lambda: 5.0)
    for number in range(KEPT + 10):
        errors.add(Served(f"{number:08x}", "tool_execute"), "ARGS_INVALID")
    found = errors.as_json()
    assert len(found) == KEPT
    assert found[0]["correlation_id"] == f"{KEPT + 9:08x}"
    assert found[-1]["correlation_id"] == f"{10:08x}"


def test_a_servers_name_is_made_fit_to_be_shown() -> None:
    errors = RecentErrors(lambda: 5.0)
    errors.add(Served("00", "tool_execute", "a\nb"), "UPSTREAM_ERROR")
    assert errors.as_json()[0]["server"] == "a\N{REPLACEMENT CHARACTER}b"
    assert errors.as_json()[0]["fault"] == "upstream"
