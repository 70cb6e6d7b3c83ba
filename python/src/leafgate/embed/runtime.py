"""ProxyRuntime: a whole gateway inside a program, which returns cards, schemas and results as values; and its servers.

It chooses the adapters, as compose does for a configuration. Its calls take the same path as the requests of clients;
the errors of the gateway are raised as GatewayError.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Literal, Self, overload
from weakref import finalize

from anyio import to_thread
from anyio.lowlevel import checkpoint

from leafgate.admission.flows import FlowPolicy
from leafgate.admission.policy import CachePolicy
from leafgate.admission.retry import BreakerPolicy, RetryPolicy
from leafgate.browse.rank import Router, Signal
from leafgate.catalog.catalog import Catalog
from leafgate.catalog.intake import IntakeReport
from leafgate.clean.cleaner import Cleaner
from leafgate.digest.screen import DEFAULT_BUDGET
from leafgate.embed import count_exactly, shared_maps
from leafgate.embed.upstreams import PrimitiveSource, ProgramUpstream, ToolSource
from leafgate.gateway.browse import DEFAULT_TOP_K
from leafgate.gateway.clean_process import CleanProcesses
from leafgate.gateway.deliver import SUMMARY_CHARS
from leafgate.gateway.dispatch import Breakers, Dispatcher
from leafgate.gateway.execute import Controls
from leafgate.gateway.flows import Flows
from leafgate.gateway.result import BrowseResult, CallResult, Delivered, Failure, Report
from leafgate.gateway.runtime import GatewayParts, GatewayRuntime, upstream_error
from leafgate.maps.files import CARD_MAP
from leafgate.meaning import Embedder
from leafgate.model.errors import CatalogError, ConfigError, GatewayError, UpstreamFailure
from leafgate.model.request import Ask, Request, cannot_ask
from leafgate.model.rights import CapabilityPolicy, Quotas
from leafgate.model.tool import ChoiceCard, ExposureMode, HydrationResult
from leafgate.ports import ArtifactStore, Offers, ResultCache, ToolListing
from leafgate.server.definitions import fit_for_lists
from leafgate.server.front import Front, MapOffer
from leafgate.server.http import Web, bind, serve_http
from leafgate.server.mcp_server import GatewayServer, Surface
from leafgate.server.routes import operator_routes
from leafgate.server.transports import serve_stdio, stop_signals
from leafgate.state.memory import MemoryArtifactStore, MemoryBrowseStates, MemoryFlowRecords
from leafgate.telemetry.metrics import Metrics
from leafgate.version import __version__

log = logging.getLogger("leafgate.embed")

Args = Mapping[str, Any] | None

WHOLE: Final[Mapping[str, Any]] = {"type": "head"}
# A program that passes a cache trusts the servers' read-only hints for it.
DECLARED_READ_ONLY: Final = CachePolicy(read_only=True)


class Cards(list[ChoiceCard]):
    """A page of cards: how certain the ranking is (`signal`, `confidence`), and its text for a model (`text`)."""

    def __init__(self, cards: Iterable[ChoiceCard], signal: Signal, confidence: float | None, text: str) -> None:
        super().__init__(cards)
        self.signal = signal
        self.confidence = confidence
        self.text = text


class ProxyRuntime:
    """A gateway for programs and for the servers below. All controls are off by default."""

    def __init__(
        self,
        upstream: ToolSource,
        *,
        mode: ExposureMode = ExposureMode.GATEWAY,
        primitives: PrimitiveSource | None = None,
        cache_stable: bool = False,
        tolerant_args: bool = False,
        strict_output: bool = False,
        on_invalid: Literal["flag", "raise"] = "flag",
        policy: CapabilityPolicy | None = None,
        retry: RetryPolicy | None = None,
        breaker: BreakerPolicy | None = None,
        cache: ResultCache | None = None,
        cache_policy: CachePolicy = DECLARED_READ_ONLY,
        rate_limits: Quotas | None = None,
        budget: int = DEFAULT_BUDGET,
        map: str | None = None,
        clean: Cleaner | None = None,
        artifacts: ArtifactStore | None = None,
        embedder: Embedder | None = None,
        flows: FlowPolicy | None = None,
        cleaning_seconds: float | None = None,
    ) -> None:
        """`cleaning_seconds` of CPU time are spent on one large text at most, in a child process for each named server
        (not on Windows): `sys.executable` must be a Python that can import leafgate. None: no limit, no process."""
        maps = shared_maps()
        maps.load(CARD_MAP)  # a missing or broken map fails here, not in a call
        self.mode = mode
        self.map_digest = None if map is None else maps.load(map).map.digest
        self.primitives = primitives
        self.metrics = Metrics(lambda: datetime.now(UTC).isoformat(timespec="seconds"))
        self.upstream = ProgramUpstream(upstream, primitives)
        self._on_invalid = on_invalid
        self._request = Request(map_digest=self.map_digest)
        controls = Controls(
            policy=policy,
            tolerant_args=tolerant_args,
            strict_output=strict_output,
            quotas=rate_limits,
            cache=cache,
            cache_policy=cache_policy,
            dispatcher=Dispatcher(retry or RetryPolicy(), None if breaker is None else Breakers(breaker)),
            flows=None if flows is None else Flows(flows, MemoryFlowRecords(), (clean or Cleaner()).redact),
        )
        processes = None if cleaning_seconds is None else CleanProcesses(cleaning_seconds)
        if processes is not None:
            finalize(self, processes.close)
        self.gateway = GatewayRuntime(
            GatewayParts(
                upstream=self.upstream,
                artifacts=MemoryArtifactStore() if artifacts is None else artifacts,
                recorder=self.metrics,
                clean=Cleaner() if clean is None else clean,
                count=count_exactly,
                encoder_of=maps.prepare,
                controls=controls,
                budget=budget,
                browse_states=MemoryBrowseStates() if cache_stable else None,
                embedder=embedder,
                fit=fit_for_lists,
                clean_processes=processes,
            )
        )

    # The catalog

    async def refresh_catalog(self) -> IntakeReport:
        """List everything and replace the catalog as a whole; if a listing fails, the old catalog stays."""
        await self.upstream.wait_for_start()
        try:
            offers = await self.upstream.list_offers()
        except UpstreamFailure as failed:
            log.warning("the catalog cannot be refreshed, the old one stays: %s", failed)
            body = upstream_error(failed)
            raise GatewayError(body.error, body.message, details=body.details) from failed
        report = self._register(offers)
        await to_thread.run_sync(self.gateway.weigh)
        return report

    def register_tool_defs_sync(self, tools: Sequence[Mapping[str, Any]], *, server: str = "") -> IntakeReport:
        """Replace the tools that the upstream lists; calls still go to the upstream. Nothing is awaited."""
        offers = self.gateway.snapshot.offers
        listings = [ToolListing(server, tool) for tool in tools if isinstance(tool, Mapping)]
        return self._register(Offers(listings, offers.resources, offers.templates, offers.prompts))

    @property
    def last_refresh_report(self) -> IntakeReport:
        """The ids of the current catalog, and the problems of the definitions that it was built from."""
        snapshot = self.gateway.snapshot
        shelves = (snapshot.tools, snapshot.resources, snapshot.prompts)
        return IntakeReport(tuple(item.id for shelf in shelves for item in shelf.catalog), snapshot.flags)

    @property
    def catalog(self) -> Catalog:
        """The current tools."""
        return self.gateway.snapshot.catalog

    @property
    def router(self) -> Router:
        """Ranks the tools of the current catalog. A refresh creates a new one."""
        return self.gateway.snapshot.tools.router

    # Operations of a model

    async def browse(self, query: str | None = None, *, path: str | None = None, top_k: int = DEFAULT_TOP_K) -> Cards:
        """Cards of tools, for exactly one of a query and a path."""
        return await self._browse(self.gateway.browse, query, path, top_k)

    async def hydrate(self, tool_id: str) -> HydrationResult:
        """A tool with its schemas, exactly as its server validates with them."""
        _to_delivered(await self.gateway.hydrate({"tool_id": tool_id}, self._request))
        try:
            return self.catalog.hydrate(tool_id)
        except CatalogError as error:  # it was removed during the request
            raise GatewayError("HYDRATE_FAILED", "no tool has this id any more", path=tool_id) from error

    @overload
    async def execute(self, tool_id: str, args: Args = None, *, dry_run: Literal[False] = False) -> Delivered: ...

    @overload
    async def execute(self, tool_id: str, args: Args = None, *, dry_run: Literal[True]) -> dict[str, Any]: ...

    async def execute(self, tool_id: str, args: Args = None, *, dry_run: bool = False) -> Delivered | dict[str, Any]:
        """The result of a tool, or the report of a dry run (spec 3.6)."""
        call = {"tool_id": tool_id, "args": {} if args is None else args, "dry_run": dry_run}
        answer = _to_delivered(await self.gateway.execute(call, self._request))
        return dict(answer.report) if isinstance(answer, Report) else answer

    async def view(self, handle: str, selector: Mapping[str, Any] = WHOLE) -> Delivered:
        """A part of a withheld result (spec 4.3)."""
        return _to_delivered(await self.gateway.view({"handle": handle, "selector": selector}, self._request))

    async def browse_resources(
        self, query: str | None = None, *, path: str | None = None, top_k: int = DEFAULT_TOP_K
    ) -> Cards:
        return await self._browse(self.gateway.browse_resources, query, path, top_k)

    async def read_resource(self, resource_id: str) -> Delivered:
        return _to_delivered(await self.gateway.read_resource({"resource_id": resource_id}, self._request))

    async def browse_prompts(
        self, query: str | None = None, *, path: str | None = None, top_k: int = DEFAULT_TOP_K
    ) -> Cards:
        return await self._browse(self.gateway.browse_prompts, query, path, top_k)

    async def get_prompt(self, prompt_id: str, args: Mapping[str, str] | None = None) -> Delivered:
        prompt = {"prompt_id": prompt_id, "args": {} if args is None else args}
        return _to_delivered(await self.gateway.get_prompt(prompt, self._request))

    # Users, metrics and status

    def acting_as(self, owner: str, *, principal: str | None = None, ask: Ask = cannot_ask) -> Self:
        """The same gateway for another user of the program, with separate handles, quotas and stable pages. `principal`
        is matched by the rules of the policy; `ask` asks a person where a rule requires approval."""
        other = copy.copy(self)
        other._request = Request(owner, principal, map_digest=self.map_digest, ask=ask)
        return other

    def get_shim_metrics(self) -> dict[str, Any]:
        """How many text blocks had leaves, and how many were tokenized here; in total and by map."""
        return self.metrics.shim_metrics()

    def status(self) -> dict[str, Any]:
        """The status for operators, as JSON."""
        snapshot = self.gateway.snapshot
        flagged = [flag.as_json() for flag in snapshot.flags]
        return {"version": __version__, "tools": len(snapshot.catalog), "flagged": flagged, **self.metrics.as_json()}

    def _register(self, offers: Offers) -> IntakeReport:
        """Replace the catalog in one synchronous step: a request sees either the old one or the new one."""
        snapshot = self.gateway.prepare(offers)
        for flag in snapshot.flags if self._on_invalid == "raise" else ():
            # A remote reference is not followed, and the schema stays usable.
            if flag.code.startswith(("input-schema-", "output-schema-")) and not flag.code.endswith("-remote-ref"):
                raise CatalogError(f"{flag.name!r} has a schema that cannot be used: {flag.code}: {flag.message}")
        self.gateway.adopt(snapshot)
        return self.last_refresh_report

    async def _browse(
        self,
        browse: Callable[[Mapping[str, Any], Request], Awaitable[BrowseResult | Failure]],
        query: str | None,
        path: str | None,
        top_k: int,
    ) -> Cards:
        places = {name: value for name, value in (("query", query), ("path", path)) if value is not None}
        result = await browse({**places, "top_k": top_k}, self._request)
        if isinstance(result, Failure):
            raise result.as_exception()
        return Cards(result.page.cards, result.page.signal, result.page.confidence, result.text)


def _to_delivered(result: CallResult) -> Delivered:
    """A result with a summary. Raises an error of the gateway; an error of the tool is a result."""
    if isinstance(result, Failure):
        raise result.as_exception()
    assert isinstance(result, Delivered)  # only clients that declared support get input requests
    return result if result.summary else replace(result, summary=result.text[:SUMMARY_CHARS])


class _EmbeddedServer(GatewayServer):
    """An MCP server over a ProxyRuntime, for any transport of the SDK."""

    modes: ClassVar[tuple[ExposureMode, ...]]
    other: ClassVar[str]

    def __init__(
        self,
        runtime: ProxyRuntime,
        *,
        name: str = "leafgate",
        hydrate: bool = True,
        url_safe_names: bool = False,
    ) -> None:
        if runtime.mode not in self.modes:
            raise ConfigError(f"a runtime in mode {runtime.mode.value} is served by {self.other}")
        self._program = runtime
        digests = {entry.digest for entry in shared_maps().list() if entry.digest is not None}
        default = runtime.map_digest
        offer = MapOffer(default, digests | ({default} if default else set()), shared_maps().prepare)
        super().__init__(
            runtime.gateway,
            surface=Surface(runtime.mode, lambda: [*runtime.catalog.by_namespace()], hydrate),
            front=Front(maps=offer),
            status=runtime.status,
            primitives=None if runtime.primitives is None else runtime.upstream,
            name=name,
        )

    async def run_stdio(self) -> None:
        """Serve one client on standard input and output until it disconnects, or until a signal."""
        async with stop_signals() as stopping:
            await serve_stdio(self, stopping)

    async def run_http(self, host: str = "127.0.0.1", port: int = 8808) -> None:
        """Serve clients over Streamable HTTP at /mcp, on a loopback address, until a signal."""
        web = Web(operator_routes(self._program.status), front=self.front)
        async with stop_signals() as stopping:
            await serve_http(self, bind(host, port), web, checkpoint, stopping)


class McpGatewayServer(_EmbeddedServer):
    """A few meta-tools instead of all tools: ExposureMode.GATEWAY."""

    modes = (ExposureMode.GATEWAY,)
    other = "McpProxyServer"


class McpProxyServer(_EmbeddedServer):
    """All tools: without schemas (ExposureMode.TRANSPARENT), or as their servers list them (PASSTHROUGH)."""

    modes = (ExposureMode.TRANSPARENT, ExposureMode.PASSTHROUGH)
    other = "McpGatewayServer"
