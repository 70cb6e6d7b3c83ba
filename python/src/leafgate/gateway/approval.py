"""Approval of a call where the policy requires it: by the person at the client, or by an operator.

A client with a session is asked during the call. A stateless client gets the question as an `input_required` result,
and sends the call again with the answer and a `requestState`. That state is the id of an Approval in the store: it is
bound to the caller, the tool and the arguments, can be used once, and ends after a while. Ids are random, so that no
key is needed, and every gateway with the same store knows them. If the server then asks questions too, its
`requestState` is put behind a new id: the approval holds for all rounds of the call. A call whose client cannot be
asked waits until an operator answers.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import anyio

from leafgate.admission.policy import approval_question, show_arguments
from leafgate.gateway.serving import note
from leafgate.model.errors import GatewayError, StoreError
from leafgate.model.request import ApprovalAnswer, ClientChannel, Request
from leafgate.model.tool import SelectableItem
from leafgate.ports import Approval, Approvals

log = logging.getLogger("leafgate.gateway")

Approver = Literal["client", "operator", "either"]

QUESTION: Final = "leafgate-approval"  # the key of the question among `inputRequests`
QUESTION_SECONDS: Final = 600.0  # that a stateless client has for the answer, and for each question of the server
FORM: Final = {"type": "object", "properties": {"approve": {"type": "boolean"}}, "required": ["approve"]}
POLL_SECONDS: Final = 0.5
PROGRESS_SECONDS: Final = 5.0
MAX_NAME: Final = 240

_ANSWERS: Final[Mapping[str, ApprovalAnswer]] = {"timed_out": "timed out", "cannot_ask": "not possible"}
_ID_BYTES: Final = 16
_STATE: Final = re.compile(rf"{QUESTION}:(?P<id>[0-9a-f]{{{2 * _ID_BYTES}}})(?::(?P<rest>.*))?", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class ApprovalSettings:
    """Who approves calls, and how long an operator has for it.

    Without a `store`, only clients with a session are asked. `has_operators`: an operator can reach the store. `clean`
    cleans the arguments that a person is shown.
    """

    by: Approver = "either"
    wait_seconds: float = 50.0
    store: Approvals | None = None
    has_operators: bool = False
    clean: Callable[[str], str] = str


@dataclass(frozen=True)
class ApprovalCase:
    """A call that approval is about: its arguments as the client sent them, who sent it, and why it needs approval,
    where a flow rule and not the policy for tools requires it."""

    item: SelectableItem
    args: object
    request: Request
    settings: ApprovalSettings
    reason: str = ""

    def bind(self, server_state: str | None = None) -> str:
        """A digest of everything that an approval is for."""
        try:
            text = json.dumps([self.request.caller, self.item.id, self.args, server_state], sort_keys=True)
        except (TypeError, ValueError, RecursionError):
            raise GatewayError("ARGS_INVALID", "args: not JSON", path=self.item.id) from None
        return hashlib.sha256(text.encode()).hexdigest()

    def question(self) -> str:
        return approval_question(self.item, self.args, self.settings.clean, self.reason)

    async def add(self, store: Approvals, approval: Approval, seconds: float) -> None:
        """Store an approval, or refuse the call where there are too many."""
        if not await store.add(self.request.caller, approval, seconds):
            details = {"scope": "approvals", "limit": "max_pending", "retry_after": QUESTION_SECONDS}
            raise GatewayError("RATE_LIMITED", "too many calls wait for approval", path=self.item.id, details=details)

    def refusal(self, reason: str, message: str) -> GatewayError:
        """The error of a call that is not approved; the audit file says why."""
        note(approval=_ANSWERS.get(reason, "refused"), denied_by="approval")
        return GatewayError("PERMISSION_DENIED", message, path=self.item.id, details={"approval": reason})


@dataclass(frozen=True)
class _State:
    """A `requestState` of ours: the id of an approval, and the server's own state, if it has one."""

    id: str
    server_state: str | None = None

    def write(self) -> str:
        return f"{QUESTION}:{self.id}" + ("" if self.server_state is None else f":{self.server_state}")


async def approve(case: ApprovalCase, *, is_required: bool) -> Request | Mapping[str, Any]:
    """Return the request with which an approved call goes on, or an `input_required` result to ask the client first.

    GatewayError if the approval is refused, cannot be asked for, or belongs to another call. The request that goes on
    has only those answers that are for the server.
    """
    request, settings, client, store = case.request, case.settings, case.request.client, case.settings.store
    state = None if client is None else _read_state(client.resume.get("requestState"))
    if client is not None and state is not None and store is not None:
        approval = await store.take(state.id)
        if approval is None and not is_required:
            return request  # the state of a server that is a gateway itself
        approval = _check_answer(case, client, state, approval) if is_required else approval
        return _resume(request, client, state if approval is not None and approval.status == "approved" else None)
    if not is_required:
        return request
    fresh = request if client is None else _resume(request, client)
    if settings.by != "operator":
        if client is not None and store is not None and _takes_forms(client):
            return await _make_question(case, store)
        answer = await _ask(case)
        if answer is True:
            return fresh
        if answer is False:
            raise case.refusal("refused", "approval of this call was refused")
    if settings.by == "client" or store is None or not settings.has_operators:
        who = "no operator can answer" if settings.by == "operator" else "this client cannot be asked"
        raise case.refusal("cannot_ask", f"approval of this call is needed, and {who}")
    await _wait_for_operator(case, store)
    return fresh


