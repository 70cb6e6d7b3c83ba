"""tool_execute up to the raw result: a tool id and arguments become what the server answered.

The steps stand in their order in `execute`; each ends the call by raising, and then no later one runs. Only
GatewayError and UpstreamFailure are raised.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from leafgate.admission.flows import Flow
from leafgate.admission.policy import CachePolicy, cache_key, is_cacheable_result, is_cacheable_tool
from leafgate.admission.validate import (
    NotJsonError,
    Repair,
    SchemaShelf,
    TooCostlyError,
    Violation,
    measure_json,
    repair,
)
from leafgate.codec.negotiate import LEAF_EXTENSION, MAX_WISHES, IdsWish
from leafgate.digest.instance import FindViolations
from leafgate.gateway.approval import ApprovalCase, ApprovalSettings, approve
from leafgate.gateway.dispatch import SEND_ONCE, Answer, Dispatcher, dispatch
from leafgate.gateway.flows import Flows
from leafgate.gateway.serving import UNTRACED, note
from leafgate.gateway.snapshot import Snapshot
from leafgate.gateway.tasks import resume_task
from leafgate.model.envelope import Origin
from leafgate.model.errors import GatewayError, StoreError, UpstreamFailure
from leafgate.model.request import LOCAL, Request
from leafgate.model.rights import CapabilityPolicy, Effect, Quotas
from leafgate.model.tool import SelectableItem
from leafgate.ports import ResultCache, TaskRecord, Tracer, Upstream

log = logging.getLogger("leafgate.gateway")

OutputCheck = Literal["pass", "missing", "too_costly", "unusable_schema"]

MAX_ANNOTATIONS: Final = 4_096  # characters of a server's annotations that a dry run repeats
MAX_POINTERS: Final = 20  # of an answer that breaks its schema, in the log


@dataclass(frozen=True)
class Controls:
    """What the operator switched on. By default nothing is."""

    policy: CapabilityPolicy | None = None
    approvals: ApprovalSettings = ApprovalSettings()  # noqa: RUF009  frozen
    tolerant_args: bool = False
    quotas: Quotas | None = None
    cache: ResultCache | None = None
    cache_policy: CachePolicy = CachePolicy()  # noqa: RUF009  frozen
    dispatcher: Dispatcher = SEND_ONCE
    strict_output: bool = False
    schemas: SchemaShelf = field(default_factory=SchemaShelf)
    flows: Flows | None = None


NO_CONTROLS: Final = Controls()


@dataclass(frozen=True)
class RawResult:
    """What a server answered, unchanged, and what the envelope says of how it came about.

    `request` is the one with which an approved call went on, `case` what the approval was about, if the call needed
    one. `is_resumed`: the call answered the questions of a task.
    """

    item: SelectableItem
    raw: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    request: Request = LOCAL
    case: ApprovalCase | None = None
    is_resumed: bool = False

    @property
    def origin(self) -> Origin:
        return Origin(self.item.server, self.item.upstream_name)


@dataclass(frozen=True)
class _Call:
    """A call on its way."""

    item: SelectableItem
    args: Any
    approval: Effect = "allow"
    repairs: tuple[Repair, ...] = ()


FindTask = Callable[[Request], Awaitable[TaskRecord | None]]


async def _no_task(request: Request) -> TaskRecord | None:
    return None


async def execute(
    snapshot: Snapshot,
    upstream: Upstream,
    tool_id: object,
    args: object,
    *,
    request: Request = LOCAL,
    controls: Controls = NO_CONTROLS,
    tracer: Tracer = UNTRACED,
    find_task: FindTask = _no_task,
) -> RawResult:
    """The whole way of a call, step by step (spec 3.2). `find_task` finds the task whose questions the call answers."""
    with tracer.stage("admission"):
        call = hydrate(snapshot, tool_id, args)
        note(server=call.item.server, tool=call.item.upstream_name)
        if controls.flows is not None:
            request = controls.flows.watch(request, call.item.server)
        call = gate(call, request, controls)
        flows = await check_flows(call, request, controls)
        reasons = [flow.describe() for flow in flows if flow.effect == "require_approval"]
        is_required = call.approval == "require_approval" or bool(reasons)
        case = ApprovalCase(call.item, args, request, controls.approvals, "; ".join(reasons))
        if is_required or _is_resumed(request):
            approved = await approve(case, is_required=is_required)
            if not isinstance(approved, Request):  # a question to the client
                return RawResult(call.item, approved)
            request = approved
        if is_required:
            note(approval="given")
        call = repair_args(call, controls)
        validate_args(call, controls)
        await take_quota(controls, request, "tool_execute", call.item.id)
        task = await find_task(request) if _is_resumed(request) else None
    result = await _read_cache(call, request, upstream, controls) or await _send(
        call, request, upstream, controls, task
    )
    return replace(result, request=request, case=case if is_required else None, is_resumed=task is not None)


def _is_resumed(request: Request) -> bool:
    """Whether the request answers questions of an earlier round."""
    return request.client is not None and bool(request.client.resume)


async def rehearse(
    snapshot: Snapshot, tool_id: object, args: object, *, request: Request = LOCAL, controls: Controls = NO_CONTROLS
) -> dict[str, Any]:
    """The same steps as far as they cost nothing: no person is asked, no quota used, no server called.

    Returns the report of this dry run. Its annotations and name are the server's: clean them.
    """
    call = hydrate(snapshot, tool_id, args)
    call = gate(call, request, controls)
    flows = await check_flows(call, request, controls, is_rehearsal=True)
    call = repair_args(call, controls)
    validate_args(call, controls)
    await take_quota(controls, request, "tool_execute", call.item.id, peek=True)
    checks: dict[str, str] = {}  # in the order of the steps; a control that is off is not among them
    if policy_for(request, controls) is not None:
        checks["capability"] = "pass" if call.approval == "allow" else "needs_approval"
    if controls.flows is not None:
        needs_approval = any(flow.effect == "require_approval" for flow in flows)
        checks["flows"] = "needs_approval" if needs_approval else "flagged" if flows else "pass"
    if call.repairs:
        checks["arg_repair"] = "repaired"
    checks |= {"schema_validation": "pass", "rate_limit": "pass"}
    declared = call.item.metadata.get("annotations", {})
    fits = isinstance(declared, Mapping) and len(json.dumps(declared, default=str)) <= MAX_ANNOTATIONS
    report: dict[str, Any] = {
        "dry_run": True,
        "tool_id": call.item.id,
        "upstream_name": call.item.upstream_name,
        "args_valid": True,
        "annotations": {**(declared if fits else {}), "verified": False},
        "checks": [{"name": name, "status": status} for name, status in checks.items()],
    }
    return report | ({"arg_repairs": [each.as_json() for each in call.repairs]} if call.repairs else {})


def wants_dry_run(args: Mapping[str, Any]) -> bool:
    """Whether the arguments of tool_execute ask for a dry run; anything but true or false is an error."""
    wish = args.get("dry_run", False)
    if not isinstance(wish, bool):
        raise GatewayError("ARGS_INVALID", "dry_run is true or false")
    return wish


def hydrate(snapshot: Snapshot, tool_id: object, args: object) -> _Call:
    return _Call(snapshot.item(tool_id), args)


def policy_for(request: Request, controls: Controls) -> CapabilityPolicy | None:
    """The policy that a request is under: the principal's own, or the gateway's."""
    return controls.policy if request.rights.policy is None else request.rights.policy


def gate(call: _Call, request: Request, controls: Controls) -> _Call:
    """The capability gate: without a policy every call passes; with one, only what it allows."""
    policy = policy_for(request, controls)
    effect: Effect = "allow" if policy is None else policy.judge(call.item, request.principal)
    if effect == "deny":
        note(denied_by="policy")
        raise GatewayError("PERMISSION_DENIED", "the operator's policy does not allow this call", path=call.item.id)
    return replace(call, approval=effect)


async def check_flows(
    call: _Call, request: Request, controls: Controls, *, is_rehearsal: bool = False
) -> tuple[Flow, ...]:
    """The flows in everything that the call would send: its arguments, answers to questions, and `_meta`."""
    if controls.flows is None:
        return ()
    client, item = request.client, call.item
    value = [call.args] if client is None else [call.args, client.resume.get("inputResponses"), client.meta]
    return await controls.flows.check(
        request,
        item.server,
        value,
        has_side_effects=item.side_effects,
        path=item.id,
        is_rehearsal=is_rehearsal,
    )


def repair_args(call: _Call, controls: Controls) -> _Call:
    if not controls.tolerant_args:
        return call
    try:
        # Also bounds the walk: the depth of what cannot be valid anyway is not followed.
        measure_json(call.args)
    except NotJsonError:
        return call
    result = repair(call.item.args_schema, call.args)
    return replace(call, args=result.args, repairs=result.repairs)


def validate_args(call: _Call, controls: Controls) -> None:
    item = call.item
    if not isinstance(call.args, Mapping):
        raise GatewayError("ARGS_INVALID", "args is an object", path=item.id)
    if _is_unusable(item, "input-schema-"):
        raise GatewayError("SCHEMA_INVALID", "the tool's input schema cannot be used", path=item.id)
    try:
        violations = controls.schemas.prepare(item.args_schema).violations(call.args)
    except NotJsonError as error:
        raise GatewayError("ARGS_INVALID", f"args: {error}", path=item.id) from None
    except TooCostlyError:
        message = "checking these arguments against the tool's schema would take too long"
        raise GatewayError("SCHEMA_INVALID", message, path=item.id) from None
    except GatewayError as error:
        raise GatewayError(error.code, error.body.message, path=item.id) from None
    if violations:
        details = {"violations": [violation.as_json() for violation in violations]}
        raise GatewayError("ARGS_INVALID", "the arguments break the tool's schema", path=item.id, details=details)


async def take_quota(controls: Controls, request: Request, *scopes: str, peek: bool = False) -> None:
    """Count one call in every scope, or refuse it. `peek` refuses as well, and counts nothing.

    The meta-tools that do not execute come here by themselves.
    """
    quotas = controls.quotas if request.rights.quotas is None else request.rights.quotas
    if quotas is None:
        return
    try:
        breach = await (quotas.peek if peek else quotas.take)(request.caller, scopes)
    except Exception as error:
        # Limits that cannot be checked are not limits: fail closed.
        if isinstance(error, StoreError):
            log.error("the quotas cannot be read: %s", error)
            raise GatewayError("STORE_UNAVAILABLE", "the limits of this call cannot be checked now") from error
        log.exception("the quotas cannot be read")
        raise GatewayError("INTERNAL_ERROR", "the gateway failed on this request") from error
    if breach is not None:
        note(denied_by="rate_limits")
        details = {"scope": breach.scope, "limit": breach.limit, "retry_after": breach.retry_after}
        raise GatewayError("RATE_LIMITED", f"the limit {breach.limit} is reached", path=scopes[-1], details=details)


async def _read_cache(call: _Call, request: Request, upstream: Upstream, controls: Controls) -> RawResult | None:
    """A cached result, if there is one for these arguments."""
    if controls.cache is None or not _may_share(call, request, controls):
        return None
    try:
        raw = await controls.cache.get(_cache_key(call, request, upstream))
    except StoreError as error:
        log.warning("the result cache cannot be read: %s", error)
        return None
    except Exception:
        log.exception("the result cache cannot be read")
        return None
    return None if raw is None else _result(call, raw, {"cache_hit": True})


def _may_share(call: _Call, request: Request, controls: Controls) -> bool:
    """A call that carries a person's answers to a server's questions, or `_meta`, is more than its arguments."""
    has_meta = request.client is not None and bool(request.client.meta)
    return not has_meta and not _is_resumed(request) and is_cacheable_tool(controls.cache_policy, call.item)


def wish_of(request: Request) -> IdsWish:
    """What the server of a call is asked for: no ids where the client gets none. Packed ids cost least to read.

    The client's map comes first, then the maps that give the same ids: a leaf of theirs is one of the client's map.
    """
    if request.map_digest is None:
        return IdsWish((), "none")
    equal = frozenset() if request.encoder is None else request.encoder.map.equal_digests
    return IdsWish((request.map_digest, *sorted(equal - {request.map_digest}))[:MAX_WISHES], "packed")


async def _send(
    call: _Call, request: Request, upstream: Upstream, controls: Controls, resumed: TaskRecord | None
) -> RawResult:
    """The server's answer, checked, and cached where it may be."""
    epoch = "" if controls.cache is None else controls.cache.epoch()
    key = _cache_key(call, request, upstream) if _may_share(call, request, controls) else None
    if resumed is None:
        wish = wish_of(request)
        answer = await dispatch(upstream, call.item, call.args, controls.dispatcher, request.client, wish=wish)
    else:
        answer = Answer(await resume_task(upstream, resumed, call.item, request.client), attempts=1)
    verdict = check_output(call.item, answer.raw, controls)
    await _write_cache(controls.cache, key, answer.raw, epoch)
    provenance: dict[str, Any] = {} if verdict in (None, "pass") else {"output_check": verdict}
    return _result(call, answer.raw, provenance, answer.attempts)


