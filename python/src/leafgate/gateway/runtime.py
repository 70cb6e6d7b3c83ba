"""The gateway as the server and programs use it: every operation takes the client's arguments and a Request.

Each operation of a meta-tool ends in `_answer`: one exit and one report, and no exception goes further. Native reads
raise GatewayError or UpstreamFailure, because MCP has its own errors for them.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from time import monotonic
from typing import Any, Final, TypeVar

from anyio import Event, move_on_after, to_thread

from leafgate.browse.rank import IndexStore
from leafgate.codec.leaf import strip_everywhere
from leafgate.codec.negotiate import decode_arguments
from leafgate.digest.size import total
from leafgate.gateway import browse, native
from leafgate.gateway.approval import hold_approval
from leafgate.gateway.browse import CardPage, DefinitionWeight, Hydrated, remember_hydration, stable_order
from leafgate.gateway.deliver import (
    Delivery,
    check_access,
    check_parts,
    check_question,
    clean_text,
    clean_value,
    deliver_result,
    deliver_text,
    view,
)
from leafgate.gateway.dispatch import OPAQUE, ObservedUpstream
from leafgate.gateway.execute import (
    Controls,
    RawResult,
    check_output,
    execute,
    output_violations,
    policy_for,
    rehearse,
    take_quota,
    wants_dry_run,
)
from leafgate.gateway.flows import WatchedUpstream
from leafgate.gateway.native import Address, NativeOffers, Read, native_offers
from leafgate.gateway.result import BrowseResult, CallResult, Delivered, Failure, InputRequired, Report, TaskCreated
from leafgate.gateway.serving import Outcome, observe
from leafgate.gateway.snapshot import Pinned, Snapshot, Views, build_snapshot, narrow_snapshot
from leafgate.gateway.tasks import (
    INPUT_REQUIRED,
    TASK,
    TaskKeeper,
    TaskState,
    get_state,
    request_task,
    result_of,
    write_task,
)
from leafgate.gateway.workload import run_sized
from leafgate.meaning import Embedder
from leafgate.model.envelope import Origin
from leafgate.model.errors import ErrorBody, GatewayError, StoreError, UpstreamFailure
from leafgate.model.leaf import LeafPayload
from leafgate.model.request import Request
from leafgate.model.rights import Visibility
from leafgate.model.tool import PrimitiveKind, SelectableItem
from leafgate.ports import (
    AuditLog,
    BrowseStates,
    CacheHint,
    FitForLists,
    OfferKind,
    Offers,
    ResultCache,
    TaskRecord,
    Tasks,
    Upstream,
    fit_as_written,
)

log = logging.getLogger("leafgate.gateway")

INTERNAL_ERROR: Final = -32603  # of JSON-RPC
NATIVE_CALL: Final = "tools/call"
CALLS: Final = ("tool_execute", NATIVE_CALL)
CATCH_UP_SECONDS: Final = 10
# The configuration may change what is listed at any time, and only clients that listen are notified.
LONGEST_LIST_TTL_MS: Final = 60_000

_UPSTREAM_MESSAGES: Final[Mapping[str, str]] = {
    "UPSTREAM_TIMEOUT": "the server did not answer in time",
    "UPSTREAM_UNAVAILABLE": "the server is not reachable at the moment",
    "AUTH_FAILED": "the server refused the gateway's credentials",
    "PERMISSION_DENIED": "the server refused this call",
    "RATE_LIMITED": "the server asks to slow down",
}

Value = TypeVar("Value", bound=CallResult)


@dataclass(frozen=True, kw_only=True)
class GatewayParts(Delivery):
    """What a gateway is made of. The composition root fills it."""

    upstream: Upstream
    controls: Controls = field(default_factory=Controls)
    browse_states: BrowseStates | None = None  # None: pages are not stable
    reach: str = ""  # differs where equal tools may have other results: other servers, other credentials
    index_store: IndexStore | None = None
    pinned: Pinned | None = None
    embedder: Embedder | None = None
    server_states: Callable[[], Mapping[str, str]] = dict  # by server: starting, up or down
    audit: AuditLog | None = None
    tasks: Tasks | None = None  # None: no client is given a task; the gateway waits for each
    fit: FitForLists = fit_as_written
    prefix_names: bool = False  # True: listed names have their server's name in front, also where no other has them


class CatalogChanges:
    """Numbers the changes of what servers offer, and says which of them the snapshot has."""

    def __init__(self) -> None:
        self.announced = 0
        self._shown = 0
        self._progress = Event()

    def announce(self) -> None:
        """The offers have changed."""
        self.announced += 1

    def show(self, number: int) -> None:
        """The changes up to this number are in the snapshot."""
        self._shown = number
        self._progress.set()
        self._progress = Event()

    @property
    def are_shown(self) -> bool:
        return self._shown >= self.announced

    async def wait(self) -> None:
        """Return once the snapshot has every change that was announced until now. Later ones are not waited for: a
        server that changes all the time would make every caller wait."""
        number = self.announced
        while self._shown < number:
            await self._progress.wait()


class GatewayRuntime:
    """One gateway. Its catalog is a snapshot that is swapped whole."""

    def __init__(self, parts: GatewayParts) -> None:
        self._native: NativeOffers | None = None
        self._native_ahead: tuple[Snapshot, NativeOffers] | None = None  # of the snapshot that is shown next
        self._use(parts)
        self._show(build_snapshot(Offers(), parts.clean))
        self.catalog_version = 0  # of the snapshot
        self.changes = CatalogChanges()
        self._has_started = False  # whether the servers had their first chance to start, and what they offer is shown
        self._weight = DefinitionWeight(total(parts.count))

    def _use(self, parts: GatewayParts) -> None:
        flows = parts.controls.flows
        self._parts = parts if flows is None else replace(parts, note_read=flows.note_read)
        self._upstream = ObservedUpstream(parts.upstream, parts)
        self._tasks = TaskKeeper(self._upstream, parts.tasks)

    def reconfigure(self, parts: GatewayParts) -> None:
        """Other parts from now on. The catalog stays until it is prepared anew, which the next request waits for."""
        before = self._catalog_caches() if parts.reach == self._parts.reach else []
        self._use(parts)
        self._has_started = False
        for cache in self._catalog_caches():
            if not any(cache is other for other in before):
                cache.renew(self._catalog_name())
        self._show(self.snapshot)

    def _show(self, snapshot: Snapshot) -> None:
        """A snapshot from now on, with no views of it yet."""
        self.snapshot = snapshot
        prepared, self._native_ahead = self._native_ahead, None
        self._native = prepared[1] if prepared is not None and prepared[0] is snapshot else None
        self._visible: Views[Snapshot] = Views()
        self._visible_native: Views[NativeOffers] = Views()
        self._schemas: dict[str, Hydrated] = {}  # of tools that were the best match, by id

    @property
    def native(self) -> NativeOffers:
        """The offers as plain MCP clients know them; made when they are first asked for."""
        if self._native is None:
            self._native = self._name_offers(self.snapshot)
        return self._native

    async def seen_by(self, request: Request) -> Snapshot:
        """Everything that the caller may know of. For them, the rest does not exist."""
        return await self._narrow(request.rights.visibility)

    async def shown_to(self, request: Request, *, with_app_tools: bool = False) -> Snapshot:
        """What the caller is offered: less than they may know of where a policy denies them a tool, and without the
        tools that only the page of an app calls."""
        policy, visibility = policy_for(request, self._parts.controls), request.rights.visibility
        if self.snapshot.has_app_tools and not with_app_tools:
            visibility = replace(visibility, for_models=True)
        if policy is not None:
            visibility = visibility.without_denied(policy, request.principal)
        return await self._narrow(visibility)

    async def native_to(self, request: Request) -> NativeOffers:
        """What the caller may know of, under the names that plain MCP clients use."""
        visibility, views = request.rights.visibility, self._visible_native
        if not visibility.is_whole:
            return await views.get(visibility, partial(self._name_offers, await self._narrow(visibility)))
        if self._native is None:
            snapshot = self.snapshot
            native = await views.get(visibility, partial(self._name_offers, snapshot))
            if self.snapshot is not snapshot:
                return native
            self._native = native
        return self._native

    def _name_offers(self, snapshot: Snapshot) -> NativeOffers:
        clean_for = {server: partial(self._clean_json, server) for server in self._parts.clean_for}
        clean_json = partial(self._clean_json, "")
        return native_offers(snapshot, clean_json, prefix=self._parts.prefix_names, clean_for=clean_for)

    async def _narrow(self, visibility: Visibility) -> Snapshot:
        if visibility.is_whole:
            return self.snapshot
        return await self._visible.get(visibility, partial(narrow_snapshot, self.snapshot, visibility))

    @property
    def breaker_phases(self) -> Mapping[str, str]:
        """The circuit breakers by server, where there are any."""
        breakers = self._parts.controls.dispatcher.breakers
        return {} if breakers is None else breakers.phases()

    def list_hint(self, kinds: Iterable[OfferKind]) -> CacheHint:
        """For how long the lists of these kinds stay as they are; not at all while the catalog is being rebuilt."""
        if not self.changes.are_shown:
            return CacheHint()
        hints = [hint for kind in kinds if (hint := self._parts.upstream.list_hint(kind)) is not None]
        return reduce(CacheHint.narrow, hints, CacheHint(LONGEST_LIST_TTL_MS, is_public=True)) if hints else CacheHint()

    def prepare(self, offers: Offers) -> Snapshot:
        """A new snapshot over these offers. Nothing is shown of it yet, so that a thread can do it."""
        parts = self._parts
        store, pinned, embedder = parts.index_store, parts.pinned, parts.embedder
        wants: dict[str, Any] = {"store": store, "pinned": pinned, "embedder": embedder, "clean_for": parts.clean_for}
        snapshot = build_snapshot(offers, parts.clean, self.snapshot, fit=parts.fit, **wants)
        if self._catalog_caches():
            _ = snapshot.digest  # takes a while, and is needed when the snapshot is swapped in
        if self._native is not None:  # it was asked for, and will be again
            self._native_ahead = snapshot, self._name_offers(snapshot)
        return snapshot

    def adopt(self, snapshot: Snapshot) -> None:
        """Swaps a snapshot in, in one synchronous step: a request sees all of the old one or all of the new."""
        self._show(snapshot)
        self.catalog_version += 1
        for cache in self._catalog_caches():
            cache.renew(self._catalog_name())

    def _catalog_name(self) -> str:
        """Equal in gateways that have equal catalogs of the same servers."""
        return f"{self._parts.reach}:{self.snapshot.digest}"

    def _catalog_caches(self) -> list[BrowseStates | ResultCache]:
        """The ports whose content belongs to one catalog."""
        return [each for each in (self._parts.browse_states, self._parts.controls.cache) if each is not None]

    def weigh(self) -> None:
        """Counts what all definitions would cost a model, which is what cards save. For a thread: it may take long."""
        self._weight.learn(self.snapshot.catalog)

    async def browse(self, args: Mapping[str, Any], request: Request) -> BrowseResult | Failure:
        return await self._browse("tool", args, request)

    async def browse_resources(self, args: Mapping[str, Any], request: Request) -> BrowseResult | Failure:
        return await self._browse("resource", args, request)

    async def browse_prompts(self, args: Mapping[str, Any], request: Request) -> BrowseResult | Failure:
        return await self._browse("prompt", args, request)

    async def hydrate(self, args: Mapping[str, Any], request: Request) -> Delivered | Failure:
        async def work() -> Delivered:
            # Intake cleaned the prose of a schema, but not the values that its server compares with.
            item, body = browse.hydrate(await self.seen_by(request), args.get("tool_id"))
            text = browse.write_compact(self._parts.cleaner(item.server).json(body).value)
            await remember_hydration(self._parts.browse_states, request, str(args.get("tool_id")))
            return Delivered("ok", content=await deliver_text(self._parts, request, text))

        return await self._answer("tool_hydrate", request, work)

    async def execute(self, args: Mapping[str, Any], request: Request) -> CallResult:
        async def work() -> CallResult:
            tool_id, tool_args = args.get("tool_id"), args.get("args", {})
            if not wants_dry_run(args):
                return await self._execute(tool_id, tool_args, request)
            visible, controls = await self.seen_by(request), self._parts.controls
            report = await rehearse(visible, tool_id, tool_args, request=request, controls=controls)
            report = self._parts.cleaner(visible.item(tool_id).server).json(report).value
            return Report("ok", content=await self._write_json(report, request), report=report)

        return await self._answer("tool_execute", request, work)

    async def call_native(self, name: str, args: object, request: Request) -> CallResult:
        """A tool by its public name, as a client calls it that does its own tool search.

        An error that its server answered with, by the protocol, is raised: such a client expects it as one.
        """

        async def work() -> CallResult:
            tool = (await self.native_to(request)).tools.get(name)
            if tool is None:
                raise GatewayError("HYDRATE_FAILED", "no tool has this name", path=name[:240])
            return await self._execute(tool.item.id, args, request, structured=True)

        return await self._answer(NATIVE_CALL, request, work)

    async def view(self, args: Mapping[str, Any], request: Request) -> Delivered:
        async def work() -> Delivered:
            policy = policy_for(request, self._parts.controls)
            is_limited = policy is not None or not request.rights.visibility.is_whole
            visible = await self.seen_by(request) if is_limited else None
            selector = args.get("selector", {"type": "head"})
            with self._parts.tracer.stage("view"):
                handle = args.get("handle")
                return await view(self._parts, request, handle, selector, visible=visible, policy=policy)

        return await self._answer("tool_view", request, work)

    async def read_resource(self, args: Mapping[str, Any], request: Request) -> Delivered:
        return await self._read("resource_read", native.read_resource, args, request)

    async def get_prompt(self, args: Mapping[str, Any], request: Request) -> Delivered:
        return await self._read("prompt_get", native.get_prompt, args, request)

    async def _read(
        self, operation: str, read: Callable[..., Awaitable[Read]], args: Mapping[str, Any], request: Request
    ) -> Delivered:
        async def work() -> Delivered:
            origin, raw = await read(await self.seen_by(request), self._upstream_of(request), args, request.client)
            return await deliver_result(self._parts, request, origin, raw, may_have_leaves=False)

        return await self._answer(operation, request, work)

    async def read_native(self, uri: str, request: Request) -> dict[str, Any]:
        """A resource's contents for a plain client: clean, whole.

        The page of an app goes as it is to a client that shows such pages: it is code for a sandbox, not for a model.
        """
        with self._observe("resources/read", request):
            await self.admit_read("resource_read", request)
            server, own_uri = await self.address_of(uri, request) or (self._upstream.server_of_resource(uri), uri)
            if server is None:
                raise GatewayError("RESOURCE_NOT_FOUND", "no server has this resource", path=uri[:240])
            upstream = self._upstream_of(request)
            raw = await upstream.request(server, "resources/read", {"uri": own_uri}, request.client)
            is_page = native.shows_apps(request.client) and native.is_app_page(own_uri, raw)
            keep = ("uri", "blob", "requestState", *(("text",) if is_page else ()))
            clean = await self._clean_native(server, raw, request, keep=keep)
            if not is_page:
                clean = await self._check_native(clean, Origin(server, own_uri), "contents", request)
            return native.rename_contents(clean, own_uri, uri)

    async def admit_read(self, scope: str, request: Request) -> None:
        """Wait for the catalog, and count a native read as one of the meta-tool that comes nearest."""
        await self.wait_for_catalog()
        await take_quota(self._parts.controls, request, scope)

    async def address_of(self, uri: str, request: Request) -> Address | None:
        """Where an app page or a file of a skill is; None for other resources, for which nothing is worked out."""
        if not uri.startswith(native.APP_SCHEME) and not self.snapshot.offers.skills:
            return None
        return (await self.native_to(request)).address_of(uri)

    async def read_directory(self, uri: str, params: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """The direct children of a directory of a skill."""
        with self._observe("resources/directory/read", request):
            await self.admit_read("resource_read", request)
            offers = await self.native_to(request)
            upstream = self._upstream_of(request)
            server, raw = await native.read_directory(offers, upstream, uri, params, request.client)
            return await self._clean_native(server, raw, request, keep=("uri", "nextCursor"))

    async def get_skill(self, uri: str, request: Request) -> tuple[dict[str, Any], CacheHint]:
        """The entry of one skill, as its server has it now, and its server's hint."""
        with self._observe("skills/get", request):
            await self.admit_read("resource_read", request)
            offers, is_whole = await self.native_to(request), request.rights.visibility.is_whole
            upstream = self._upstream_of(request)
            server, skill, hint = await native.get_skill(offers, upstream, uri, request.client, is_whole=is_whole)
            entry = skill.as_json(self._clean_json(server, skill.frontmatter), partial(offers.write_uri, server))
            return await self.recheck(entry, request), hint

    async def get_prompt_native(self, name: str, args: Mapping[str, str], request: Request) -> dict[str, Any]:
        """A rendered prompt for a plain client."""
        with self._observe("prompts/get", request):
            await self.admit_read("prompt_get", request)
            prompt = (await self.native_to(request)).prompts.get(name)
            if prompt is None:
                raise GatewayError("PROMPT_NOT_FOUND", "no prompt has this name", path=name[:240])
            params = {"name": prompt.upstream_name, "arguments": dict(args)}
            raw = await self._upstream_of(request).request(prompt.server, "prompts/get", params, request.client)
            keep = ("uri", "blob", "data", "requestState")
            clean = await self._clean_native(prompt.server, raw, request, keep=keep)
            return await self._check_native(clean, Origin(prompt.server, prompt.upstream_name), "messages", request)

    async def request_native(
        self, server: str, method: str, params: Mapping[str, Any], request: Request
    ) -> dict[str, Any]:
        """Any other request of a plain client that one server answers."""
        with self._observe(method, request):
            raw = await self._upstream_of(request).request(server, method, params, request.client)
            return await self._clean_native(server, raw, request)

    def _upstream_of(self, request: Request) -> Upstream:
        """The servers as one request may use them: with flow rules, what it sends and reads is followed."""
        flows = self._parts.controls.flows
        return self._upstream if flows is None else WatchedUpstream(self._parts.upstream, self._parts, flows, request)

    async def _browse(self, kind: PrimitiveKind, args: Mapping[str, Any], request: Request) -> BrowseResult | Failure:
        async def work() -> BrowseResult:
            page = await self.find_page(kind, args, request, self._parts.browse_states)
            text = page.text()
            catalog = (await self.shown_to(request)).catalog
            whole = self._weight.weigh_catalog(catalog) if kind == "tool" else None
            if whole is not None:  # nothing is claimed before the definitions that a page stands for were counted
                self._parts.recorder.browsed(whole, self._weight.weigh_page(text))
            return BrowseResult("ok", content=await deliver_text(self._parts, request, text), page=page)

        return await self._answer(f"{kind}_browse", request, work)

    async def find_page(
        self, kind: PrimitiveKind, args: Mapping[str, Any], request: Request, states: BrowseStates | None = None
    ) -> CardPage:
        """The page that answers a query or a path, or GatewayError; in a stable order with `states`."""
        parts, shown, query = self._parts, await self.shown_to(request), args.get("query")
        shelf = {"tool": shown.tools, "resource": shown.resources, "prompt": shown.prompts}[kind]
        top_k = args.get("top_k", browse.DEFAULT_TOP_K)
        rank = partial(browse.browse, shelf, query, args.get("path"), top_k, parts.count)
        # The bundled model answers in a millisecond; one that the operator plugged in may be behind a network.
        try:
            with parts.tracer.stage("rank"):
                page = rank() if parts.embedder is None else await to_thread.run_sync(rank)
        except GatewayError:
            notice = self._describe_servers(request)
            if len(shelf.catalog) or not notice:
                raise
            return CardPage((), "no_match", notice=notice)  # no path exists while all servers are down
        if not page.cards or page.signal == "no_match":
            cards = await stable_order(states, request, page.cards)
            return replace(page, notice=self._describe_servers(request), cards=cards)
        best = page.cards[0].id
        page = replace(page, cards=await stable_order(states, request, page.cards))
        if kind != "tool" or query is None:
            return page
        if best not in self._schemas:
            item = shown.item(best)
            self._schemas[best] = Hydrated(best, parts.cleaner(item.server).json(item.args_schema).value)
        return browse.add_schema(page, self._schemas[best], self._weight.weigh_page)

    def _describe_servers(self, request: Request) -> str:
        return browse.describe_servers(self._parts.server_states(), with_names=request.rights.visibility.is_whole)

    async def _execute(
        self, tool_id: object, args: object, request: Request, *, structured: bool = False
    ) -> CallResult:
        controls, tracer, upstream = self._parts.controls, self._parts.tracer, self._upstream
        visible, find_task = await self.seen_by(request), self._tasks.find_resumed
        result = await execute(
            visible, upstream, tool_id, args, request=request, controls=controls, tracer=tracer, find_task=find_task
        )
        await self._note_read(result, args)
        if result.raw.get("resultType") == TASK:
            taken = await self._tasks.take(
                result.origin,
                result.raw,
                result.request,
                await self._parts.cleaning_for(result.origin.server, request.reader_map),
                is_resumed=result.is_resumed,
                is_native=structured,
            )
            if isinstance(taken, TaskCreated):
                return taken
            result = self._check_task(result, taken) if isinstance(taken, TaskState) else replace(result, raw=taken)
            await self._note_read(result, args)
        if result.raw.get("resultType") == INPUT_REQUIRED:
            raw = result.raw if result.case is None else await hold_approval(result.case, result.raw)
            cleaning = await self._parts.cleaning_for(result.origin.server, request.reader_map)
            questions = await clean_value(raw, cleaning, keep=("requestState", *OPAQUE))
            return InputRequired(await self._check_questions(questions, result.origin.server))
        return await self._deliver(result, visible, request, structured=structured)

    async def _deliver(self, result: RawResult, visible: Snapshot, request: Request, *, structured: bool) -> Delivered:
        parts, raw, provenance = self._parts, result.raw, result.provenance
        find_violations = output_violations(result.item, raw, parts.controls) if structured else None
        if visible.has_app_tools and not result.item.is_for_models and native.shows_apps(request.client):
            parts = replace(parts, budget=sys.maxsize, inline_bytes=sys.maxsize)  # for the page of an app, not a model
        return await deliver_result(
            parts, request, result.origin, raw, provenance=provenance, find_violations=find_violations
        )

    async def _note_read(self, result: RawResult, args: object) -> None:
        flows = self._parts.controls.flows
        if flows is not None:
            await flows.note_read(result.request, result.origin.server, result.raw, own=args)

    # Tasks

    @property
    def keeps_tasks(self) -> bool:
        """Whether clients can be given tasks."""
        return self._parts.tasks is not None

    def _check_task(self, result: RawResult, state: TaskState) -> RawResult:
        """The result of a task that has ended, after the same check as any answer of its tool."""
        raw = result_of(state)
        verdict = check_output(result.item, raw, self._parts.controls)
        check = {} if verdict in (None, "pass") else {"output_check": verdict}
        return replace(result, raw=raw, provenance={**result.provenance, **check})

    async def _find_task(self, id: str, request: Request) -> tuple[TaskRecord, Snapshot]:
        """A task of the caller, and what the caller sees. What is denied now cannot be read: see `view`."""
        await self.wait_for_catalog()
        task, visible = await self._tasks.load(id, request), await self.seen_by(request)
        policy = policy_for(request, self._parts.controls)
        if policy is not None or not request.rights.visibility.is_whole:
            check_access(Origin(task.server, task.tool), request, visible, policy)
        return task, visible

    async def knows_task(self, id: str, request: Request) -> bool:
        """Whether the caller may ask for this task."""
        try:
            await self._find_task(id, request)
        except GatewayError:
            return False
        return True

    async def get_task(self, id: str, request: Request) -> dict[str, Any]:
        """The state of a task as MCP; the result in it is delivered like every result of its tool."""
        with self._observe("tasks/get", request) as outcome:
            task, visible = await self._find_task(id, request)
            state = await get_state(self._upstream_of(request), task, request.client)
            cleaning = await self._parts.cleaning_for(task.server, request.reader_map)
            fields = write_task(state, id, await clean_text(state.message, cleaning))
            if state.status == INPUT_REQUIRED:
                questions = await clean_value({"inputRequests": state.part}, cleaning, keep=OPAQUE)
                return fields | await self._check_questions(questions, task.server)
            if state.status not in ("completed", "failed"):
                return fields
            try:
                result = self._check_task(RawResult(_tool_of(task, visible), {}), state)
                delivered = await self._deliver(result, visible, request, structured=task.is_native)
                outcome.error = "tool_error" if delivered.is_error else None
                return fields | {"result": {"resultType": "complete", **delivered.as_mcp(request.envelope)}}
            except UpstreamFailure as failure:
                error = _log_upstream_failure(failure, "tasks/get", outcome)
                outcome.error = error.error
                if state.status == "completed":
                    failed = await self._fail(error, request)
                    return fields | {"result": {"resultType": "complete", **failed.as_mcp(request.envelope)}}
                code = INTERNAL_ERROR if failure.rpc_code is None else failure.rpc_code
                return fields | {"error": {"code": code, "message": error.message, "data": error.as_json()}}

    async def update_task(self, id: str, answers: Mapping[str, Any], request: Request) -> None:
        """Pass the client's answers to the questions of a task on."""
        with self._observe("tasks/update", request):
            task, _ = await self._find_task(id, request)
            params = {"inputResponses": dict(answers)}
            await request_task(self._upstream_of(request), task, "tasks/update", request.client, **params)

    async def cancel_task(self, id: str, request: Request) -> None:
        """Cancel a task of the caller, also one whose result it may not read any more."""
        with self._observe("tasks/cancel", request):
            await self.wait_for_catalog()
            task = await self._tasks.load(id, request)
            await request_task(self._upstream, task, "tasks/cancel", request.client)

    async def _answer(self, operation: str, request: Request, work: Callable[[], Awaitable[Value]]) -> Value | Failure:
        """The one exit: a result, or an error that says whose fault it is; reported once either way."""
        with self._observe(operation, request) as outcome:
            try:
                await self.wait_for_catalog()
                if operation not in CALLS:  # a call of a tool takes its quota later, after its arguments were checked
                    await take_quota(self._parts.controls, request, operation)
                result = await work()
                if isinstance(result, Delivered) and result.is_error:
                    outcome.error = "tool_error"
                return result
            except GatewayError as refusal:
                error = refusal.body
            except UpstreamFailure as failure:
                error = _log_upstream_failure(failure, operation, outcome)
                if operation == NATIVE_CALL and failure.rpc_code is not None and not error.retryable:
                    raise
            except StoreError as failure:
                body = ErrorBody("STORE_UNAVAILABLE", "what the gateway keeps cannot be reached now")
                error = _log_failure(body, operation, f"{body.error}: {failure}", outcome)
            except Exception as unexpected:
                log.exception("unexpected failure in %s", operation)
                body = ErrorBody("INTERNAL_ERROR", "the gateway failed on this request")
                error = _log_failure(body, operation, f"{body.error}: {type(unexpected).__name__}", outcome)
            outcome.error = error.error
            return await self._fail(error, request)

    def _observe(self, operation: str, request: Request) -> AbstractContextManager[Outcome]:
        parts = self._parts
        return observe(operation, parts.recorder, parts.tracer, request=request, audit=parts.audit)

    async def refuse(self, operation: str, refusal: GatewayError, request: Request) -> Failure:
        """The answer to a request that cannot be made: its map, its arguments or its tool's name are wrong."""
        with self._observe(operation, request) as outcome:
            outcome.error = refusal.code
            return await self._fail(refusal.body, request)

    async def _fail(self, error: ErrorBody, request: Request) -> Failure:
        body = self._parts.clean.json(error.as_json()).value
        clean = ErrorBody(error.error, body["message"], body["path"], body.get("details", {}))
        return Failure("error", content=await self._write_json(body, request), error=clean)

    async def _write_json(self, value: Mapping[str, Any], request: Request) -> tuple[Mapping[str, Any], ...]:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return await deliver_text(self._parts, request, text)

    async def decode_arguments(self, payload: LeafPayload) -> Mapping[str, Any]:
        """Arguments that came as ids, as JSON."""
        encoder, started = await self._parts.encoder_of(payload.map_id), monotonic()
        args = await run_sized(4 * len(payload.ids), partial(decode_arguments, payload, encoder))
        self._parts.recorder.detokenized(payload.map_id, len(payload.ids), monotonic() - started)
        return args

    async def wait_for_catalog(self) -> None:
        """Wait for servers on their first start, and until the catalog has what they offer; both for a while.

        Nothing waits for later changes of servers: only for those of the configuration.
        """
        if self._has_started:
            return
        await self._parts.upstream.wait_for_start()
        with move_on_after(CATCH_UP_SECONDS):
            await self.changes.wait()
        self._has_started = True

    async def recheck(self, value: Any, request: Request) -> Any:
        """What was cleaned for all clients, or joined from clean texts, for the model that reads this answer."""
        return (await self._parts.cleaner_for("", request.reader_map)).recheck(value)

    def _clean_json(self, server: str, value: Any) -> Any:
        stripped = strip_everywhere(value)  # ids in a definition are not checked by anything
        return self._parts.cleaner(server).json(stripped).value

    async def _clean_native(
        self, server: str, raw: Mapping[str, Any], request: Request, *, keep: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """A raw result of a server that is not delivered but passed on whole, clean."""
        cleaning = await self._parts.cleaning_for(server, request.reader_map)
        async with cleaning.share.reserve(raw):
            return await clean_value(raw, cleaning, keep=keep)

    async def _check_native(self, clean: dict[str, Any], origin: Origin, key: str, request: Request) -> dict[str, Any]:
        """A clean read without those parts that are quarantined, and with a notice where one is due."""
        parts = clean.get(key)
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            return clean
        make_part = native.own_message if key == "messages" else native.own_contents
        checked = await check_parts(self._parts, request, origin, parts, make_part=make_part)
        return {**clean, key: [*checked.parts]} if checked.is_flagged else clean

    async def _check_questions(self, result: dict[str, Any], server: str) -> dict[str, Any]:
        """A clean `input_required` result with its questions checked."""
        questions = result.get("inputRequests")
        if not isinstance(questions, dict):
            return result
        checked = {
            key: {**each, "params": await check_question(self._parts, server, each.get("method"), each["params"])}
            if isinstance(each, dict) and isinstance(each.get("params"), dict)
            else each
            for key, each in questions.items()
        }
        return {**result, "inputRequests": checked}


def _tool_of(task: TaskRecord, visible: Snapshot) -> SelectableItem:
    """The tool of a task: by its name, because its definition, and with it its id, may have changed meanwhile."""
    for item in visible.catalog:
        if (item.server, item.upstream_name) == (task.server, task.tool):
            return item
    raise GatewayError("HYDRATE_FAILED", "the tool of this task does not exist any more")


def upstream_error(failure: UpstreamFailure) -> ErrorBody:
    """What a client is shown of an upstream's failure: none of the upstream's own words."""
    message = failure.message or _UPSTREAM_MESSAGES.get(failure.code, "the server answered with an error")
    return ErrorBody(failure.code, message, details=failure.details)


def _log_upstream_failure(failure: UpstreamFailure, operation: str, outcome: Outcome) -> ErrorBody:
    """The error with its correlation id. What the server wrote may be a payload: it is logged at the level debug."""
    log.debug("%s failed, correlation id %s: %s", operation, outcome.correlation_id, failure.detail)
    return _log_failure(upstream_error(failure), operation, failure.describe(), outcome)


def _log_failure(body: ErrorBody, operation: str, detail: str, outcome: Outcome) -> ErrorBody:
    """The error with an id that leads the operator to the detail, which only the log has."""
    log.warning("%s failed, correlation id %s: %s", operation, outcome.correlation_id, detail)
    return replace(body, details={**body.details, "correlation_id": outcome.correlation_id})
