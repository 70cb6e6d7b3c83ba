"""Approval of calls: who is asked, what a state is good for, and that every changed part of it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
import pytest

from leafgate.clean.cleaner import Cleaner
from leafgate.gateway import approval
from leafgate.gateway.approval import ApprovalCase, ApprovalSettings, approve, hold_approval
from leafgate.model.errors import GatewayError, StoreError
from leafgate.model.request import Request
from leafgate.model.tool import SelectableItem
from leafgate.ports import Approval
from leafgate.state.memory import MemoryApprovals
from leafgate.state.records import ApprovalLimits

pytestmark = pytest.mark.anyio

ITEM = SelectableItem("disk:write#00000000", "tool", "write", "Writes.", "disk", "write", server="disk")
ARGS = {"n": 1, "list": [1, 2]}
YES = {approval.QUESTION: {"action": "accept", "content": {"approve": True}}}
SERVER_ASKS = {"resultType": "input_required", "inputRequests": {"q": {}}, "requestState": "theirs:1"}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Channel:
    """A client of the stateless era."""

    owner = user = "anonymous"
    log_level, takes_input_requests, takes_any_json = None, True, True
    meta: Mapping[str, Any] = {}

    def __init__(self, resume: Mapping[str, Any] | None = None, elicitation: Any = None) -> None:
        self.resume: Mapping[str, Any] = resume or {}
        self.capabilities: Mapping[str, Any] = {} if elicitation is None else {"elicitation": elicitation}
        self.messages: list[tuple[float, str | None]] = []

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.messages.append((progress, message))

    async def log(self, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        raise AssertionError("a stateless client is not asked during a call")


def case(
    store: MemoryApprovals | None, channel: Channel | None = None, *, args: object = None, **settings: Any
) -> ApprovalCase:
    request = Request("principal:ada", "ada", client=channel or Channel(elicitation={}))
    return ApprovalCase(ITEM, ARGS if args is None else args, request, ApprovalSettings(store=store, **settings))


async def question(asked: ApprovalCase) -> str:
    result = await approve(asked, is_required=True)
    assert not isinstance(result, Request)
    assert result["resultType"] == "input_required"
    return str(result["requestState"])


def answered(asked: ApprovalCase, state: object, answers: Any = YES) -> ApprovalCase:
    channel = Channel({"requestState": state, "inputResponses": answers}, {})
    return replace(asked, request=replace(asked.request, client=channel))


async def refusal(asked: ApprovalCase) -> str:
    with pytest.raises(GatewayError) as raised:
        await approve(asked, is_required=True)
    assert raised.value.code == "PERMISSION_DENIED"
    assert raised.value.body.path == asked.item.id
    return str(raised.value.body.details["approval"])


def resume_of(result: Any) -> Mapping[str, Any]:
    assert isinstance(result, Request)
    assert result.client is not None
    return result.client.resume


# The state


async def test_a_yes_goes_on_without_anything_for_the_server() -> None:
    asked = case(MemoryApprovals())
    result = await approve(answered(asked, await question(asked)), is_required=True)
    assert resume_of(result) == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"args": {"n": 2, "list": [1, 2]}},
        {"args": {"n": 1, "list": [2, 1]}},
        {"args": {"n": True, "list": [1, 2]}},
        {"args": {"n": 1.0, "list": [1, 2]}},
        {"args": {"n": "1", "list": [1, 2]}},
        {"args": {"n": 1, "list": [1, 2], "more": None}},
        {"args": {}},
        {"item": replace(ITEM, id="disk:write#00000001")},
        {"request": Request("principal:bob", "bob")},
        {"request": Request("local", None, session="anonymous")},
    ],
)
async def test_every_other_call_is_refused_and_uses_it_up(changed: dict[str, Any]) -> None:
    asked = case(MemoryApprovals())
    state = await question(asked)
    assert await refusal(answered(replace(asked, **changed), state)) == "invalid_state"
    assert await refusal(answered(asked, state)) == "invalid_state"


async def test_the_order_of_members_does_not_matter() -> None:
    asked = case(MemoryApprovals())
    turned = replace(asked, args={"list": [1, 2], "n": 1})
    assert resume_of(await approve(answered(turned, await question(asked)), is_required=True)) == {}


async def test_every_changed_character_of_a_state_is_refused_or_starts_anew() -> None:
    asked = case(MemoryApprovals())
    state = await question(asked)
    for place, char in enumerate(state):
        changed = state[:place] + ("1" if char != "1" else "2") + state[place + 1 :]
        if changed.startswith(f"{approval.QUESTION}:"):
            assert await refusal(answered(asked, changed)) == "invalid_state"
        else:
            assert await question(answered(asked, changed)) != state
    assert resume_of(await approve(answered(asked, state), is_required=True)) == {}


@pytest.mark.parametrize("state", [None, 5, "", ["x"], {}, "\ud800", f"{approval.QUESTION}:", "x" * 100_000])
async def test_what_is_not_a_state_of_ours_asks_anew(state: object) -> None:
    asked = case(MemoryApprovals())
    assert await question(answered(asked, state))


async def test_it_ends_after_a_while() -> None:
    clock = Clock()
    asked = case(MemoryApprovals(clock=clock))
    state = await question(asked)
    clock.now += approval.QUESTION_SECONDS
    assert await refusal(answered(asked, state)) == "invalid_state"


@pytest.mark.parametrize(
    "answers",
    [
        None,
        [],
        {},
        {"other": YES[approval.QUESTION]},
        {approval.QUESTION: None},
        {approval.QUESTION: {"action": "decline"}},
        {approval.QUESTION: {"action": "cancel", "content": {"approve": True}}},
        {approval.QUESTION: {"action": "accept"}},
        {approval.QUESTION: {"action": "accept", "content": {"approve": "true"}}},
        {approval.QUESTION: {"action": "accept", "content": {"approve": 1}}},
        {approval.QUESTION: {"action": "accept", "content": [True]}},
    ],
)
async def test_anything_but_a_clear_yes_is_a_no(answers: Any) -> None:
    asked = case(MemoryApprovals())
    state = await question(asked)
    assert await refusal(answered(asked, state, answers)) == "refused"
    assert await refusal(answered(asked, state)) == "invalid_state"


async def test_a_servers_question_keeps_the_approval_for_this_call() -> None:
    asked = case(MemoryApprovals())
    raw = await hold_approval(asked, SERVER_ASKS)
    assert raw["inputRequests"] == SERVER_ASKS["inputRequests"]
    state, answers = str(raw["requestState"]), {"q": {"action": "decline"}}
    assert await refusal(answered(asked, state.replace("theirs:1", "theirs:2"), answers)) == "invalid_state"
    state = str((await hold_approval(asked, SERVER_ASKS))["requestState"])
    assert await refusal(answered(replace(asked, args={}), state, answers)) == "invalid_state"
    state = str((await hold_approval(asked, SERVER_ASKS))["requestState"])
    result = await approve(answered(asked, state, answers), is_required=True)
    assert resume_of(result) == {"requestState": "theirs:1", "inputResponses": answers}
    assert await refusal(answered(asked, state, answers)) == "invalid_state"


async def test_a_server_without_a_state_of_its_own_gets_none() -> None:
    asked = case(MemoryApprovals())
    raw = await hold_approval(asked, {key: value for key, value in SERVER_ASKS.items() if key != "requestState"})
    result = await approve(answered(asked, raw["requestState"], {"q": {}}), is_required=True)
    assert resume_of(result) == {"inputResponses": {"q": {}}}


async def test_a_result_that_is_complete_passes_unchanged() -> None:
    assert await hold_approval(case(MemoryApprovals()), {"content": []}) == {"content": []}


async def test_where_no_approval_is_needed_any_more_our_part_is_taken_off() -> None:
    asked = case(MemoryApprovals())
    raw = await hold_approval(asked, SERVER_ASKS)
    result = await approve(answered(asked, raw["requestState"], {"q": {}}), is_required=False)
    assert resume_of(result) == {"requestState": "theirs:1", "inputResponses": {"q": {}}}


async def test_the_state_of_a_gateway_behind_this_one_passes_unchanged() -> None:
    asked, theirs = case(MemoryApprovals()), f"{approval.QUESTION}:{'0' * 32}"
    result = await approve(answered(asked, theirs), is_required=False)
    assert resume_of(result) == {"requestState": theirs, "inputResponses": YES}


async def test_questions_are_bounded() -> None:
    asked = case(MemoryApprovals(ApprovalLimits(of_one=1)))
    await question(asked)
    with pytest.raises(GatewayError) as raised:
        await question(asked)
    assert (raised.value.code, raised.value.body.details["scope"]) == ("RATE_LIMITED", "approvals")


@pytest.mark.parametrize("args", [{1: 2, "a": 3}, {"x": object()}, {"x": b"bytes"}])
async def test_arguments_that_are_not_json_are_the_callers_fault(args: Any) -> None:
    with pytest.raises(GatewayError, match="ARGS_INVALID"):
        await approve(case(MemoryApprovals(), args=args), is_required=True)


async def test_the_question_is_clean() -> None:
    asked = case(MemoryApprovals(), args={"key": "AKIAQ3EGZ7TLK4WBXN2P", "name": "a\u202eb\u200bc"}, clean=Cleaner())
    result = await approve(asked, is_required=True)
    assert isinstance(result, Mapping)
    message = result["inputRequests"][approval.QUESTION]["params"]["message"]
    assert ITEM.id in message
    assert not any(part in message for part in ("AKIAQ3EGZ7TLK4WBXN2P", "\u202e", "\u200b"))


# Who is asked


@pytest.mark.parametrize("elicitation", [None, {"url": {}}, True])
async def test_only_clients_that_declare_forms_are_asked(elicitation: Any) -> None:
    channel = Channel(elicitation=elicitation)
    assert await refusal(case(MemoryApprovals(), channel, by="client")) == "cannot_ask"
    assert await refusal(case(MemoryApprovals(), channel, by="either")) == "cannot_ask"  # there is no operator
    assert await refusal(case(MemoryApprovals(), channel, by="operator")) == "cannot_ask"


@pytest.mark.parametrize("elicitation", [{}, {"form": {}}, {"form": {}, "url": {}}])
async def test_those_that_do_are_asked_unless_an_operator_decides(elicitation: Any) -> None:
    channel, operator = Channel(elicitation=elicitation), {"has_operators": True, "wait_seconds": 0.01}
    assert await question(case(MemoryApprovals(), channel, **operator))
    assert await refusal(case(MemoryApprovals(), channel, by="operator", **operator)) == "timed_out"


# Operators


async def pending_call(store: MemoryApprovals) -> Approval:
    for _ in range(2_000):
        waiting = await store.list_pending()
        if waiting:
            return waiting[0]
        await anyio.sleep(0.01)
    raise AssertionError("no call waits")


@pytest.mark.parametrize("decision", [True, False])
async def test_an_operator_decides(monkeypatch: pytest.MonkeyPatch, decision: bool) -> None:
    monkeypatch.setattr(approval, "POLL_SECONDS", 0.01)
    store, channel = MemoryApprovals(), Channel({"requestState": "a server's", "inputResponses": {}})
    asked = case(store, channel, has_operators=True, args={"secret": "AKIAQ3EGZ7TLK4WBXN2P"}, clean=Cleaner())
    ends: list[object] = []

    async def call() -> None:
        try:
            ends.append(await approve(asked, is_required=True))
        except GatewayError as error:
            ends.append(error.body.details["approval"])

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        seen = await pending_call(store)
        await store.decide(seen.id, approve=decision)
    assert resume_of(ends[0]) == {} if decision else ends == ["refused"]
    assert {key: seen.about[key] for key in ("principal", "server", "tool")} == {
        "principal": "ada",
        "server": "disk",
        "tool": "write",
    }
    assert "AKIAQ3EGZ7TLK4WBXN2P" not in str(seen.about)
    assert channel.messages[0][1] == "waiting for an operator to approve this call"
    assert await store.take(seen.id) is None


async def test_a_call_that_is_cancelled_leaves_the_list() -> None:
    store = MemoryApprovals()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: approve(case(store, Channel(), has_operators=True), is_required=True))
        await pending_call(store)
        group.cancel_scope.cancel()
    assert not await store.list_pending()


async def test_a_pending_call_cannot_be_taken_over_as_a_state() -> None:
    store = MemoryApprovals()
    await store.add("principal:ada", Approval("0" * 32, "approved"), 60)
    asked = case(store)
    assert await refusal(answered(asked, f"{approval.QUESTION}:{'0' * 32}")) == "invalid_state"


async def test_a_store_that_fails_approves_nothing() -> None:
    class Broken(MemoryApprovals):
        async def find(self, id: str) -> Approval | None:
            raise StoreError("gone")

    with pytest.raises(StoreError):
        await approve(case(Broken(), Channel(), has_operators=True), is_required=True)
