"""What a configuration means, and what of it may change while the gateway runs."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from leafgate.cli.plan import LIVE, Plan, make_plan, waiting_for_restart
from leafgate.config.settings import Config, Transport
from leafgate.model.errors import LeafgateError

LIMITS = {"tool_execute": {"max_calls_per_minute": 5}}
BASE = Config(map="toy", controls={"rate_limits": LIMITS, "cache": {"ttl": 5}, "retry": {"max_attempts": 2}})


def test_what_did_not_change_keeps_what_it_remembers() -> None:
    first = make_plan(BASE)
    second = make_plan(replace(BASE, budget=900), first)
    assert second.maps is first.maps
    assert second.access is first.access
    assert second.controls.quotas is first.controls.quotas
    assert second.controls.cache is first.controls.cache
    assert second.controls.dispatcher is first.controls.dispatcher


def test_what_changed_is_made_anew() -> None:
    first = make_plan(BASE)
    controls = {**BASE.controls, "rate_limits": {"tool_execute": {"max_calls_per_minute": 6}}}
    second = make_plan(replace(BASE, controls=controls, map="qwen/qwen2"), first)
    assert second.controls.quotas is not first.controls.quotas
    assert second.controls.cache is first.controls.cache
    assert second.maps.default != first.maps.default
    assert second.offer.default == second.maps.default


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_calls_that_were_counted_stay_counted_when_limits_or_principals_change(transport: Transport) -> None:
    def limits(most: int) -> dict[str, Any]:
        return {"tool_execute": {"max_calls_per_minute": most}}

    def settings(most: int, **ann: Any) -> Config:
        principals = {"ann": {"rate_limits": limits(most), **ann}}
        return replace(BASE, transport=transport, controls={"rate_limits": limits(most)}, principals=principals)

    async def left(plan: Plan) -> tuple[list[bool], list[bool]]:
        """How the next calls fare: those of ann, and those of somebody who has the limits of all."""
        hers, everybodys = plan.access.rights["ann"].quotas, plan.controls.quotas
        assert hers is not None
        assert everybodys is not None
        tries = [(hers, "ann"), (everybodys, "ben")]
        found = [[await quotas.take(who, ["tool_execute"]) is None for _ in range(3)] for quotas, who in tries]
        return found[0], found[1]

    first = make_plan(settings(2))
    assert await left(first) == ([True, True, False], [True, True, False])
    second = make_plan(settings(2, tools={"exclude": ["x:*"]}), first)
    assert second.access is not first.access
    assert await left(second) == ([False, False, False], [False, False, False])
    third = make_plan(settings(3), second)
    assert await left(third) == ([True, False, False], [True, False, False])


@pytest.mark.parametrize(
    "wrong", [{"map": "no/such"}, {"pins": Path("no-such-file.json")}, {"redact": {"patterns": [{"type": "x"}]}}]
)
def test_a_wrong_setting_ends_before_anything_changed(wrong: dict[str, object]) -> None:
    first = make_plan(BASE)
    with pytest.raises(LeafgateError):
        make_plan(replace(BASE, **wrong), first)  # type: ignore[arg-type]


def test_settings_that_wait_for_the_next_start_are_told() -> None:
    assert waiting_for_restart(replace(BASE, budget=900, check="decode"), BASE) == []
    assert waiting_for_restart(replace(BASE, port=9999, host="::1"), BASE) == ["host", "port"]
    assert waiting_for_restart(replace(BASE, auth={"tokens": []}), BASE) == ["auth"]


def test_every_live_setting_exists() -> None:
    assert {each.name for each in fields(Config)} >= LIVE
