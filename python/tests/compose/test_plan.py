"""What a configuration means, and what of it may change while the gateway runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from config_documents import make_config

from leafgate.compose.plan import LIVE, Plan, make_plan, waiting_for_restart
from leafgate.compose.plan import make_shelf as make_shelf_of
from leafgate.config.models import Config, Transport
from leafgate.maps.files import CARD_MAP, MapFiles
from leafgate.maps.shelf import MapShelf
from leafgate.model.errors import LeafgateError, MapUnreachableError
from leafgate.model.leaf import digest_of

LIMITS = {"tool_execute": {"max_calls_per_minute": 5}}
BASE = make_config(map="toy", rate_limits=LIMITS, cache={"ttl": 5}, retry={"max_attempts": 2})


def changed(**settings: Any) -> Config:
    """The settings of BASE with some others."""
    return make_config(
        **{"map": "toy", "rate_limits": LIMITS, "cache": {"ttl": 5}, "retry": {"max_attempts": 2}} | settings
    )


TOKENS = {"tokens": [{"name": "ada", "hash": f"sha256:{'0' * 64}"}]}


def test_what_did_not_change_keeps_what_it_remembers() -> None:
    first = make_plan(BASE)
    second = make_plan(changed(budget=900), first)
    assert second.maps is first.maps
    assert second.access is first.access
    assert second.controls.quotas is first.controls.quotas
    assert second.controls.cache is first.controls.cache
    assert second.controls.dispatcher is first.controls.dispatcher


def test_what_changed_is_made_anew() -> None:
    first = make_plan(BASE)
    limits = {"tool_execute": {"max_calls_per_minute": 6}}
    second = make_plan(changed(rate_limits=limits, map="qwen/qwen2"), first)
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
        return changed(transport=transport, rate_limits=limits(most), principals=principals)

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
    ("settings", "is_one_user"),
    [
        ({}, True),
        ({"transport": "stdio", "host": "0.0.0.0"}, True),
        ({"transport": "http"}, True),
        ({"transport": "http", "host": "::1"}, True),
        ({"transport": "http", "owner": "session"}, False),
        (
            {"transport": "http", "auth": {"required": False, "tokens": [{"name": "a", "hash": "sha256:" + "0" * 64}]}},
            False,
        ),
        ({"transport": "http", "host": "0.0.0.0"}, False),
        ({"transport": "sse", "host": "192.0.2.7"}, False),
        ({"transport": "http", "host": "0.0.0.0", "owner": "user"}, True),
    ],
)
def test_callers_without_a_name_are_one_user_where_only_this_machine_can_call(
    settings: dict[str, Any], is_one_user: bool
) -> None:
    first = make_plan(changed(**settings))
    assert first.access.is_one_user is is_one_user
    moved = make_plan(changed(**settings | {"host": "127.0.0.1", "principals": {"*": {}}}), first)
    assert moved.access.is_one_user is is_one_user  # another host waits for the next start
    assert make_plan(changed(**settings | {"owner": "session"}), first).access.is_one_user is False


@pytest.mark.parametrize(
    "wrong", [{"map": "no/such"}, {"pins": Path("no-such-file.json")}, {"redact": {"patterns": [{"type": "x"}]}}]
)
def test_a_wrong_setting_ends_before_anything_changed(wrong: dict[str, object]) -> None:
    first = make_plan(BASE)
    with pytest.raises(LeafgateError):
        make_plan(changed(**wrong), first)


@pytest.mark.parametrize(
    ("settings", "can_answer"),
    [
        ({"transport": "http"}, True),
        ({"transport": "sse"}, True),
        ({"transport": "http", "host": "0.0.0.0", "insecure_bind": True}, False),
        ({"transport": "http", "host": "0.0.0.0", "auth": TOKENS}, True),
        ({}, False),
        ({"transport": "stdio", "state": "memory"}, False),
        ({"transport": "stdio", "state": "sqlite:x.db"}, True),
    ],
)
def test_operators_answer_where_only_they_can(settings: dict[str, Any], can_answer: bool) -> None:
    first = make_plan(changed(**settings))
    assert first.controls.approvals.has_operators is can_answer
    second = make_plan(changed(**settings, approvals={"by": "operator", "wait_seconds": 5}), first)
    assert (second.controls.approvals.by, second.controls.approvals.wait_seconds) == ("operator", 5)


def test_calls_that_wait_stay_in_the_list_when_the_settings_change() -> None:
    first = make_plan(changed(transport="http"))
    second = make_plan(changed(transport="http", approvals={"wait_seconds": 5}), first)
    assert second.controls.approvals.store is first.controls.approvals.store


def test_settings_that_wait_for_the_next_start_are_told() -> None:
    assert waiting_for_restart(changed(budget=900, check="decode"), BASE) == []
    assert waiting_for_restart(changed(port=9999, host="::1"), BASE) == ["host", "port"]
    assert waiting_for_restart(changed(auth={"tokens": [{"name": "a", "hash": "sha256:" + "0" * 64}]}), BASE) == [
        "auth"
    ]


def test_every_live_setting_exists() -> None:
    assert {*Config.model_fields} >= LIVE


MAPS = Path(__file__).resolve().parents[3] / "maps"
TOY = (MAPS / "toy.json").read_bytes()
DIGEST = digest_of(TOY)
OTHER = "sha256:" + "0" * 64
URL = {"url": "https://maps.example/theirs.json", "sha256": OTHER, "id": "theirs"}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A map of one's own, which is not the bundled one."""
    path = tmp_path / "mine.json"
    path.write_bytes(TOY.replace(b'"id":"toy"', b'"id":"me/mine"'))
    return path