def check_output(item: SelectableItem, raw: Mapping[str, Any], controls: Controls) -> OutputCheck | None:
    """Check an answer against the output schema that its server declared; None if there is none, or it is an error.

    An answer that breaks the schema raises UpstreamFailure. One that could not be checked is delivered, and the
    envelope says so, unless the operator wants it otherwise.
    """
    if item.output_schema is None:
        return None
    is_unusable = _is_unusable(item, "output-schema-")
    if not is_cacheable_result(raw):
        return None
    verdict: OutputCheck = "pass"
    if "structuredContent" not in raw:
        verdict = "missing"
    elif is_unusable:
        verdict = "unusable_schema"
    else:
        try:
            violations = controls.schemas.prepare(item.output_schema).violations(raw["structuredContent"])
        except (NotJsonError, TooCostlyError):
            verdict = "too_costly"
        except GatewayError:
            verdict = "unusable_schema"
        else:
            _raise_violations(item, violations)
    if verdict != "pass" and controls.strict_output:
        message = "the server's answer cannot be checked against its own output schema"
        raise UpstreamFailure("UPSTREAM_ERROR", f"{item.id}: output check: {verdict}", message=message)
    return verdict


def _raise_violations(item: SelectableItem, violations: Sequence[Violation]) -> None:
    if violations:
        pointers = [violation.pointer or "/" for violation in violations][:MAX_POINTERS]
        message = "the server's answer breaks its own output schema"
        detail = f"{item.id} breaks its output schema"  # the messages of the violations quote the answer
        raise UpstreamFailure("UPSTREAM_ERROR", detail, message=message, pointers=pointers)


