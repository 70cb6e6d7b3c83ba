"""The composition root: chooses the adapters and builds a gateway from a Config. Only this file knows every room."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

import anyio
from anyio import to_thread
from starlette.types import Scope

from leafgate.catalog.twins import list_pairs
from leafgate.compose.plan import Plan, make_plan, waiting_for_restart
from leafgate.compose.policies import make_embedder, refuse_to_open
from leafgate.compose.secrets import secrets_in, secrets_of, secrets_of_url
from leafgate.compose.servers import load_saved_offers, with_saved
from leafgate.config.models import Config
from leafgate.gateway.clean_process import CleanProcesses
from leafgate.gateway.instructions import InstructionCheck
from leafgate.gateway.leaf_checks import LeafChecks
from leafgate.gateway.native import APP_TYPE, APPS
from leafgate.gateway.refresh import DefinitionScanner, Refresher
from leafgate.gateway.runtime import GatewayParts, GatewayRuntime
from leafgate.gateway.serving import UNTRACED
from leafgate.gateway.workload import Workload
from leafgate.maps.shelf import CurrentMaps
from leafgate.model.errors import ConfigError, StoreError
from leafgate.model.tool import META_TOOLS, ExposureMode
from leafgate.ports import TASKS, AuditLog, Offers
from leafgate.server.auth.layer import ResourceMetadata, ignore_refusal, metadata_routes
from leafgate.server.definitions import fit_for_lists
from leafgate.server.front import Front
from leafgate.server.host_guard import host_rules
from leafgate.server.http import Web
from leafgate.server.mcp_server import GatewayServer, Surface
from leafgate.server.routes import (
    approval_routes,
    card_routes,
    catalog_routes,
    map_routes,
    operator_routes,
    pending_approvals,
)
from leafgate.server.session_events import MemoryEvents
from leafgate.state.routing import IndexFiles, default_directory
from leafgate.telemetry.log import hide_secrets, log_queues, redacted_line
from leafgate.telemetry.metrics import CountSync, Metrics
from leafgate.telemetry.prometheus import PrometheusPage, Standing
from leafgate.telemetry.tracing import make_tracing
from leafgate.upstream.fleet import Fleet
from leafgate.version import __version__

log = logging.getLogger("leafgate.config")

CALM_SECONDS: Final = 0.05


class Gateway:
    """A gateway with all its parts: those that stay for its lifetime, and those that its configuration decides."""

    def __init__(self, plan: Plan, audit: AuditLog | None = None) -> None:
        """The caller closes `audit`, after the gateway has stopped."""
        self._plan = plan
        self._audit = audit
        self._maps = CurrentMaps(plan.maps)
        report_refusal = ignore_refusal if audit is None else audit.refused
        own_tools, envelope = META_TOOLS[plan.config.mode], plan.config.envelope
        self.front = Front(plan.access, plan.offer, own_tools, envelope, report_refusal)
        self._started_with = plan.config
        config = plan.config
        _hide_secrets(config)
        self.metrics = Metrics(lambda: datetime.now(UTC).isoformat(timespec="seconds"))
        self.tracing = None if config.tracing is None else make_tracing(**dict(config.tracing))
        self._checks: LeafChecks | None = None
        self._workload = Workload()
        self._clean_processes = CleanProcesses(config.cleaning_seconds)
        self._events = MemoryEvents()
        # A host can show the pages of apps only if the tools of servers are listed as they are.
        apps = {APPS: {"mimeTypes": [APP_TYPE]}} if config.mode is ExposureMode.PASSTHROUGH else {}
        self.fleet = Fleet(
            config.servers,
            intake_of=self._workload.share_of,
            extensions={TASKS: {}, **apps},
            start_seconds=config.startup_wait_seconds,
        )
        self._tasks = plan.state.tasks()
        self._artifacts = plan.state.artifacts(self.front.artifact_quota_of)
        self._browse_states = plan.session_state.browse_states() if config.cache_stable else None
        settings = plan.controls.approvals
        self._approvals = settings.store if settings.has_operators else None  # that operators answer
        shared = plan.state.shared_counts()
        self._count_sync = None if shared is None else CountSync(self.metrics, shared)
        self._index_store = IndexFiles(default_directory())
        self._embedder = make_embedder(config.embedder)
        self.runtime = GatewayRuntime(self._parts(plan))
        self.watch = DefinitionScanner(config.on_risk == "hold", self._clean_processes)
        self._saved = Offers() if config.catalog is None else load_saved_offers(config.catalog)
        self.refresher = Refresher(self.runtime, self._list_offers, self.watch)
        self.fleet.on_change(self.refresher.poke)
        self._announcements = _Announcements()
        if config.catalog is not None:
            self.refresher.poke()

    @property
    def config(self) -> Config:
        return self._plan.config

    def prepare(self, config: Config) -> Plan:
        """Make the plan of other settings, or raise. Changes nothing, so that a thread can do it."""
        refuse_to_open(config.auth, bound=self._started_with.host, insecure_bind=config.insecure_bind)
        return make_plan(config, self._plan)

    def adopt(self, plan: Plan) -> list[str]:
        """Switch to other settings in one step; return a notice of those that need a restart."""
        _hide_secrets(plan.config)
        self._plan = plan
        self._maps.replace(plan.maps)
        self.front.adopt(plan.access, plan.offer, plan.config.envelope)
        self.watch.hold = plan.config.on_risk == "hold"
        self._clean_processes.seconds = plan.config.cleaning_seconds
        self.runtime.reconfigure(self._parts(plan))
        self.fleet.reconcile(plan.config.servers)
        waiting = waiting_for_restart(plan.config, self._started_with)
        return [f"needs a restart to take effect: {', '.join(waiting)}"] if waiting else []

    def _parts(self, plan: Plan) -> GatewayParts:
        config = plan.config
        return GatewayParts(
            upstream=self.fleet,
            artifacts=self._artifacts,
            recorder=self.metrics,
            clean=plan.clean,
            clean_for=plan.clean_for,
            count=self._maps.count,
            encoder_of=plan.maps.prepare,
            budget=config.budget,
            checks=self._make_checks(config),
            instructions=InstructionCheck(config.instructions, config.instructions_by_server, config.view_quarantined),
            controls=plan.controls,
            index_store=self._index_store,
            embedder=self._embedder,
            pinned=plan.pinned,
            browse_states=self._browse_states,
            reach=_reach(config),
            tracer=UNTRACED if self.tracing is None else self.tracing,
            workload=self._workload,
            clean_processes=self._clean_processes,
            server_states=self.fleet.states,
            audit=self._audit,
            tasks=self._tasks,
            fit=fit_for_lists,
            prefix_names=config.prefix_names,
        )

    def _make_checks(self, config: Config) -> LeafChecks:
        """The checks of leaves by these settings; a server that has sent wrong ids stays one that has."""
        checks = LeafChecks(config.check, config.check_by_server, config.check_share)
        if self._checks is not None:
            checks.remember(self._checks)
        self._checks = checks
        return checks

    async def _list_offers(self) -> Offers:
        return with_saved(await self.fleet.list_offers(), self._saved)

    def mcp_server(self) -> GatewayServer:
        """The gateway as an MCP server, for any transport."""
        config = self.config

        def server_names() -> Sequence[str]:
            saved = (listing.server for listing in self._saved.tools if listing.server)
            return [*dict.fromkeys([*(member.spec.name for member in self.fleet.members()), *saved])]

        surface = Surface(config.mode, server_names, config.hydrate)
        return GatewayServer(self.runtime, surface=surface, front=self.front, status=self.status, primitives=self.fleet)

    def web(self) -> Web:
        """The routes beside the MCP endpoint, and the settings of the HTTP layers."""
        config, front, path = self.config, self.front, self._plan.path
        asks_for_tokens = front.asks_for_tokens

        def metadata() -> ResourceMetadata | None:
            return front.present_auth().metadata if asks_for_tokens else None

        def endpoint_url(scope: Scope) -> str | None:
            return (metadata() or ResourceMetadata((), path=path)).resource_for(scope)

        needs_token = asks_for_tokens and front.present_auth().required
        discovery = card_routes(endpoint_url, path, needs_token=needs_token)
        discovery += metadata_routes(metadata, path) if asks_for_tokens else []
        operator = operator_routes(
            self.status,
            missing=self._waiting_for,
            page=PrometheusPage(self.metrics, self._standing) if config.metrics else None,
            recent=self._recent,
        )
        operator += catalog_routes(self.runtime, self._maps.count, front)
        operator += [] if self._approvals is None else approval_routes(self._approvals)
        return Web(
            routes=[*operator, *map_routes(self._maps), *discovery],
            front=front,
            dashboard=config.dashboard,
            tracing=None if self.tracing is None else self.tracing.layer,
            compress_from=config.compress_from,
            rules=host_rules(config.host, config.allowed_hosts, config.allowed_origins),
            transport="sse" if config.transport == "sse" else "http",
            drain_seconds=config.drain_seconds,
            max_connections=config.max_connections,
            sessions=self._plan.state.sessions(),
            events=self._events,
        )

    async def _recent(self, since: float) -> dict[str, Any]:
        history = await to_thread.run_sync(self.metrics.history.as_json, since)
        return self._overview() | self.metrics.summary() | history | {"approvals": await self._pending_approvals()}

    async def _pending_approvals(self) -> list[dict[str, Any]]:
        try:
            return [] if self._approvals is None else await pending_approvals(self._approvals)
        except StoreError as error:
            log.debug("pending approvals cannot be read: %s", error)  # once a second, while a dashboard is open
            return []

    def _standing(self) -> Standing:
        members = self.fleet.members()
        return Standing(
            up={member.spec.label: member.state == "up" for member in members},
            tools_by_server={member.spec.label: len(member.offers.tools) for member in members},
            tools=len(self.runtime.snapshot.catalog),
            breakers=self.runtime.breaker_phases,
            held_bytes=self._workload.held(),
            gateway_bytes={
                "results": sum(self._workload.held().values()),
                "session_events": self._events.bytes,
                "log": sum(queue.waiting for queue in log_queues()),
            },
            dropped_notifications=self._workload.dropped(),
            dropped_log_lines=sum(queue.dropped for queue in log_queues()),
        )

    def _waiting_for(self) -> list[str]:
        trying = [m.spec.name for m in self.fleet.members() if not m.first_try_over.is_set()]
        # Whether a gateway is ready is public; the names of its servers are for callers with a token.
        names = trying if not self.front.asks_for_tokens else ["behind it"] * bool(trying)
        missing = [f"the server {name} has neither come up nor failed yet" for name in names]
        is_built = self.runtime.catalog_version > 0 or self.runtime.changes.are_shown
        return missing if is_built else [*missing, "the catalog has not been built yet"]

    async def wait_until_ready(self) -> None:
        """Return once the servers have started, the catalog has their offers, and no notification of that is due: a
        client that connects now is not notified of what its first list already has."""
        await self.fleet.wait_for_start()
        await self.runtime.changes.wait()
        await self._announcements.wait_until_sent()

    def announcing(self, server: GatewayServer) -> AbstractAsyncContextManager[None]:
        """Inside this context, clients of this server are notified of changes at the upstreams."""
        self.fleet.on_change(self._announcements.note)
        self.fleet.on_update(self._announcements.note)
        return in_background(self._announcements.send_to, server, self.runtime, self.fleet.wait_for_start)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Inside this context, upstreams stay connected and the catalog up to date. Raises StoreError, before anything
        is started, where the store cannot be used."""
        async with self._open_state(), in_background(self.refresher.run), self.fleet.running():
            try:
                yield
            finally:
                self._clean_processes.close()
        if self.tracing is not None:
            await to_thread.run_sync(self.tracing.close)

    @asynccontextmanager
    async def _open_state(self) -> AsyncIterator[None]:
        """Inside this context the store is open; the counters are written to it at the end."""
        await self._plan.state.open()
        async with anyio.create_task_group() as group:
            if self._count_sync is not None:
                await self._count_sync.sync()
                group.start_soon(self._count_sync.run)
            try:
                yield
            finally:
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    if self._count_sync is not None:
                        await self._count_sync.sync()
                    await self._plan.state.close()

    def requiring_servers(self) -> AbstractAsyncContextManager[None]:
        """End everything inside this context with a ConfigError if a required server does not start."""

        async def check() -> None:
            missing = await self.fleet.missing()
            failures = [f"{each.spec.name}: {redacted_line(str(each.last_failure))}" for each in missing]
            if failures:
                raise ConfigError(f"a required server did not start: {'; '.join(failures)}")

        return in_background(check)

    def status(self) -> dict[str, Any]:
        """The state of servers, catalog and counters, for operators, as JSON."""
        return {
            **self._overview(),
            "risks": [risk.as_json() for risk in self.watch.risks],
            "twins": list_pairs(self.watch.twins),
            "flagged": [flag.as_json() for flag in self.runtime.snapshot.flags],
            **self.metrics.as_json(),
        }

    def _overview(self) -> dict[str, Any]:
        members = [
            {
                "name": m.spec.name,
                "label": m.spec.label,
                "state": m.state,
                "tools": len(m.offers.tools),
                "last_failure": None if m.last_failure is None else redacted_line(m.last_failure),
                "exit_code": m.exit_code,
            }
            for m in self.fleet.members()
        ]
        return {
            "version": __version__,
            "upstreams": members,
            "tools": len(self.runtime.snapshot.catalog),
            "breakers": dict(self.runtime.breaker_phases),
        }