async def hold_approval(case: ApprovalCase, raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The raw result of an approved call. If the server asks for input first, the answer needs no second approval."""
    store, server_state = case.settings.store, raw.get("requestState")
    if raw.get("resultType") != "input_required" or store is None:
        return raw
    state = _State(_new_id(), server_state if isinstance(server_state, str) else None)
    await case.add(store, Approval(state.id, "approved", case.bind(state.server_state)), QUESTION_SECONDS)
    return {**raw, "requestState": state.write()}


# The client


def _read_state(text: object) -> _State | None:
    match = _STATE.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else _State(match["id"], match["rest"])


def _check_answer(case: ApprovalCase, client: ClientChannel, state: _State, approval: Approval | None) -> Approval:
    """Return the approval of this very call, given now or in an earlier round; raise if it is not that."""
    if approval is None or not hmac.compare_digest(approval.binding, case.bind(state.server_state)):
        message = (
            "this requestState belongs to another call, was used, or is too old; call again without it to be asked anew"
        )
        raise case.refusal("invalid_state", message)
    answers = client.resume.get("inputResponses")
    answer = answers.get(QUESTION) if isinstance(answers, Mapping) else None
    if approval.status != "approved" and not (approval.status == "asked" and is_yes(answer)):
        raise case.refusal("refused", "approval of this call was refused")
    return approval


def is_yes(answer: object) -> bool:
    """Whether the answer to an elicitation with FORM is a clear yes."""
    content = answer.get("content") if isinstance(answer, Mapping) else None
    is_accepted = isinstance(answer, Mapping) and answer.get("action") == "accept"
    return is_accepted and isinstance(content, Mapping) and content.get("approve") is True


def _resume(request: Request, client: ClientChannel, state: _State | None = None) -> Request:
    """The request with the answers that are for the server: none where `state` is not that of a server's question."""
    resume: dict[str, Any] = {}
    if state is not None:
        resume = {key: value for key, value in client.resume.items() if key != "requestState"}
        resume |= {} if state.server_state is None else {"requestState": state.server_state}
    other = copy.copy(client)
    other.resume = resume
    return replace(request, client=other)


def _takes_forms(client: ClientChannel) -> bool:
    """Whether the questions of an `input_required` result may ask a person: in a form, not only at a URL."""
    elicitation = client.capabilities.get("elicitation")
    return (
        client.takes_input_requests and isinstance(elicitation, Mapping) and (not elicitation or "form" in elicitation)
    )


async def _make_question(case: ApprovalCase, store: Approvals) -> dict[str, Any]:
    state = _State(_new_id())
    await case.add(store, Approval(state.id, "asked", case.bind()), QUESTION_SECONDS)
    params = {"mode": "form", "message": case.question(), "requestedSchema": FORM}
    question = {"method": "elicitation/create", "params": params}
    return {"resultType": "input_required", "inputRequests": {QUESTION: question}, "requestState": state.write()}


async def _ask(case: ApprovalCase) -> bool | None:
    """The answer of the person at a client with a session; None if the client cannot be asked, or fails."""
    try:
        return await case.request.ask(case.question())
    except Exception:
        log.exception("asking for approval of %s failed", case.item.id)
        return None


# The operator


async def _wait_for_operator(case: ApprovalCase, store: Approvals) -> None:
    """Put the call into the list of pending approvals until it is answered; raise unless it is approved in time.

    However the call ends, it leaves the list.
    """
    id, seconds, about = _new_id(), case.settings.wait_seconds, _describe(case)
    # The store keeps it a little longer: at the end of the wait the gateway itself looks once more.
    await case.add(store, Approval(id, "pending", about=about), seconds + 10)
    log.warning("a call of %s waits for approval: leafgate approvals approve (or deny) %s", about["tool_id"], id)
    approval: Approval | None = None
    try:
        await _poll(id, case.request.client, seconds, store)
    finally:
        with anyio.CancelScope(shield=True), suppress(StoreError):
            approval = await store.take(id)
    if approval is not None and approval.status == "approved":
        return
    if approval is not None and approval.status == "denied":
        raise case.refusal("refused", "an operator refused approval of this call")
    how = "operators answer with `leafgate approvals` or on the dashboard while a call waits"
    raise case.refusal("timed_out", f"no operator approved this call within {seconds:g} s; {how}")


def _describe(case: ApprovalCase) -> dict[str, Any]:
    """What an operator is shown of a call."""
    item, clean = case.item, case.settings.clean
    names = {"principal": case.request.principal or "", "server": item.server, "tool": item.upstream_name}
    shown = {key: show_arguments(name, clean)[:MAX_NAME] for key, name in {**names, "tool_id": item.id}.items()}
    reason = {"reason": case.reason} if case.reason else {}
    return {**shown, **reason, "arguments": show_arguments(case.args, clean), "created": time.time()}


async def _poll(id: str, client: ClientChannel | None, seconds: float, store: Approvals) -> None:
    """Return once the approval is answered or gone, or the time is over. Meanwhile the client gets progress."""
    start, next_progress = anyio.current_time(), 0.0
    while True:
        approval = await store.find(id)
        elapsed = anyio.current_time() - start
        if approval is None or approval.status != "pending" or elapsed >= seconds:
            return
        if client is not None and elapsed >= next_progress:
            next_progress = elapsed + PROGRESS_SECONDS
            # Far below 1: progress may only grow, and the server's own begins afterwards.
            await _report_progress(client, (elapsed + 1) / 1e6)
        await anyio.sleep(min(POLL_SECONDS, seconds - elapsed))


async def _report_progress(client: ClientChannel, progress: float) -> None:
    try:
        await client.progress(progress, None, "waiting for an operator to approve this call")
    except Exception as error:
        log.debug("progress could not be reported: %s", error)


def _new_id() -> str:
    return secrets.token_hex(_ID_BYTES)
