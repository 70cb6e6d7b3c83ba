"""The gateway as its servers see it. In: whatever a client sent. Out: a result, always.

Awaits the ports it was given. Every operation of a meta-tool ends in `_answer`: one exit, one report, and no exception
goes further. Native reads raise GatewayError or UpstreamFailure, because MCP has errors of its own for them.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any, Final

from anyio import move_on_after, to_thread

from leafgate.browse.meaning import Embedder
from leafgate.browse.rank import IndexStore
from leafgate.firewall.cleaner import Cleaner
from leafgate.firewall.screen import DEFAULT_BUDGET
from leafgate.gateway import discover, offers
from leafgate.gateway.deliver import Door, deliver_own, deliver_result
from leafgate.gateway.execute import (
    ANYBODY,
    Controls,
    Requester,
    check_output,
    execute,
    rehearse,
    take_quota,
    wants_dry_run,
)
from leafgate.gateway.native import NativeOffers, native_offers
from leafgate.gateway.session import BrowseMemory
from leafgate.gateway.snapshot import Pinned, Shelf, Snapshot, build_snapshot
from leafgate.gateway.view import view
from leafgate.model.call import Asking
from leafgate.model.envelope import ENVELOPE_META_KEY, Artifact, ResultEnvelope
from leafgate.model.errors import ErrorBody, GatewayError, UpstreamFailure
from leafgate.model.leaf import Level
from leafgate.ports import ArtifactStore, NativeUpstream, Offers, Recorder, Upstream
from leafgate.tokens.encoder import Encoder

log = logging.getLogger("leafgate.gateway")

BROWSE_META_KEY: Final = "leafgate/browse"
INPUT_REQUIRED: Final = "input_required"
CATCH_UP_SECONDS: Final = 10

_UPSTREAM_MESSAGES: Mapping[str, str] = {
    "UPSTREAM_TIMEOUT": "the server did not answer in time",
    "UPSTREAM_UNAVAILABLE": "the server is not reachable at the moment",
    "AUTH_FAILED": "the server refused the gateway's credentials",
    "PERMISSION_DENIED": "the server refused this call",
    "RATE_LIMITED": "the server asks to slow down",
}


@dataclass(frozen=True)
class GatewayParts:
    """What a gateway is made of. The composition root fills it."""

    upstream: Upstream
    artifacts: ArtifactStore
    recorder: Recorder
    clean: Cleaner
    count: Callable[[str], int]
    encoder_of: Callable[[str], Encoder]
    primitives: NativeUpstream | None = None
    clean_for: Mapping[str, Cleaner] = field(default_factory=dict)
    controls: Controls = field(default_factory=Controls)
    budget: int = DEFAULT_BUDGET
    level: Level = "canonical"
    level_for: Mapping[str, Level] = field(default_factory=dict)
    cache_stable: bool = False
    index_store: IndexStore | None = None
    pinned: Pinned | None = None
    embedder: Embedder | None = None
    caught_up: Callable[[], Awaitable[None]] | None = None


class GatewayRuntime:
    """One gateway. Its catalog is a snapshot that is swapped whole."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self._door = Door(
            artifacts=parts.artifacts,
            recorder=parts.recorder,
            clean=parts.clean,
            count=parts.count,
            budget=parts.budget,
            level=parts.level,
            encoder_of=parts.encoder_of,
            clean_for=parts.clean_for,
            level_for=parts.level_for,
        )
        self._seen = BrowseMemory() if parts.cache_stable else None
        self._snapshot = build_snapshot(Offers(), parts.clean)
        self._native: NativeOffers | None = None

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def native(self) -> NativeOffers:
        """The offers as plain MCP clients know them; made when they are first asked for."""
        if self._native is None:
            self._native = native_offers(self._snapshot, lambda value: self._parts.clean.json(value).value)
        return self._native

    @property
    def breaker_phases(self) -> Mapping[str, str]:
        """The circuit breakers by server, where there are any."""
        breakers = self._parts.controls.dispatcher.breakers
        return {} if breakers is None else breakers.phases()

    async def refresh_catalog(self) -> Snapshot:
        """Reads the upstreams' lists and swaps the new snapshot in; if anything fails, the old one stays whole."""
        return self.register(Offers(tools=await self._parts.upstream.list_tools()))

    def register(self, found: Offers) -> Snapshot:
        """Builds a new snapshot and swaps it in."""
        return self.adopt(self.prepare(found))

    def prepare(self, found: Offers) -> Snapshot:
        """A new snapshot over these offers. Changes nothing, so that a thread can do it."""
        parts = self._parts
        return build_snapshot(
            found,
            parts.clean,
            earlier=self._snapshot,
            store=parts.index_store,
            pinned=parts.pinned,
            embedder=parts.embedder,
        )

    def adopt(self, snapshot: Snapshot) -> Snapshot:
        """Swaps a snapshot in, in one synchronous step: a request sees all of the old one or all of the new."""
        self._snapshot = snapshot
        self._native = None
        if self._seen is not None:
            self._seen.forget_all()
        if self._parts.controls.cache is not None:
            self._parts.controls.cache.clear()
        return self._snapshot

    async def browse(self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY) -> dict[str, Any]:
        return await self._browse("tool_browse", lambda snapshot: snapshot.tools, args, asking, requester)

    async def browse_resources(
        self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY
    ) -> dict[str, Any]:
        return await self._browse("resource_browse", lambda snapshot: snapshot.resources, args, asking, requester)

    async def browse_prompts(
        self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY
    ) -> dict[str, Any]:
        return await self._browse("prompt_browse", lambda snapshot: snapshot.prompts, args, asking, requester)

    async def hydrate(self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            # Intake cleaned the prose of a schema, but not the values that its server compares with.
            text = self._parts.clean(discover.hydrate(self._snapshot, args.get("tool_id")))
            if self._seen is not None:
                self._seen.keep(asking.owner, self._seen.of(asking.owner).hydrated(str(args.get("tool_id"))))
            return await deliver_own(self._door, asking, text)

        return await self._answer("tool_hydrate", asking, requester, work)

    async def execute(self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            if wants_dry_run(args):
                report = await rehearse(
                    self._snapshot,
                    args.get("tool_id"),
                    args.get("args", {}),
                    requester=requester,
                    controls=self._parts.controls,
                )
                return await deliver_own(self._door, asking, self._parts.clean(report.text()))
            return await self._execute(args.get("tool_id"), args.get("args", {}), asking, requester)

        return await self._answer("tool_execute", asking, requester, work, counted=False)

    async def call_native(
        self, name: str, args: object, asking: Asking, requester: Requester = ANYBODY
    ) -> dict[str, Any]:
        """A tool by its public name, as a client calls it that does its own tool search.

        An error that its server answered with, by the protocol, is raised: such a client expects it as one.
        """

        async def work() -> dict[str, Any]:
            tool = self.native.tools.get(name)
            if tool is None:
                raise GatewayError("HYDRATE_FAILED", "no tool has this name", path=name[:240])
            return await self._execute(tool.item.id, args, asking, requester, structured=True)

        return await self._answer("tools/call", asking, requester, work, counted=False, natively=True)

    async def view(self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            allow = partial(self._allow_view, requester)
            selector = args.get("selector", {"type": "head"})
            return await view(self._door, asking, args.get("handle"), selector, allow=allow)

        return await self._answer("tool_view", asking, requester, work)

    def _allow_view(self, requester: Requester, kept: Artifact) -> None:
        """A view is subject to the policy of the call that made it: what is denied now cannot be read on."""
        policy = self._parts.controls.policy
        if policy is None or kept.origin is None:
            return
        origin = kept.origin
        items = [
            item
            for shelf in (self._snapshot.tools, self._snapshot.resources, self._snapshot.prompts)
            for item in shelf.catalog
            if (item.server, item.upstream_name) == (origin.server, origin.tool)
        ]
        tools = [item for item in items if item.kind == "tool"]
        if not items or any(policy.judge(item, requester.principal) == "deny" for item in tools):
            raise GatewayError("PERMISSION_DENIED", "the operator's policy does not allow this view")

    async def read_resource(
        self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY
    ) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            upstream = self._primitives()
            origin, raw = await offers.read_by_id(self._snapshot, upstream, args.get("resource_id"), requester.client)
            return await deliver_result(self._door, asking, origin, raw)

        return await self._answer("resource_read", asking, requester, work)

    async def get_prompt(
        self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY
    ) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            given = args.get("prompt_id"), args.get("args")
            origin, raw = await offers.get_by_id(self._snapshot, self._primitives(), *given, requester.client)
            return await deliver_result(self._door, asking, origin, raw)

        return await self._answer("prompt_get", asking, requester, work)

    async def read_native(self, uri: str, requester: Requester = ANYBODY) -> dict[str, Any]:
        """A resource's contents for a plain client: clean, whole."""
        await self._settled()
        raw = await offers.read_by_uri(self._primitives(), uri, requester.client)
        return self._cleaned(raw, keep=("uri", "blob", "requestState"))

    async def get_prompt_native(
        self, name: str, args: Mapping[str, str], requester: Requester = ANYBODY
    ) -> dict[str, Any]:
        """A rendered prompt for a plain client."""
        await self._settled()
        prompt = self.native.prompts.get(name)
        if prompt is None:
            raise GatewayError("PROMPT_NOT_FOUND", "no prompt has this name", path=name[:240])
        raw = await self._primitives().get_prompt(prompt.server, prompt.upstream_name, args, requester.client)
        return self._cleaned(raw, keep=("uri", "blob", "data", "requestState"))

    async def request_native(
        self, server: str, method: str, params: Mapping[str, Any], requester: Requester = ANYBODY
    ) -> dict[str, Any]:
        """Any other request of a plain client that one server answers."""
        return self._cleaned(await self._primitives().request(server, method, params, requester.client), keep=())

    async def _browse(
        self,
        operation: str,
        shelf_of: Callable[[Snapshot], Shelf],
        args: Mapping[str, Any],
        asking: Asking,
        requester: Requester,
    ) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            top_k = args.get("top_k", discover.DEFAULT_TOP_K)
            shelf = shelf_of(self._snapshot)
            look = partial(discover.browse, shelf, args.get("query"), args.get("path"), top_k, self._parts.count)
            # The bundled model answers in a millisecond; one that the operator plugged in may be behind a network.
            page = look() if self._parts.embedder is None else await to_thread.run_sync(look)
            if self._seen is not None:
                cards, state = self._seen.of(asking.owner).page(page.cards)
                self._seen.keep(asking.owner, state)
                page = replace(page, cards=cards)
            return await deliver_own(self._door, asking, page.text(), meta={BROWSE_META_KEY: page.as_json()})

        return await self._answer(operation, asking, requester, work)

    async def _execute(
        self, tool_id: object, args: object, asking: Asking, requester: Requester, *, structured: bool = False
    ) -> dict[str, Any]:
        parts = self._parts
        done = await execute(
            self._snapshot, parts.upstream, tool_id, args, requester=requester, controls=parts.controls
        )
        if done.raw.get("resultType") == INPUT_REQUIRED:
            return self._cleaned(done.raw, keep=("requestState",))
        result = await deliver_result(
            self._door, asking, done.origin, done.raw, provenance=done.provenance, structured=structured
        )
        return self._checked_again(tool_id, done.raw, result)

    def _checked_again(self, tool_id: object, raw: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """Cleaning may break a promise of the server's: then the envelope says that it was us, and not the server."""
        shown = result.get("structuredContent")
        if shown is None or shown == raw["structuredContent"]:
            return result
        item = self._snapshot.catalog.get(str(tool_id))
        try:
            if item is not None:
                check_output(item, {**raw, "structuredContent": shown}, self._parts.controls)
        except UpstreamFailure:
            envelope = result["_meta"][ENVELOPE_META_KEY]
            told = {**envelope.get("provenance", {}), "output_check": "broken_by_cleaning"}
            return {**result, "_meta": {**result["_meta"], ENVELOPE_META_KEY: {**envelope, "provenance": told}}}
        return result

    async def _answer(
        self,
        operation: str,
        asking: Asking,
        requester: Requester,
        work: Callable[[], Awaitable[dict[str, Any]]],
        *,
        counted: bool = True,
        natively: bool = False,
    ) -> dict[str, Any]:
        """The one exit: a result, or an error that says whose fault it is; reported once either way."""
        started = monotonic()
        error: ErrorBody | None = None
        try:
            await self._settled()
            if counted:  # a call of a tool takes its quota on its own way, after its arguments were checked
                await take_quota(self._parts.controls, requester, operation)
            return await work()
        except GatewayError as refused:
            error = refused.body
        except UpstreamFailure as failed:
            error = _logged(upstream_error(failed), operation, failed.detail)
            if natively and failed.rpc_code is not None and not error.retryable:
                raise
        except Exception as unexpected:
            log.exception("unexpected failure in %s", operation)
            body = ErrorBody("INTERNAL_ERROR", "the gateway failed on this request")
            error = _logged(body, operation, f"{type(unexpected).__name__}")
        finally:
            self._parts.recorder.call(operation, None if error is None else error.error, monotonic() - started)
        return await self._deliver_error(error, asking)

    async def _deliver_error(self, error: ErrorBody, asking: Asking) -> dict[str, Any]:
        text = self._parts.clean(json.dumps(error.as_json(), ensure_ascii=False, separators=(",", ":")))
        meta = {ENVELOPE_META_KEY: ResultEnvelope("error").as_json()}
        return await deliver_own(self._door, asking, text, is_error=True, meta=meta)

    async def _settled(self) -> None:
        """Servers on their first start are waited for, and so is a catalog that is being rebuilt; both for a while."""
        await self._parts.upstream.settled()
        if self._parts.caught_up is not None:
            with move_on_after(CATCH_UP_SECONDS):
                await self._parts.caught_up()

    def _primitives(self) -> NativeUpstream:
        if self._parts.primitives is None:
            raise GatewayError("RESOURCE_NOT_FOUND", "this gateway has no resources and no prompts")
        return self._parts.primitives

    def _cleaned(self, raw: Mapping[str, Any], *, keep: tuple[str, ...]) -> dict[str, Any]:
        """A raw result, clean; the values under these keys are opaque (addresses, bytes) and stay as they are."""
        cleaned = self._parts.clean.json(raw).value
        return _with_kept(cleaned, raw, frozenset(keep)) if isinstance(cleaned, dict) else {}


def upstream_error(failed: UpstreamFailure) -> ErrorBody:
    """What a client is told of an upstream's failure: nothing that the upstream said."""
    message = failed.message or _UPSTREAM_MESSAGES.get(failed.code, "the server answered with an error")
    return ErrorBody(failed.code, message, details=failed.details)


def _with_kept(cleaned: Any, raw: Any, keep: frozenset[str]) -> Any:
    if isinstance(cleaned, dict) and isinstance(raw, Mapping) and len(cleaned) == len(raw):
        return {
            key: source if name in keep and isinstance(source, str) else _with_kept(value, source, keep)
            for (key, value), (name, source) in zip(cleaned.items(), raw.items(), strict=True)
        }
    if isinstance(cleaned, list) and isinstance(raw, list):
        return [_with_kept(value, source, keep) for value, source in zip(cleaned, raw, strict=False)]
    return cleaned


def _logged(body: ErrorBody, operation: str, detail: str) -> ErrorBody:
    """The error with an id that leads the operator to the detail, which only the log has."""
    correlation = secrets.token_hex(4)
    log.warning("%s failed, correlation id %s: %s: %s", operation, correlation, body.error, detail)
    return replace(body, details={**body.details, "correlation_id": correlation})