def output_violations(item: SelectableItem, raw: Mapping[str, Any], controls: Controls) -> FindViolations:
    """Finds where other structured content in place of an answer's own would break its tool's output schema."""
    schema = item.output_schema
    if schema is None or _is_unusable(item, "output-schema-") or not is_cacheable_result(raw):
        return lambda structured: ()
    try:
        prepared = controls.schemas.prepare(schema)
    except GatewayError:
        return lambda structured: ()

    def find(structured: Any) -> Sequence[str]:
        try:
            return [violation.pointer for violation in prepared.violations(structured)]
        except (NotJsonError, TooCostlyError):
            return ()

    return find


def _cache_key(call: _Call, request: Request, upstream: Upstream) -> str:
    """Results of a server that is told which ids are wanted are shared by those who want the same ones."""
    is_told = call.item.server in upstream.servers_with(LEAF_EXTENSION)
    return cache_key(call.item.id, call.args, (request.map_digest or "") if is_told else "")


async def _write_cache(cache: ResultCache | None, key: str | None, raw: Mapping[str, Any], epoch: str) -> None:
    if cache is None or key is None or not is_cacheable_result(raw):
        return
    try:
        await cache.put(key, raw, epoch)
    except StoreError as error:
        log.warning("the result cache cannot be written: %s", error)
    except Exception:
        log.exception("the result cache cannot be written")


def _result(call: _Call, raw: Mapping[str, Any], provenance: Mapping[str, Any], attempts: int = 1) -> RawResult:
    facts = dict(provenance)
    if call.repairs:
        facts["arg_repairs"] = [each.as_json() for each in call.repairs]
    if attempts > 1:
        facts["attempts"] = attempts
    return RawResult(call.item, raw, facts)


def _is_unusable(item: SelectableItem, prefix: str) -> bool:
    """Whether intake found that values cannot be checked against this schema; it is not even compiled then."""
    findings = item.metadata.get("schema_findings", ())
    return any(code.startswith(prefix) and not code.startswith(f"{prefix}remote-ref") for code in findings)