@asynccontextmanager
async def in_background(work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> AsyncIterator[None]:
    """Run the work in the background of this context; cancel it at the end."""
    async with anyio.create_task_group() as group:
        group.start_soon(work, *args)
        yield
        group.cancel_scope.cancel()


def compose(config: Config, audit: AuditLog | None = None) -> Gateway:
    """Build the gateway that a configuration describes."""
    return Gateway(make_plan(config), audit)


def _hide_secrets(config: Config) -> None:
    """Hide credentials in the log: servers and services may repeat them."""
    services = secrets_in([section.model_dump() for section in (config.embedder, config.tracing) if section])
    hide_secrets(services.union(secrets_of_url(config.state), *(secrets_of(server.reach) for server in config.servers)))


def _reach(config: Config) -> str:
    """A digest of the servers and their credentials: it differs where results may differ."""
    servers = sorted(config.servers, key=lambda server: server.name)
    ways = [(server.name, server.label, type(server.reach).__name__, vars(server.reach)) for server in servers]
    return hashlib.sha256(json.dumps(ways, sort_keys=True, default=dict).encode()).hexdigest()[:32]


class _Announcements:
    """Changes at upstreams, collected until clients are notified: many changes become one notification."""

    def __init__(self) -> None:
        self._waiting = anyio.Event()
        self._pending: dict[str | None, None] = {}  # URIs of resources; None: what is offered changed
        self._sent = anyio.Event()
        self._sent.set()

    def note(self, uri: str | None = None) -> None:
        self._pending[uri] = None
        self._waiting.set()
        if self._sent.is_set():
            self._sent = anyio.Event()

    async def wait_until_sent(self) -> None:
        await self._sent.wait()

    async def send_to(
        self, server: GatewayServer, runtime: GatewayRuntime, wait_for_start: Callable[[], Awaitable[None]]
    ) -> None:
        """Notify the clients of each change, once the catalog that they then list has it."""
        await wait_for_start()  # lists wait for it too, so that few clients have to be notified of it
        await self._send(server, runtime, of_start=True)
        while True:
            await self._waiting.wait()
            await anyio.sleep(CALM_SECONDS)
            await self._send(server, runtime)

    async def _send(self, server: GatewayServer, runtime: GatewayRuntime, *, of_start: bool = False) -> None:
        self._waiting, pending, self._pending = anyio.Event(), self._pending, {}
        await runtime.changes.wait()
        if None in pending:
            await server.clients.announce_changes(runtime.catalog_version, of_start=of_start)
        for uri in pending:
            if uri is not None:
                await server.clients.announce_update(uri)
        if not self._pending:
            self._sent.set()
