"""The gauntlet: every step in its place, each with proof that nothing later ran."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.admission.policy import CachePolicy, Limit, RateLimits
from leafgate.admission.retry import RetryPolicy
from leafgate.clean.cleaner import Cleaner
from leafgate.gateway.dispatch import Dispatcher
from leafgate.gateway.execute import Controls, execute, rehearse, take_quota, wants_dry_run
from leafgate.gateway.snapshot import Snapshot, build_snapshot
from leafgate.model.errors import ErrorCode, GatewayError, UpstreamFailure
from leafgate.model.request import Request
from leafgate.model.rights import CapabilityPolicy, QuotaBreach, Rule
from leafgate.ports import Offers, ToolListing
from leafgate.state.memory import RateLimiter, ToolResultCache
from leafgate.upstream.library import StubUpstream

pytestmark = pytest.mark.anyio

READ = {
    "name": "read",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "annotations": {"readOnlyHint": True, "title": "Read"},
}
SEND = {"name": "send", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}
ODD = {"name": "odd", "inputSchema": {"type": "no-such-type"}}
ANSWER = {"content": [{"type": "text", "text": "five"}], "structuredContent": {"n": 5}}


class Trail:
    """A gateway whose every port writes down that it was reached."""

    def __init__(self, answers: Mapping[str, Any] | None = None, **controls: Any) -> None:
        self.steps: list[str] = []
        self.upstream = StubUpstream([READ, SEND, ODD], answers=answers or {"read": ANSWER}, server="disk")
        self.snapshot: Snapshot = build_snapshot(
            Offers(tools=[ToolListing("disk", tool) for tool in (READ, SEND, ODD)]), Cleaner()
        )
        self.breach: QuotaBreach | None = None
        self.cache = ToolResultCache()
        defaults: dict[str, Any] = {"quotas": self, "cache": self, "cache_policy": CachePolicy(read_only=True)}
        self.controls = Controls(**{**defaults, **controls})
        self.answer: Any = True

    def id_of(self, name: str) -> str:
        return next(item.id for item in self.snapshot.catalog if item.upstream_name == name)

    async def take(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        self.steps.append("take")
        return self.breach

    async def peek(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        self.steps.append("peek")
        return self.breach

    def epoch(self) -> str:
        return self.cache.epoch()

    async def get(self, key: str) -> Mapping[str, Any] | None:
        self.steps.append("get")
        return await self.cache.get(key)

    async def put(self, key: str, raw: Mapping[str, Any], epoch: str) -> None:
        self.steps.append("put")
        await self.cache.put(key, raw, epoch)

    def clear(self) -> None:
        self.cache.renew("another")

    async def ask(self, question: str) -> bool | None:
        self.steps.append("ask")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]

    async def run(self, name: str = "read", args: Any = None, **request: Any) -> Any:
        who = Request(**{"owner": "me", "ask": self.ask, **request})
        given = {"n": 5} if args is None else args
        return await execute(self.snapshot, self.upstream, self.id_of(name), given, request=who, controls=self.controls)

    async def refused(self, name: str = "read", args: Any = None, **request: Any) -> GatewayError:
        with pytest.raises(GatewayError) as raised:
            await self.run(name, args, **request)
        return raised.value

    @property
    def calls(self) -> int:
        return len(self.upstream.calls)


async def test_the_whole_way() -> None:
    trail = Trail(policy=CapabilityPolicy((Rule("require_approval"),)), tolerant_args=True)
    done = await trail.run(args={"n": "5"})
    assert trail.steps == ["ask", "take", "get", "put"]
    assert trail.upstream.calls == [("read", {"n": 5})]
    assert done.raw == ANSWER
    assert (done.origin.server, done.origin.tool) == ("disk", "read")
    assert done.provenance == {"arg_repairs": [{"rule": "str_to_integer", "pointer": "/n"}]}


async def test_without_controls_there_is_nothing_to_say() -> None:
    trail = Trail()
    done = await execute(trail.snapshot, trail.upstream, trail.id_of("read"), {"n": 5})
    assert done.raw == ANSWER
    assert done.provenance == {}
    assert trail.steps == []


# 1. Hydrate


@pytest.mark.parametrize("tool_id", [None, 5, True, ["x"], {"a": 1}, b"disk:read", 1.5])
async def test_an_id_of_the_wrong_type_is_the_callers_fault(tool_id: Any) -> None:
    trail = Trail()
    with pytest.raises(GatewayError) as raised:
        await execute(trail.snapshot, trail.upstream, tool_id, {}, controls=trail.controls)
    assert raised.value.code == "ARGS_INVALID"
    assert trail.steps == []


@pytest.mark.parametrize("tool_id", ["", "disk:gone#00000000", "x" * 10_000, "\ud800"])
async def test_an_unknown_id_ends_the_call_before_any_step(tool_id: str) -> None:
    trail = Trail(policy=CapabilityPolicy((Rule("require_approval"),)))
    with pytest.raises(GatewayError) as raised:
        await execute(trail.snapshot, trail.upstream, tool_id, {}, controls=trail.controls)
    assert raised.value.code == "HYDRATE_FAILED"
    assert trail.steps == []
    assert trail.calls == 0


# 2. The capability gate


@pytest.mark.parametrize("rules", [(), (Rule("deny"),), (Rule("allow", namespace="mail"),)])
async def test_a_policy_that_does_not_allow_ends_the_call(rules: tuple[Rule, ...]) -> None:
    trail = Trail(policy=CapabilityPolicy(rules))
    # The arguments are wrong too, and nobody looks at them.
    error = await trail.refused(args={"n": "wrong"})
    assert error.code == "PERMISSION_DENIED"
    assert error.body.path == trail.id_of("read")
    assert trail.steps == []
    assert trail.calls == 0


async def test_a_policy_can_look_at_the_principal() -> None:
    trail = Trail(policy=CapabilityPolicy((Rule("allow", principal="ann"),)))
    assert (await trail.run(principal="ann")).raw == ANSWER
    assert (await trail.refused(principal="bob")).code == "PERMISSION_DENIED"
    assert (await trail.refused()).code == "PERMISSION_DENIED"


@pytest.mark.parametrize("answer", [False, None, "yes", 1, RuntimeError("the client is gone")])
async def test_anything_but_a_clear_yes_is_a_no(answer: Any) -> None:
    trail = Trail(policy=CapabilityPolicy((Rule("require_approval"),)))
    trail.answer = answer
    assert (await trail.refused(args={"n": "wrong"})).code == "PERMISSION_DENIED"
    assert trail.steps == ["ask"]
    assert trail.calls == 0


async def test_a_client_that_cannot_be_asked_is_refused() -> None:
    trail = Trail(policy=CapabilityPolicy((Rule("require_approval"),)))
    with pytest.raises(GatewayError, match="PERMISSION_DENIED"):
        await execute(trail.snapshot, trail.upstream, trail.id_of("read"), {"n": 5}, controls=trail.controls)
    assert trail.calls == 0


# 3. Repair


async def test_without_tolerance_nothing_is_repaired() -> None:
    trail = Trail()
    for args in ({"n": "5"}, '{"n": 5}'):
        assert (await trail.refused(args=args)).code == "ARGS_INVALID"
    assert trail.steps == []


async def test_with_it_a_whole_object_may_be_a_text() -> None:
    trail = Trail(tolerant_args=True)
    done = await trail.run(args='\ufeff {"n": "5"}')
    assert [each["rule"] for each in done.provenance["arg_repairs"]] == ["parse_stringified_object", "str_to_integer"]


async def test_what_repair_cannot_mend_is_still_refused() -> None:
    trail = Trail(tolerant_args=True)
    for args in ({"n": "five"}, "[]", "{", {"n": [5]}):
        assert (await trail.refused(args=args)).code == "ARGS_INVALID"
    assert trail.steps == []


# 4. Validation

DEEP: Any = []
for _ in range(5_000):
    DEEP = [DEEP]


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize(
    "args",
    [
        None.__class__,
        5,
        True,
        [],
        "text",
        b"{}",
        {"n": 5.5},
        {"n": True},
        {"n": None},
        {},
        {"n": 5, 6: 7},
        {"n": 5, "x": {1, 2}},
        {"n": 5, "x": float("nan")},
        {"n": 5, "x": "\ud800"},
        {"n": 5, "x": DEEP},
        {"n": 5, "x": object()},
    ],
)
async def test_wrong_arguments_end_the_call_before_quota_cache_and_server(args: Any, tolerant: bool) -> None:
    trail = Trail(tolerant_args=tolerant)
    error = await trail.refused(args=args)
    assert error.code == "ARGS_INVALID"
    json.dumps(error.body.as_json())
    assert trail.steps == []
    assert trail.calls == 0


async def test_all_violations_are_told() -> None:
    error = await Trail().refused(args={"n": "x"})
    assert [each["pointer"] for each in error.body.details["violations"]] == ["/n"]


async def test_an_unusable_schema_is_the_servers_fault() -> None:
    trail = Trail()
    error = await trail.refused("odd", {})
    assert error.code == "SCHEMA_INVALID"
    assert trail.steps == []


# 5. Quota


async def test_a_breach_ends_the_call_before_cache_and_server() -> None:
    trail = Trail()
    trail.breach = QuotaBreach("tool_execute", "max_calls_per_minute", 12.5)
    body = (await trail.refused()).body.as_json()
    assert body["error"] == "RATE_LIMITED"
    assert body["retryable"] is True
    assert body["details"] == {"scope": "tool_execute", "limit": "max_calls_per_minute", "retry_after": 12.5}
    assert trail.steps == ["take"]
    assert trail.calls == 0


async def test_real_limits_count_per_meta_tool_and_per_tool() -> None:
    limits = RateLimits({"tool_execute": Limit(3), "tool_browse": Limit(1)}, {"disk:read": Limit(1)})
    trail = Trail(quotas=RateLimiter(limits, clock=lambda: 0.0))
    await trail.run()
    assert (await trail.refused()).body.details["scope"] == trail.id_of("read")
    await trail.run("send", {})
    await trail.run("send", {})
    assert (await trail.refused("send", {})).body.details["scope"] == "tool_execute"
    await trail.run("send", {}, owner="somebody else")
    await take_quota(trail.controls, Request("me"), "tool_browse")
    with pytest.raises(GatewayError, match="RATE_LIMITED"):
        await take_quota(trail.controls, Request("me"), "tool_browse")


async def test_quotas_that_cannot_be_read_close_the_gate() -> None:
    class Down:
        async def take(self, *args: Any) -> Any:
            raise OSError("no route")

        peek = take

    trail = Trail(quotas=Down())
    assert (await trail.refused()).code == "INTERNAL_ERROR"
    assert trail.calls == 0


# 6. Dry run


async def test_a_dry_run_ends_before_cache_and_server_and_takes_nothing() -> None:
    trail = Trail(policy=CapabilityPolicy((Rule("require_approval"),)), tolerant_args=True)
    who = Request("me", ask=trail.ask)
    report = await rehearse(trail.snapshot, trail.id_of("read"), {"n": "5"}, request=who, controls=trail.controls)
    assert trail.steps == ["peek"]
    assert trail.calls == 0
    body = json.loads(json.dumps(report))
    assert body == {
        "dry_run": True,
        "tool_id": trail.id_of("read"),
        "upstream_name": "read",
        "args_valid": True,
        "annotations": {"readOnlyHint": True, "title": "Read", "verified": False},
        "checks": [
            {"name": "capability", "status": "needs_approval"},
            {"name": "arg_repair", "status": "repaired"},
            {"name": "schema_validation", "status": "pass"},
            {"name": "rate_limit", "status": "pass"},
        ],
        "arg_repairs": [{"rule": "str_to_integer", "pointer": "/n"}],
    }


async def test_a_dry_run_is_refused_as_the_call_would_be() -> None:
    trail = Trail()
    dry: Any = {"controls": trail.controls}
    for tool_id, args, code in (
        ("disk:gone#00000000", {}, "HYDRATE_FAILED"),
        (trail.id_of("read"), {"n": "x"}, "ARGS_INVALID"),
        (trail.id_of("odd"), {}, "SCHEMA_INVALID"),
    ):
        with pytest.raises(GatewayError, match=code):
            await rehearse(trail.snapshot, tool_id, args, **dry)
    trail.breach = QuotaBreach("tool_execute", "max_calls_per_session", None)
    with pytest.raises(GatewayError, match="RATE_LIMITED"):
        await rehearse(trail.snapshot, trail.id_of("read"), {"n": 5}, **dry)
    with pytest.raises(GatewayError, match="PERMISSION_DENIED"):
        await rehearse(trail.snapshot, trail.id_of("read"), {"n": 5}, controls=Controls(policy=CapabilityPolicy()))


async def test_a_server_cannot_say_that_its_annotations_are_verified() -> None:
    tool = {**READ, "annotations": {"verified": True, "huge": "x" * 100_000}}
    snapshot = build_snapshot(Offers(tools=[ToolListing("disk", tool)]), Cleaner())
    (item,) = snapshot.catalog
    report = await rehearse(snapshot, item.id, {"n": 5})
    assert report["annotations"] == {"verified": False}


@pytest.mark.parametrize("wish", [None, 0, 1, "true", []])
def test_a_dry_run_is_wished_for_with_true_or_false(wish: Any) -> None:
    assert wants_dry_run({}) is False
    assert wants_dry_run({"dry_run": True}) is True
    with pytest.raises(GatewayError, match="ARGS_INVALID"):
        wants_dry_run({"dry_run": wish})


# 7. Cache


async def test_an_equal_call_of_a_read_only_tool_reaches_the_server_once() -> None:
    trail = Trail()
    first = await trail.run()
    again = await trail.run()
    assert trail.calls == 1
    assert first.provenance == {}
    assert again.provenance == {"cache_hit": True}
    assert again.raw == first.raw
    assert trail.steps == ["take", "get", "put", "take", "get"]
    await trail.run(args={"n": 6})
    assert trail.calls == 2


async def test_others_are_never_kept() -> None:
    trail = Trail()
    for _ in range(2):
        await trail.run("send", {})
    assert trail.calls == 2
    assert trail.steps == ["take", "take"]


async def test_errors_are_not_kept() -> None:
    trail = Trail({"read": {"content": [], "isError": True}})
    for _ in range(2):
        await trail.run()
    assert trail.calls == 2


async def test_a_refresh_forgets() -> None:
    trail = Trail()
    await trail.run()
    trail.clear()
    await trail.run()
    assert trail.calls == 2


async def test_a_refresh_during_a_call_forgets_its_result_too() -> None:
    def answer(args: Mapping[str, Any]) -> Mapping[str, Any]:
        trail.clear()
        return ANSWER

    trail = Trail({"read": answer})
    for _ in range(2):
        await trail.run()
    assert trail.calls == 2


async def test_a_policy_stands_before_the_cache() -> None:
    trail = Trail(policy=CapabilityPolicy((Rule("allow", principal="ann"),)))
    await trail.run(principal="ann")
    assert (await trail.refused(principal="bob")).code == "PERMISSION_DENIED"


async def test_a_cache_that_is_down_is_no_cache(caplog: pytest.LogCaptureFixture) -> None:
    class Down(ToolResultCache):
        async def get(self, *args: Any) -> Any:
            raise OSError("no route")

        async def put(self, *args: Any) -> Any:
            raise OSError("no route")

    caplog.set_level(logging.ERROR)
    trail = Trail(cache=Down())
    assert (await trail.run()).raw == ANSWER
    assert "result cache" in caplog.text


# 8. Dispatch


def failing(codes: list[ErrorCode]) -> dict[str, Any]:
    def answer(args: Mapping[str, Any]) -> Mapping[str, Any]:
        if codes:
            raise UpstreamFailure(codes.pop(0), "x")
        return ANSWER

    return {"read": answer}


async def test_a_retried_call_counts_its_attempts_and_its_quota_once() -> None:
    async def sleep(seconds: float, /) -> None:
        trail.steps.append("sleep")

    how = Dispatcher(RetryPolicy(3), sleep=sleep)
    trail = Trail(failing(["UPSTREAM_TIMEOUT", "UPSTREAM_UNAVAILABLE"]), dispatcher=how)
    done = await trail.run()
    assert done.provenance == {"attempts": 3}
    assert trail.steps == ["take", "get", "sleep", "sleep", "put"]


async def test_a_failure_is_not_kept() -> None:
    trail = Trail(failing(["UPSTREAM_TIMEOUT"]))
    with pytest.raises(UpstreamFailure):
        await trail.run()
    assert (await trail.run()).raw == ANSWER
    assert "put" not in trail.steps[:2]


# 9. The answer against its schema


@pytest.mark.parametrize("structured", [{"n": "secret words"}, {}, [], None, 5])
async def test_an_answer_that_breaks_its_own_schema_goes_nowhere(structured: Any) -> None:
    trail = Trail({"read": {"content": [], "structuredContent": structured}})
    with pytest.raises(UpstreamFailure) as raised:
        await trail.run()
    assert raised.value.code == "UPSTREAM_ERROR"
    assert raised.value.message == "the server's answer breaks its own output schema"
    assert "put" not in trail.steps


async def test_a_missing_answer_is_told_and_with_strictness_refused() -> None:
    text = {"content": [{"type": "text", "text": "five"}]}
    done = await Trail({"read": text}).run()
    assert done.raw == text
    assert done.provenance == {"output_check": "missing"}
    with pytest.raises(UpstreamFailure) as raised:
        await Trail({"read": text}, strict_output=True).run()
    assert "cannot be checked" in raised.value.message


async def test_a_tools_error_owes_no_structure() -> None:
    raw = {"content": [], "isError": True, "structuredContent": {"n": "x"}}
    assert (await Trail({"read": raw}, strict_output=True).run()).raw == raw


async def test_an_answer_too_large_to_check_is_told() -> None:
    raw = {"content": [], "structuredContent": {"n": 5, "rows": [0] * 300_000}}
    assert (await Trail({"read": raw}).run()).provenance == {"output_check": "too_costly"}


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(tool=ANY | st.sampled_from(["read", "send", "odd"]), args=ANY, answer=ANY, tolerant=st.booleans())
async def test_nothing_else_ever_leaves(tool: Any, args: Any, answer: Any, tolerant: bool) -> None:
    trail = Trail({"read": lambda _: answer, "send": lambda _: answer}, tolerant_args=tolerant)
    tool_id = trail.id_of(tool) if isinstance(tool, str) and tool in ("read", "send", "odd") else tool
    try:
        done = await execute(trail.snapshot, trail.upstream, tool_id, args, controls=trail.controls)
        assert isinstance(done.raw, Mapping)
    except (GatewayError, UpstreamFailure):
        pass
