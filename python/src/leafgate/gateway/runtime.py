"""The gateway as its servers see it. In: whatever a client sent. Out: a result, always.

Awaits the ports it was given. Every operation of a meta-tool ends in `_answer`: one exit, one report, and no exception
goes further. Native reads raise GatewayError or UpstreamFailure, because MCP has errors of its own for them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any, Final

from anyio import move_on_after, to_thread

from leafgate.browse.meaning import Embedder
from leafgate.browse.rank import IndexStore
from leafgate.codec.arguments import decode_arguments
from leafgate.codec.read_leaf import strip_everywhere
from leafgate.firewall.cleaner import Cleaner
from leafgate.firewall.fit import total
from leafgate.firewall.screen import DEFAULT_BUDGET
from leafgate.gateway import discover, offers
from leafgate.gateway.clean_value import clean_value
from leafgate.gateway.deliver import Door, deliver_own, deliver_result, in_room, off_loop
from leafgate.gateway.execute import (
    ANYBODY,
    Controls,
    Requester,
    check_output,
    execute,
    policy_for,
    rehearse,
    take_quota,
    wants_dry_run,
)
from leafgate.gateway.native import NativeOffers, native_offers
from leafgate.gateway.observed import ObservedPrimitives, ObservedUpstream, Watch
from leafgate.gateway.room import Room
from leafgate.gateway.serving import UNTRACED, Outcome, serving
from leafgate.gateway.sight import Sights
from leafgate.gateway.snapshot import Pinned, Shelf, Snapshot, build_snapshot
from leafgate.gateway.stable_pages import remember_hydrated, stable_page
from leafgate.gateway.view import view
from leafgate.gateway.weight import DefinitionWeight
from leafgate.model.call import Asking
from leafgate.model.envelope import ENVELOPE_META_KEY, Artifact, ResultEnvelope
from leafgate.model.errors import ErrorBody, GatewayError, StoreError, UpstreamFailure
from leafgate.model.leaf import Level, Payload
from leafgate.ports import ArtifactStore, BrowseStates, NativeUpstream, Offers, Recorder, ResultCache, Tracer, Upstream
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
    encoder_of: Callable[[str], Awaitable[Encoder]]
    primitives: NativeUpstream | None = None
    clean_for: Mapping[str, Cleaner] = field(default_factory=dict)
    controls: Controls = field(default_factory=Controls)
    budget: int = DEFAULT_BUDGET
    level: Level = "canonical"
    level_for: Mapping[str, Level] = field(default_factory=dict)
    browse_states: BrowseStates | None = None  # None: pages are not stable
    reach: str = ""  # differs where equal tools may have other results: other servers, other credentials
    index_store: IndexStore | None = None
    pinned: Pinned | None = None
    embedder: Embedder | None = None
    caught_up: Callable[[], Awaitable[None]] | None = None
    tracer: Tracer = UNTRACED
    room: Room = field(default_factory=Room)


class GatewayRuntime:
    """One gateway. Its catalog is a snapshot that is swapped whole."""

    def __init__(self, parts: GatewayParts) -> None:
        self._take(parts)
        self._snapshot = build_snapshot(Offers(), parts.clean)
        self._sights = Sights(self._snapshot, self._clean_json)
        self._native: NativeOffers | None = None
        self._weight = DefinitionWeight(total(parts.count))

    def _take(self, parts: GatewayParts) -> None:
        self._parts = parts
        watch = Watch(parts.recorder, parts.tracer, parts.clean, parts.clean_for)
        self._upstream = ObservedUpstream(parts.upstream, watch)
        self._observed = None if parts.primitives is None else ObservedPrimitives(parts.primitives, watch)
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
            tracer=parts.tracer,
            room=parts.room,
        )

    def reconfigure(self, parts: GatewayParts) -> None:
        """Other parts from now on. The catalog stays as it is until it is prepared anew."""
        known = self._remembering() if parts.reach == self._parts.reach else []
        self._take(parts)
        for each in self._remembering():
            if not any(each is old for old in known):
                each.renew(self._catalog_name())
        self._sights = Sights(self._snapshot, self._clean_json)
        self._native = None

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def native(self) -> NativeOffers:
        """The offers as plain MCP clients know them; made when they are first asked for."""
        if self._native is None:
            self._native = native_offers(self._snapshot, self._clean_json)
        return self._native

    async def seen_by(self, requester: Requester) -> Snapshot:
        """Everything that this one may know of. To them, the rest does not exist."""
        return await self._sights.seen(requester.rights.visibility)

    async def shown_to(self, requester: Requester) -> Snapshot:
        """What this one is offered: less than they may know of where a policy denies them a tool."""
        policy = policy_for(requester, self._parts.controls)
        return await self._sights.seen(requester.rights.visibility.without_denied(policy, requester.principal))

    async def native_to(self, requester: Requester) -> NativeOffers:
        """What this one may know of, under the names that plain MCP clients use."""
        visibility = requester.rights.visibility
        return self.native if visibility.is_whole else await self._sights.native(visibility)

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
        snapshot = build_snapshot(
            found,
            parts.clean,
            earlier=self._snapshot,
            store=parts.index_store,
            pinned=parts.pinned,
            embedder=parts.embedder,
        )
        if self._remembering():
            _ = snapshot.digest  # takes a while, and is needed when the snapshot is swapped in
        return snapshot

    def adopt(self, snapshot: Snapshot) -> Snapshot:
        """Swaps a snapshot in, in one synchronous step: a request sees all of the old one or all of the new."""
        self._snapshot = snapshot
        self._sights = Sights(snapshot, self._clean_json)
        self._native = None
        for remembering in self._remembering():
            remembering.renew(self._catalog_name())
        return self._snapshot

    def _catalog_name(self) -> str:
        """Equal in gateways that have equal catalogs of the same servers."""
        return f"{self._parts.reach}:{self._snapshot.digest}"

    def _remembering(self) -> list[BrowseStates | ResultCache]:
        """What has to know of another catalog."""
        return [each for each in (self._parts.browse_states, self._parts.controls.cache) if each is not None]

    def weigh(self) -> None:
        """Counts what all definitions would cost a model, which is what cards save. For a thread: it may take long."""
        self._weight.learn(self._snapshot.catalog)

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
            text = self._parts.clean(discover.hydrate(await self.seen_by(requester), args.get("tool_id")))
            await remember_hydrated(self._parts.browse_states, asking.owner, str(args.get("tool_id")))
            return await deliver_own(self._door, asking, text)

        return await self._answer("tool_hydrate", asking, requester, work)

    async def execute(self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            if wants_dry_run(args):
                report = await rehearse(
                    await self.seen_by(requester),
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
            tool = (await self.native_to(requester)).tools.get(name)
            if tool is None:
                raise GatewayError("HYDRATE_FAILED", "no tool has this name", path=name[:240])
            return await self._execute(tool.item.id, args, asking, requester, structured=True)

        return await self._answer("tools/call", asking, requester, work, counted=False, natively=True)

    async def view(self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            allow = partial(self._allow_view, requester, await self.seen_by(requester))
            selector = args.get("selector", {"type": "head"})
            with self._parts.tracer.stage("view"):
                return await view(self._door, asking, args.get("handle"), selector, allow=allow)

        return await self._answer("tool_view", asking, requester, work)

    def _allow_view(self, requester: Requester, seen: Snapshot, kept: Artifact) -> None:
        """A view is subject to the policy of the call that made it: what is denied now cannot be read on."""
        policy = policy_for(requester, self._parts.controls)
        if kept.origin is None or (policy is None and requester.rights.visibility.is_whole):
            return
        origin = kept.origin
        items = [
            item
            for shelf in (seen.tools, seen.resources, seen.prompts)
            for item in shelf.catalog
            if (item.server, item.upstream_name) == (origin.server, origin.tool)
        ]
        tools = [item for item in items if item.kind == "tool"]
        denied = policy is not None and any(policy.judge(item, requester.principal) == "deny" for item in tools)
        if not items or denied:
            raise GatewayError("PERMISSION_DENIED", "the operator's policy does not allow this view")

    async def read_resource(
        self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY
    ) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            seen, upstream = await self.seen_by(requester), self._primitives()
            origin, raw = await offers.read_by_id(seen, upstream, args.get("resource_id"), requester.client)
            return await deliver_result(self._door, asking, origin, raw, may_have_leaves=False)

        return await self._answer("resource_read", asking, requester, work)

    async def get_prompt(
        self, args: Mapping[str, Any], asking: Asking, requester: Requester = ANYBODY
    ) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            seen, given = await self.seen_by(requester), (args.get("prompt_id"), args.get("args"))
            origin, raw = await offers.get_by_id(seen, self._primitives(), *given, requester.client)
            return await deliver_result(self._door, asking, origin, raw, may_have_leaves=False)

        return await self._answer("prompt_get", asking, requester, work)

    async def read_native(self, uri: str, requester: Requester = ANYBODY) -> dict[str, Any]:
        """A resource's contents for a plain client: clean, whole."""
        with self._serving("resources/read"):
            await self.settled()
            raw = await offers.read_by_uri(self._primitives(), uri, requester.client)
            return await self._cleaned(raw, keep=("uri", "blob", "requestState"))

    async def get_prompt_native(
        self, name: str, args: Mapping[str, str], requester: Requester = ANYBODY
    ) -> dict[str, Any]:
        """A rendered prompt for a plain client."""
        with self._serving("prompts/get"):
            await self.settled()
            prompt = (await self.native_to(requester)).prompts.get(name)
            if prompt is None:
                raise GatewayError("PROMPT_NOT_FOUND", "no prompt has this name", path=name[:240])
            raw = await self._primitives().get_prompt(prompt.server, prompt.upstream_name, args, requester.client)
            return await self._cleaned(raw, keep=("uri", "blob", "data", "requestState"))

    async def request_native(
        self, server: str, method: str, params: Mapping[str, Any], requester: Requester = ANYBODY
    ) -> dict[str, Any]:
        """Any other request of a plain client that one server answers."""
        with self._serving(method):
            raw = await self._primitives().request(server, method, params, requester.client)
            return await self._cleaned(raw)

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
            shelf = shelf_of(await self.shown_to(requester))
            look = partial(discover.browse, shelf, args.get("query"), args.get("path"), top_k, self._parts.count)
            # The bundled model answers in a millisecond; one that the operator plugged in may be behind a network.
            with self._parts.tracer.stage("rank"):
                page = look() if self._parts.embedder is None else await to_thread.run_sync(look)
            page = replace(page, cards=await stable_page(self._parts.browse_states, asking.owner, page.cards))
            text = page.text()
            if operation == "tool_browse":
                self._report_page(shelf, text)
            return await deliver_own(self._door, asking, text, meta={BROWSE_META_KEY: page.as_json()})

        return await self._answer(operation, asking, requester, work)

    def _report_page(self, shelf: Shelf, text: str) -> None:
        """What a page of cards saves; nothing is claimed before the definitions that it stands for were counted."""
        whole = self._weight.of(shelf.catalog)
        if whole is not None:
            self._parts.recorder.browsed(whole, self._weight.of_page(text))

    async def _execute(
        self, tool_id: object, args: object, asking: Asking, requester: Requester, *, structured: bool = False
    ) -> dict[str, Any]:
        parts = self._parts
        seen = await self.seen_by(requester)
        done = await execute(
            seen,
            self._upstream,
            tool_id,
            args,
            requester=requester,
            controls=parts.controls,
            tracer=parts.tracer,
        )
        if done.raw.get("resultType") == INPUT_REQUIRED:
            return await self._cleaned(done.raw, keep=("requestState",))
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
        with self._serving(operation) as outcome:
            try:
                await self.settled()
                if counted:  # a call of a tool takes its quota on its own way, after its arguments were checked
                    await take_quota(self._parts.controls, requester, operation)
                return await work()
            except GatewayError as refused:
                error = refused.body
            except UpstreamFailure as failed:
                error = _logged(upstream_error(failed), operation, failed.detail, outcome)
                if natively and failed.rpc_code is not None and not error.retryable:
                    raise
            except StoreError as failed:
                body = ErrorBody("STORE_UNAVAILABLE", "what the gateway keeps cannot be reached now")
                error = _logged(body, operation, str(failed), outcome)
            except Exception as unexpected:
                log.exception("unexpected failure in %s", operation)
                body = ErrorBody("INTERNAL_ERROR", "the gateway failed on this request")
                error = _logged(body, operation, f"{type(unexpected).__name__}", outcome)
            outcome.error = error.error
            return await self._deliver_error(error, asking)

    def _serving(self, operation: str) -> AbstractContextManager[Outcome]:
        return serving(operation, self._parts.recorder, self._parts.tracer)

    async def refuse(self, operation: str, refused: GatewayError, asking: Asking) -> dict[str, Any]:
        """The answer to a request that cannot even be asked: its map, its arguments or its tool's name are wrong."""
        with self._serving(operation) as outcome:
            outcome.error = refused.code
            return await self._deliver_error(refused.body, asking)

    async def decode_arguments(self, claimed: Payload) -> Mapping[str, Any]:
        """Arguments that came as ids, as JSON."""
        encoder, started = await self._parts.encoder_of(claimed.map_id), monotonic()
        decoded = await off_loop(4 * len(claimed.ids), partial(decode_arguments, claimed, encoder))
        self._parts.recorder.detokenized(claimed.map_id, len(claimed.ids), monotonic() - started)
        return decoded

    async def _deliver_error(self, error: ErrorBody, asking: Asking) -> dict[str, Any]:
        text = self._parts.clean(json.dumps(error.as_json(), ensure_ascii=False, separators=(",", ":")))
        meta = {ENVELOPE_META_KEY: ResultEnvelope("error").as_json()}
        return await deliver_own(self._door, asking, text, is_error=True, meta=meta)

    async def settled(self) -> None:
        """Servers on their first start are waited for, and so is a catalog that is being rebuilt; both for a while."""
        await self._parts.upstream.settled()
        if self._parts.caught_up is not None:
            with move_on_after(CATCH_UP_SECONDS):
                await self._parts.caught_up()

    def _primitives(self) -> NativeUpstream:
        if self._observed is None:
            raise GatewayError("RESOURCE_NOT_FOUND", "this gateway has no resources and no prompts")
        return self._observed

    def _clean_json(self, value: Any) -> Any:
        return self._parts.clean.json(strip_everywhere(value)).value  # ids in a definition: nobody judges them

    async def _cleaned(self, raw: Mapping[str, Any], *, keep: tuple[str, ...] = ()) -> dict[str, Any]:
        """A raw result that is no tool's, clean."""
        async with in_room(self._door, raw):
            return await clean_value(raw, self._parts.clean, keep=keep)


def upstream_error(failed: UpstreamFailure) -> ErrorBody:
    """What a client is told of an upstream's failure: nothing that the upstream said."""
    message = failed.message or _UPSTREAM_MESSAGES.get(failed.code, "the server answered with an error")
    return ErrorBody(failed.code, message, details=failed.details)


def _logged(body: ErrorBody, operation: str, detail: str, outcome: Outcome) -> ErrorBody:
    """The error with an id that leads the operator to the detail, which only the log has."""
    log.warning("%s failed, correlation id %s: %s: %s", operation, outcome.correlation_id, body.error, detail)
    return replace(body, details={**body.details, "correlation_id": outcome.correlation_id})
