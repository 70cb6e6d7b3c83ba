"""ProxyRuntime: a whole gateway inside a program. In: an upstream and switches. Out: cards, schemas, results as values.

Chooses the adapters as cli/compose does for a configuration. What it is asked goes the way of every client's request;
the gateway's errors are raised as GatewayError.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, Self, overload

from anyio import to_thread

from leafgate.admission.breaker import BreakerPolicy
from leafgate.admission.cacheable import CachePolicy
from leafgate.admission.capability import CapabilityPolicy
from leafgate.admission.retry import RetryPolicy
from leafgate.browse.meaning import Embedder
from leafgate.browse.rank import Router
from leafgate.catalog.catalog import Catalog
from leafgate.catalog.intake import IntakeFlag, IntakeReport
from leafgate.embed.answers import Cards, Delivered, cards, delivered, report
from leafgate.embed.cards import count_exactly, shared_maps
from leafgate.firewall.cleaner import Cleaner, make_cleaner
from leafgate.firewall.screen import DEFAULT_BUDGET
from leafgate.gateway.discover import DEFAULT_TOP_K
from leafgate.gateway.dispatch import Breakers, Dispatcher
from leafgate.gateway.execute import ANYBODY, Ask, Controls, Requester, cannot_ask
from leafgate.gateway.runtime import GatewayParts, GatewayRuntime, upstream_error
from leafgate.model.call import Asking
from leafgate.model.errors import CatalogError, GatewayError, UpstreamFailure
from leafgate.model.mode import ExposureMode
from leafgate.model.tool import HydrationResult
from leafgate.ports import ArtifactStore, NativeUpstream, Offers, Quotas, ResultCache, ToolListing, Upstream
from leafgate.storage.browse_states import MemoryBrowseStates
from leafgate.storage.map_files import CARD_MAP
from leafgate.storage.memory import MemoryArtifactStore
from leafgate.telemetry.metrics import Metrics
from leafgate.version import __version__

log = logging.getLogger("leafgate.embed")

WHOLE: Final[Mapping[str, Any]] = {"type": "head"}
# Handing a cache over is the operator's word that servers' claims of being read-only may be trusted for it.
DECLARED_READ_ONLY: Final = CachePolicy(read_only=True)


class ProxyRuntime:
    """A gateway for programs and for the servers of embed/servers. All controls are off unless they are given."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        mode: ExposureMode = ExposureMode.GATEWAY,
        primitives: NativeUpstream | None = None,
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
    ) -> None:
        maps = shared_maps()
        maps.load(CARD_MAP)  # a missing or broken map ends the start, and no call
        self.mode = mode
        self.map_digest = None if map is None else maps.load(map).map.digest
        self.primitives = primitives
        self.metrics = Metrics(lambda: datetime.now(UTC).isoformat(timespec="seconds"))
        self._upstream = upstream
        self._on_invalid = on_invalid
        self._asking = Asking(map_digest=self.map_digest)
        self._requester = ANYBODY
        controls = Controls(
            policy=policy,
            tolerant_args=tolerant_args,
            strict_output=strict_output,
            quotas=rate_limits,
            cache=cache,
            cache_policy=cache_policy,
            dispatcher=Dispatcher(retry or RetryPolicy(), None if breaker is None else Breakers(breaker)),
        )
        self.gateway = GatewayRuntime(
            GatewayParts(
                upstream=upstream,
                primitives=primitives,
                artifacts=MemoryArtifactStore() if artifacts is None else artifacts,
                recorder=self.metrics,
                clean=make_cleaner() if clean is None else clean,
                count=count_exactly,
                encoder_of=maps.prepared,
                controls=controls,
                budget=budget,
                browse_states=MemoryBrowseStates() if cache_stable else None,
                embedder=embedder,
            )
        )

    # The catalog

    async def refresh_catalog(self) -> IntakeReport:
        """Lists everything and swaps the new catalog in, whole; if anything cannot be listed, the old one stays."""
        await self._upstream.settled()
        try:
            found = await self._offers()
        except UpstreamFailure as failed:
            log.warning("the catalog cannot be refreshed, the old one stays: %s", failed)
            body = upstream_error(failed)
            raise GatewayError(body.error, body.message, details=body.details) from failed
        report = self._register(found)
        await to_thread.run_sync(self.gateway.weigh)
        return report

    def register_tool_defs_sync(self, tools: Sequence[Mapping[str, Any]], *, server: str = "") -> IntakeReport:
        """These tools instead of those that the upstream lists; calls go to the upstream. Nothing is awaited."""
        known = self.gateway.snapshot.offers
        listed = [ToolListing(server, tool) for tool in tools if isinstance(tool, Mapping)]
        return self._register(Offers(listed, known.resources, known.templates, known.prompts))

    @property
    def last_refresh_report(self) -> IntakeReport:
        """What the present catalog was made of: the ids it took, and what was wrong with the definitions it got."""
        snapshot = self.gateway.snapshot
        shelves = (snapshot.tools, snapshot.resources, snapshot.prompts)
        return IntakeReport(tuple(item.id for shelf in shelves for item in shelf.catalog), snapshot.flags)

    @property
    def catalog(self) -> Catalog:
        """The tools there are."""
        return self.gateway.snapshot.catalog

    @property
    def router(self) -> Router:
        """Ranks the tools there are. Belongs to the present catalog: a refresh makes another."""
        return self.gateway.snapshot.tools.router

    # What a model does

    async def browse(self, query: str | None = None, *, path: str | None = None, top_k: int = DEFAULT_TOP_K) -> Cards:
        """Cards of tools, for exactly one of a query and a path."""
        return cards(await self.gateway.browse(_browse_args(query, path, top_k), self._asking, self._requester))

    async def hydrate(self, tool_id: str) -> HydrationResult:
        """A tool with its schemas, exact as its server compares with them."""
        report(await self.gateway.hydrate({"tool_id": tool_id}, self._asking, self._requester))
        try:
            return self.catalog.hydrate(tool_id)
        except CatalogError as error:  # it went while the request was under way
            raise GatewayError("HYDRATE_FAILED", "no tool has this id any more", path=tool_id) from error

    @overload
    async def execute(
        self, tool_id: str, args: Mapping[str, Any] | None = None, *, dry_run: Literal[False] = False
    ) -> Delivered: ...

    @overload
    async def execute(
        self, tool_id: str, args: Mapping[str, Any] | None = None, *, dry_run: Literal[True]
    ) -> dict[str, Any]: ...

    async def execute(
        self, tool_id: str, args: Mapping[str, Any] | None = None, *, dry_run: bool = False
    ) -> Delivered | dict[str, Any]:
        """A tool's result, delivered; of a dry run its report (spec 3.6)."""
        asked = {"tool_id": tool_id, "args": {} if args is None else args, "dry_run": dry_run}
        result = await self.gateway.execute(asked, self._asking, self._requester)
        return report(result) if dry_run else delivered(result)

    async def view(self, handle: str, selector: Mapping[str, Any] = WHOLE) -> Delivered:
        """A part of something withheld (spec 4.3)."""
        asked = {"handle": handle, "selector": selector}
        return delivered(await self.gateway.view(asked, self._asking, self._requester))

    async def browse_resources(
        self, query: str | None = None, *, path: str | None = None, top_k: int = DEFAULT_TOP_K
    ) -> Cards:
        asked = _browse_args(query, path, top_k)
        return cards(await self.gateway.browse_resources(asked, self._asking, self._requester))

    async def read_resource(self, resource_id: str) -> Delivered:
        asked = {"resource_id": resource_id}
        return delivered(await self.gateway.read_resource(asked, self._asking, self._requester))

    async def browse_prompts(
        self, query: str | None = None, *, path: str | None = None, top_k: int = DEFAULT_TOP_K
    ) -> Cards:
        asked = _browse_args(query, path, top_k)
        return cards(await self.gateway.browse_prompts(asked, self._asking, self._requester))

    async def get_prompt(self, prompt_id: str, args: Mapping[str, str] | None = None) -> Delivered:
        asked = {"prompt_id": prompt_id, "args": {} if args is None else args}
        return delivered(await self.gateway.get_prompt(asked, self._asking, self._requester))

    # For whom

    def acting_as(self, owner: str, *, principal: str | None = None, ask: Ask = cannot_ask) -> Self:
        """The same gateway for another of a program's users: with handles, quotas and stable pages of its own.

        `principal` is who the policy's rules know; `ask` puts a question to a person where a rule wants approval.
        """
        other = copy.copy(self)
        other._asking = Asking(owner, self.map_digest)
        other._requester = Requester(owner=owner, principal=principal, ask=ask)
        return other

    def get_shim_metrics(self) -> dict[str, Any]:
        """How many text blocks came with leaves, and how many were tokenized here; in all and by map."""
        return self.metrics.shim_metrics()

    def status(self) -> dict[str, Any]:
        """What an operator wants to know, as JSON."""
        snapshot = self.gateway.snapshot
        return {
            "version": __version__,
            "tools": len(snapshot.catalog),
            "flagged": [flag.as_json() for flag in snapshot.flags],
            **self.metrics.as_json(),
        }

    async def _offers(self) -> Offers:
        """Tools come last: nothing is awaited between their list, by which calls are routed, and the new catalog."""
        if self.primitives is None:
            return Offers(await self._upstream.list_tools())
        resources = await self.primitives.list_resources()
        templates = await self.primitives.list_resource_templates()
        prompts = await self.primitives.list_prompts()
        return Offers(await self._upstream.list_tools(), resources, templates, prompts)

    def _register(self, found: Offers) -> IntakeReport:
        """One synchronous step: a request sees all of the old catalog or all of the new."""
        snapshot = self.gateway.prepare(found)
        if self._on_invalid == "raise":
            _refuse_bad_schemas(snapshot.flags)
        self.gateway.adopt(snapshot)
        return self.last_refresh_report


def _browse_args(query: str | None, path: str | None, top_k: int) -> dict[str, Any]:
    given = {"query": query, "path": path}
    return {name: value for name, value in given.items() if value is not None} | {"top_k": top_k}


def _refuse_bad_schemas(flags: Sequence[IntakeFlag]) -> None:
    """A reference that leaves a schema is not followed, and spoils nothing else of it."""
    for flag in flags:
        if flag.code.startswith(("input-schema-", "output-schema-")) and not flag.code.endswith("-remote-ref"):
            raise CatalogError(f"{flag.name!r} has a schema that cannot be used: {flag.code}: {flag.message}")