def make_shelf(settings: dict[str, Any], default: str | None) -> MapShelf:
    return make_shelf_of(make_config(maps=settings).maps, default)


def ids(settings: dict[str, Any], default: str | None = None) -> list[str]:
    return [source.id for source in make_shelf(settings, default).entries()]


def test_nothing_configured() -> None:
    shelf = make_shelf({}, None)
    assert [source.id for source in shelf.entries()] == [entry.id for entry in MapFiles().list()]
    assert shelf.default is None


def test_everything_configured(mine: Path) -> None:
    settings = {"files": [mine], "urls": [URL], "allow": ["theirs", "me/mine", "qwen2"]}
    assert ids(settings) == ["me/mine", "qwen/qwen2", "theirs"]
    assert ids(settings, "toy") == ["me/mine", "qwen/qwen2", "theirs", "toy"]
    assert make_shelf({"files": [str(mine)]}, "mine").load("me/mine").encode("the cat") == [261, 264]


def test_a_url_may_do_without_an_id() -> None:
    assert OTHER in ids({"urls": [{"url": URL["url"], "sha256": OTHER}]})


def test_the_default_by_any_name(mine: Path) -> None:
    for name in ("toy", DIGEST):
        assert make_shelf({}, name).default == DIGEST
    assert make_shelf({}, str(mine)).default == digest_of(mine.read_bytes())
    assert make_shelf({}, str(mine)).load("me/mine").map.id == "me/mine"


def test_a_map_of_ones_own_takes_the_place_of_a_bundled_one(tmp_path: Path) -> None:
    own = tmp_path / "toy.json"
    own.write_bytes(TOY + b"\n")
    assert make_shelf({"files": [own]}, "toy").default == digest_of(TOY + b"\n")


def test_cards_can_be_counted_though_their_map_is_not_offered() -> None:
    shelf = make_shelf({"allow": ["toy"]}, None)
    assert shelf.load(CARD_MAP).map.digest not in shelf.offered


@pytest.mark.parametrize(
    ("settings", "default"),
    [
        ({"files": ["missing.json"]}, None),
        ({"files": [__file__]}, None),
        ({"urls": [{"url": "https://maps.example/x", "sha256": "12"}]}, None),
        ({"allow": ["nothing"]}, None),
        ({}, "nothing"),
        ({}, "missing.json"),
    ],
)
def test_what_is_wrong_ends_the_start(settings: dict[str, Any], default: str | None) -> None:
    with pytest.raises(LeafgateError):
        make_shelf(settings, default)


def test_the_known_maps_are_named() -> None:
    with pytest.raises(MapUnreachableError, match="qwen/qwen2"):
        make_shelf({}, "qwen9")
