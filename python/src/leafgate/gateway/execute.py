"""tool_execute up to the upstream's answer. In: a snapshot, a tool id, arguments. Out: the raw result and its origin.

Awaits ports only. The steps stand in their order in `execute`; each ends the call by raising, and nothing later runs.
Nothing but GatewayError and UpstreamFailure leaves this room.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from leafgate.admission.cacheable import CachePolicy, cache_key, is_worth_keeping, may_keep
from leafgate.admission.capability import CapabilityPolicy, Effect, approval_question
from leafgate.admission.repair import Repair, repair
from leafgate.admission.validate import NotJsonError, SchemaShelf, TooCostlyError, shape_of
from leafgate.gateway.dispatch import SEND_ONCE, Answered, Dispatcher, dispatch
from leafgate.gateway.rights import AS_EVERYBODY, Rights
from leafgate.gateway.serving import UNTRACED, goes_to
from leafgate.gateway.snapshot import Snapshot
from leafgate.model.call import Origin
from leafgate.model.errors import GatewayError, StoreError, UpstreamFailure
from leafgate.model.tool import SelectableItem
from leafgate.ports import Caller, Quotas, ResultCache, Tracer, Upstream

log = logging.getLogger("leafgate.gateway")

# None: the client cannot be asked. Only True is a yes.
Ask = Callable[[str], Awaitable[bool | None]]
OutputCheck = Literal["pass", "missing", "too_costly", "unusable_schema"]

MAX_ANNOTATIONS: Final = 4_096  # characters of a server's annotations that a dry run repeats


async def cannot_ask(question: str) -> bool | None:
    """For clients without a person to ask."""
    return None


@dataclass(frozen=True)
class Requester:
    """Who calls: whose quota it is, which principal policies know, how to ask for approval, whose cache it shares.

    `client` is handed to the server that works for it, so that the two can talk during the call. `rights` is what this
    one has instead of what everybody has.
    """

    owner: str = "local"
    principal: str | None = None
    ask: Ask = cannot_ask
    partition: str = ""
    client: Caller | None = None
    rights: Rights = AS_EVERYBODY


@dataclass(frozen=True)
class Controls:
    """What the operator switched on. By default nothing is."""

    policy: CapabilityPolicy | None = None
    tolerant_args: bool = False
    quotas: Quotas | None = None
    cache: ResultCache | None = None
    cache_policy: CachePolicy = CachePolicy()  # noqa: RUF009  frozen
    dispatcher: Dispatcher = SEND_ONCE
    strict_output: bool = False
    schemas: SchemaShelf = field(default_factory=SchemaShelf)


ANYBODY: Final = Requester()
NO_CONTROLS: Final = Controls()


@dataclass(frozen=True)
class Executed:
    """What an upstream answered, untouched, and what the envelope should say of how it came about."""

    origin: Origin
    raw: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 1


@dataclass(frozen=True)
class DryRun:
    """The report of a call that was judged and not made."""

    item: SelectableItem
    checks: tuple[tuple[str, str], ...]
    repairs: tuple[Repair, ...] = ()

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "dry_run": True,
            "tool_id": self.item.id,
            "upstream_name": self.item.upstream_name,
            "args_valid": True,
            "annotations": {**_annotations(self.item), "verified": False},
            "checks": [{"name": name, "status": status} for name, status in self.checks],
        }
        return body | ({"arg_repairs": [each.as_json() for each in self.repairs]} if self.repairs else {})

    def text(self) -> str:
        """The report as one line. Its annotations and name are the server's words: clean it before it is shown."""
        return json.dumps(self.as_json(), ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class _Call:
    """A call on its way."""

    item: SelectableItem
    args: Any
    approval: Effect = "allow"
    repairs: tuple[Repair, ...] = ()


async def execute(
    snapshot: Snapshot,
    upstream: Upstream,
    tool_id: object,
    args: object,
    *,
    requester: Requester = ANYBODY,
    controls: Controls = NO_CONTROLS,
    tracer: Tracer = UNTRACED,
) -> Executed:
    """The whole way of a call, step by step (spec 3.2)."""
    with tracer.stage("admission"):
        call = hydrate(snapshot, tool_id, args)
        goes_to(call.item.server)
        call = gate(call, requester, controls)
        await approve(call, requester)
        call = repair_args(call, controls)
        validate_args(call, controls)
        await take_quota(controls, requester, "tool_execute", call.item.id)
    return await _cached(call, requester, controls) or await _dispatched(call, requester, upstream, controls)


async def rehearse(
    snapshot: Snapshot,
    tool_id: object,
    args: object,
    *,
    requester: Requester = ANYBODY,
    controls: Controls = NO_CONTROLS,
) -> DryRun:
    """The same way as far as it costs nothing: nobody is asked, no quota is used, no server hears of it."""
    call = hydrate(snapshot, tool_id, args)
    call = gate(call, requester, controls)
    call = repair_args(call, controls)
    validate_args(call, controls)
    await peek_quota(controls, requester, "tool_execute", call.item.id)
    return DryRun(call.item, tuple(_checks(call, policy_for(requester, controls))), call.repairs)


def wants_dry_run(args: Mapping[str, Any]) -> bool:
    """Whether the arguments of tool_execute ask for a dry run; anything but true or false is an error."""
    wish = args.get("dry_run", False)
    if not isinstance(wish, bool):
        raise GatewayError("ARGS_INVALID", "dry_run is true or false")
    return wish


def hydrate(snapshot: Snapshot, tool_id: object, args: object) -> _Call:
    if not isinstance(tool_id, str):
        raise GatewayError("ARGS_INVALID", "tool_id is a text")
    item = snapshot.item(tool_id)
    if item.kind != "tool":
        raise GatewayError("HYDRATE_FAILED", f"this is the id of a {item.kind}, not of a tool", path=item.id)
    return _Call(item, args)


def policy_for(requester: Requester, controls: Controls) -> CapabilityPolicy | None:
    """The policy that somebody is under: their own, or everybody's."""
    return controls.policy if requester.rights.policy is None else requester.rights.policy


def gate(call: _Call, requester: Requester, controls: Controls) -> _Call:
    """The capability gate: open without a policy; with one, only what it allows."""
    policy = policy_for(requester, controls)
    effect: Effect = "allow" if policy is None else policy.judge(call.item, requester.principal)
    if effect == "deny":
        raise GatewayError("PERMISSION_DENIED", "the operator's policy does not allow this call", path=call.item.id)
    return replace(call, approval=effect)


async def approve(call: _Call, requester: Requester) -> None:
    """Asks a person where the policy wants it. Silence, failure and anything but a clear yes are a no."""
    if call.approval != "require_approval":
        return
    try:
        answer = await requester.ask(approval_question(call.item, call.args))
    except Exception:
        log.exception("asking for approval of %s failed", call.item.id)
        answer = None
    if answer is not True:
        refused = "was refused" if answer is False else "is needed, and this client cannot be asked"
        raise GatewayError("PERMISSION_DENIED", f"approval of this call {refused}", path=call.item.id)


def repair_args(call: _Call, controls: Controls) -> _Call:
    if not controls.tolerant_args:
        return call
    try:
        # Also bounds the walk: the depth of what cannot be valid anyway is not followed.
        shape_of(call.args)
    except NotJsonError:
        return call
    repaired = repair(call.item.args_schema, call.args)
    return replace(call, args=repaired.args, repairs=repaired.repairs)


def validate_args(call: _Call, controls: Controls) -> None:
    item = call.item
    if not isinstance(call.args, Mapping):
        raise GatewayError("ARGS_INVALID", "args is an object", path=item.id)
    if _is_unusable(item, "input-schema-"):
        raise GatewayError("SCHEMA_INVALID", "the tool's input schema cannot be used", path=item.id)
    try:
        found = controls.schemas.checked(item.args_schema).violations(call.args)
    except NotJsonError as error:
        raise GatewayError("ARGS_INVALID", f"args: {error}", path=item.id) from None
    except TooCostlyError:
        message = "checking these arguments against the tool's schema would take too long"
        raise GatewayError("SCHEMA_INVALID", message, path=item.id) from None
    except GatewayError as error:
        raise GatewayError(error.code, error.body.message, path=item.id) from None
    if found:
        details = {"violations": [violation.as_json() for violation in found]}
        raise GatewayError("ARGS_INVALID", "the arguments break the tool's schema", path=item.id, details=details)


async def take_quota(controls: Controls, requester: Requester, *scopes: str) -> None:
    """Counts one call in every scope, or refuses it. Also for the meta-tools that do not come this way."""
    await _quota(controls, requester, scopes, peek=False)


async def peek_quota(controls: Controls, requester: Requester, *scopes: str) -> None:
    await _quota(controls, requester, scopes, peek=True)


async def _quota(controls: Controls, requester: Requester, scopes: tuple[str, ...], *, peek: bool) -> None:
    quotas = controls.quotas if requester.rights.quotas is None else requester.rights.quotas
    if quotas is None:
        return
    ask = quotas.peek if peek else quotas.take
    try:
        found = await ask(requester.owner, scopes)
    except Exception as error:
        # Limits that cannot be checked are not limits: fail closed.
        if isinstance(error, StoreError):
            log.error("the quotas cannot be read: %s", error)
            raise GatewayError("STORE_UNAVAILABLE", "the limits of this call cannot be checked now") from error
        log.exception("the quotas cannot be read")
        raise GatewayError("INTERNAL_ERROR", "the gateway failed on this request") from error
    if found is not None:
        details = {"scope": found.scope, "limit": found.limit, "retry_after": found.retry_after}
        raise GatewayError("RATE_LIMITED", f"the limit {found.limit} is reached", path=scopes[-1], details=details)


async def _cached(call: _Call, requester: Requester, controls: Controls) -> Executed | None:
    """A kept result, if there is one for these arguments."""
    if controls.cache is None or not _may_share(call, requester, controls):
        return None
    try:
        raw = await controls.cache.get(cache_key(call.item.id, call.args, requester.partition))
    except StoreError as error:
        log.warning("the result cache cannot be read: %s", error)
        return None
    except Exception:
        log.exception("the result cache cannot be read")
        return None
    return None if raw is None else _executed(call, Answered(raw, 0), {"cache_hit": True})


def _may_share(call: _Call, requester: Requester, controls: Controls) -> bool:
    """A call that carries a person's answers to a server's questions is more than its arguments."""
    resumes = requester.client is not None and bool(requester.client.resume)
    return not resumes and may_keep(controls.cache_policy, call.item)


async def _dispatched(call: _Call, requester: Requester, upstream: Upstream, controls: Controls) -> Executed:
    """The server's answer, checked, and kept where it may be."""
    epoch = "" if controls.cache is None else controls.cache.epoch()
    answered = await dispatch(upstream, call.item, call.args, controls.dispatcher, requester.client)
    verdict = check_output(call.item, answered.raw, controls)
    await _keep(call, requester, controls, answered.raw, epoch)
    return _executed(call, answered, {} if verdict in (None, "pass") else {"output_check": verdict})


def check_output(item: SelectableItem, raw: Mapping[str, Any], controls: Controls) -> OutputCheck | None:
    """Holds a server to the output schema that it declared; None where it declared none, or tells of an error.

    An answer that breaks the schema goes nowhere. One that could not be checked is delivered, and the envelope says so,
    unless the operator wants it otherwise.
    """
    if item.output_schema is None or not is_worth_keeping(raw):
        return None
    verdict = _output_verdict(item, item.output_schema, raw, controls)
    if verdict != "pass" and controls.strict_output:
        message = "the server's answer cannot be checked against its own output schema"
        raise UpstreamFailure("UPSTREAM_ERROR", f"{item.id}: output check: {verdict}", message=message)
    return verdict


def _output_verdict(
    item: SelectableItem, schema: Mapping[str, Any], raw: Mapping[str, Any], controls: Controls
) -> OutputCheck:
    if "structuredContent" not in raw:
        return "missing"
    if _is_unusable(item, "output-schema-"):
        return "unusable_schema"
    try:
        found = controls.schemas.checked(schema).violations(raw["structuredContent"])
    except (NotJsonError, TooCostlyError):
        return "too_costly"
    except GatewayError:
        return "unusable_schema"
    if found:
        told = "; ".join(f"{violation.pointer or '/'}: {violation.message}" for violation in found)
        message = "the server's answer breaks its own output schema"
        raise UpstreamFailure("UPSTREAM_ERROR", f"{item.id} breaks its output schema: {told[:2000]}", message=message)
    return "pass"


async def _keep(call: _Call, requester: Requester, controls: Controls, raw: Mapping[str, Any], epoch: str) -> None:
    if controls.cache is None or not _may_share(call, requester, controls) or not is_worth_keeping(raw):
        return
    try:
        await controls.cache.put(cache_key(call.item.id, call.args, requester.partition), raw, epoch)
    except StoreError as error:
        log.warning("the result cache cannot be written: %s", error)
    except Exception:
        log.exception("the result cache cannot be written")


def _executed(call: _Call, answered: Answered, provenance: Mapping[str, Any]) -> Executed:
    told = dict(provenance)
    if call.repairs:
        told["arg_repairs"] = [each.as_json() for each in call.repairs]
    if answered.attempts > 1:
        told["attempts"] = answered.attempts
    return Executed(Origin(call.item.server, call.item.upstream_name), answered.raw, told, answered.attempts)


def _is_unusable(item: SelectableItem, prefix: str) -> bool:
    """Whether intake found that values cannot be checked against this schema; it is not even compiled then."""
    findings = item.metadata.get("schema_findings", ())
    return any(found.startswith(prefix) and not found.startswith(f"{prefix}remote-ref") for found in findings)


def _annotations(item: SelectableItem) -> Mapping[str, Any]:
    declared = item.metadata.get("annotations", {})
    fits = isinstance(declared, Mapping) and len(json.dumps(declared, default=str)) <= MAX_ANNOTATIONS
    return declared if fits else {}


def _checks(call: _Call, policy: CapabilityPolicy | None) -> list[tuple[str, str]]:
    """The judgements that a dry run passed, in their order; a control that is off is not among them."""
    checks: list[tuple[str, str]] = []
    if policy is not None:
        checks.append(("capability", "pass" if call.approval == "allow" else "needs_approval"))
    if call.repairs:
        checks.append(("arg_repair", "repaired"))
    checks += [("schema_validation", "pass"), ("rate_limit", "pass")]
    return checks
