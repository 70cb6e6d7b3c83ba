"""The composition root: chooses the adapters and puts a gateway together. In: a Config. Out: a Gateway, ready to run.

The only file that knows every room.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, BinaryIO, Final

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Scope

from leafgate.cli.auth import stay_closed
from leafgate.cli.plan import Plan, make_plan, waiting_for_restart
from leafgate.cli.saved_catalog import load_saved_offers, with_saved
from leafgate.cli.server_secrets import secrets_in, secrets_of, secrets_of_url
from leafgate.config.settings import Config
from leafgate.gateway.refresh import Refresher
from leafgate.gateway.rights import Rights
from leafgate.gateway.room import Room
from leafgate.gateway.runtime import GatewayParts, GatewayRuntime
from leafgate.gateway.serving import UNTRACED
from leafgate.gateway.watch import DefinitionWatch
from leafgate.model.errors import ConfigError
from leafgate.model.mode import META_TOOLS
from leafgate.model.principal import Principal
from leafgate.ports import Offers
from leafgate.server.auth.known_user import principal_of
from leafgate.server.auth.layer import Auth, AuthLayer
from leafgate.server.auth.resource_metadata import metadata_routes
from leafgate.server.auth.scope_layer import ScopeLayer
from leafgate.server.catalog_routes import catalog_routes
from leafgate.server.codec_frames import CodecFrames
from leafgate.server.dashboard_routes import OpenPages, dashboard_routes
from leafgate.server.host_guard import host_rules
from leafgate.server.http import MCP_PATH, Web
from leafgate.server.map_header import MapHeader
from leafgate.server.map_routes import ListedMap, map_routes
from leafgate.server.mcp_server import GatewayServer, Surface, principal_behind
from leafgate.server.operator_routes import operator_routes
from leafgate.storage.embedders import make_embedder
from leafgate.storage.index_file import IndexFiles, default_directory
from leafgate.storage.map_files import CARD_MAP
from leafgate.storage.map_shelf import MapShelf
from leafgate.telemetry.kept_counts import KeptCounts
from leafgate.telemetry.log import keep_out, without_secrets
from leafgate.telemetry.metrics import Metrics
from leafgate.telemetry.prometheus import PrometheusPage, Standing
from leafgate.telemetry.readiness import Readiness
from leafgate.telemetry.tracing import make_tracing, tracing_settings_of
from leafgate.upstream.fleet import Fleet
from leafgate.version import __version__

CALM_SECONDS: Final = 0.05


class Gateway:
    """A gateway with all its parts: those that last, and those that follow from its configuration."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._auth = plan.access.auth
        self._started_with = plan.config
        config = plan.config
        _keep_secrets_out(config)
        self.metrics = Metrics(lambda: datetime.now(UTC).isoformat(timespec="seconds"))
        self.tracing = None if config.tracing is None else make_tracing(tracing_settings_of(config.tracing))
        self._room = Room()
        self.fleet = Fleet(config.servers, ready=self._room.until_free)
        self._state = plan.state
        self._artifacts = self._state.artifacts(self._artifact_quota_of)
        self._browse_states = plan.session_state.browse_states() if config.cache_stable else None
        shared = self._state.shared_counts()
        self._kept_counts = None if shared is None else KeptCounts(self.metrics, shared)
        self._index_store = IndexFiles(default_directory())
        self._embedder = make_embedder(config.embedder)
        self.runtime = GatewayRuntime(self._parts(plan))
        self.watch = DefinitionWatch(hold=config.hold_risk)
        saved = Offers() if config.catalog is None else load_saved_offers(config.catalog)
        self._saved_servers = [*dict.fromkeys(listing.server for listing in saved.tools if listing.server)]
        self.refresher = Refresher(self.runtime, with_saved(self.fleet.offers, saved), self.watch)
        self.fleet.on_change(self.refresher.poke)
        if config.catalog is not None:
            self.refresher.poke()

    @property
    def config(self) -> Config:
        return self._plan.config

    @property
    def maps(self) -> MapShelf:
        return self._plan.maps

    def _server_names(self) -> Sequence[str]:
        return [*dict.fromkeys([*(member.spec.name for member in self.fleet.members()), *self._saved_servers])]

    def _rights_of(self, principal: Principal | None) -> Rights:
        return self._plan.access.rights_of(principal)

    def _artifact_quota_of(self, owner: str) -> int | None:
        return self._plan.access.artifact_quota_of(principal_behind(owner))

    def prepare(self, config: Config) -> Plan:
        """What other settings would mean. Changes nothing, so that a thread can do it; raises where they are wrong."""
        stay_closed(config.auth, bound=self._started_with.host, insists=config.insecure_bind)
        return make_plan(config, self._plan)

    def adopt(self, plan: Plan) -> list[str]:
        """Other settings from now on, in one step; says which of them wait for the next start."""
        _keep_secrets_out(plan.config)
        self._plan = plan
        self._auth = plan.access.auth or self._auth
        self.watch.hold = plan.config.hold_risk
        self.runtime.reconfigure(self._parts(plan))
        self.fleet.reconcile(plan.config.servers)
        waiting = waiting_for_restart(plan.config, self._started_with)
        return [f"needs a restart to take hold: {', '.join(waiting)}"] if waiting else []

    def _parts(self, plan: Plan) -> GatewayParts:
        config, cards = plan.config, plan.maps.load(CARD_MAP)
        return GatewayParts(
            upstream=self.fleet,
            artifacts=self._artifacts,
            recorder=self.metrics,
            clean=plan.clean,
            clean_for=plan.clean_for,
            primitives=self.fleet,
            count=lambda text: len(cards.encode(text)),
            encoder_of=plan.maps.prepared,
            budget=config.budget,
            level=config.check,
            level_for=config.check_by_server,
            controls=plan.controls,
            index_store=self._index_store,
            embedder=self._embedder,
            caught_up=self._caught_up,
            pinned=plan.pinned,
            browse_states=self._browse_states,
            reach=_reach(config),
            tracer=UNTRACED if self.tracing is None else self.tracing,
            room=self._room,
        )

    async def _caught_up(self) -> None:
        await self.refresher.caught_up()

    def mcp_server(self) -> GatewayServer:
        """The gateway as an MCP server, for any transport."""
        config = self.config
        surface = Surface(
            mode=config.mode,
            servers=self._server_names,
            hydrate=config.hydrate,
            url_safe_names=config.url_safe_names,
        )
        return GatewayServer(
            self.runtime,
            surface=surface,
            offer=lambda: self._plan.offer,
            status=self.status,
            primitives=self.fleet,
            rights_of=self._rights_of,
        )

    def web(self) -> Web:
        """What is served over HTTP beside the MCP endpoint, and what stands before it."""
        config = self.config
        guarded, told = self._guards()
        opened = [partial(OpenPages, routes=dashboard_routes())] if config.dashboard else []
        traced = [] if self.tracing is None else [self.tracing.layer]
        framed = partial(CodecFrames, compress_from=config.compress_from)
        named = partial(MapHeader, path=MCP_PATH, offer=self._maps_for)
        return Web(
            routes=[*self._operator_routes(), *map_routes(_PresentMaps(self)), *told],
            layers=[*opened, *guarded[:1], *traced, framed, named, *guarded[1:]],
            rules=host_rules(config.host, config.allowed_hosts, config.allowed_origins),
            transport="sse" if config.transport == "sse" else "http",
            drain_seconds=config.drain_seconds,
            max_connections=config.max_connections,
            sessions=self._state.sessions(),
        )

    def _maps_for(self, scope: Scope) -> tuple[str | None, Collection[str]]:
        """The default map of the one who asks, and the maps that they may ask for."""
        maps, allowed = self._plan.maps, self._rights_of(principal_of(Request(scope))).maps
        if allowed is None:
            return maps.default, maps.offered
        return maps.default if maps.default in allowed else None, allowed & maps.offered

    def _guards(self) -> tuple[list[Callable[[ASGIApp], ASGIApp]], list[BaseRoute]]:
        """Who comes in at all, and what they may do once a body can be read; and the routes that say how to get in."""
        if self._auth is None:
            return [], []
        scoped = partial(ScopeLayer, auth=self._present_auth, own_tools=META_TOOLS[self.config.mode])
        told = metadata_routes(lambda: self._present_auth().metadata, self._plan.path)
        return [partial(AuthLayer, auth=self._present_auth), scoped], [*told]

    def _present_auth(self) -> Auth:
        """As configured now. Switching it off altogether waits for the next start: until then the last one holds."""
        assert self._auth is not None
        return self._auth

    def _operator_routes(self) -> list[Route]:
        told = operator_routes(
            self.status,
            missing=Readiness(self._waiting_for).missing,
            page=PrometheusPage(self.metrics, self._standing) if self.config.metrics else None,
            recent=self._recent,
        )
        return [*told, *catalog_routes(self.runtime, self._count, self._rights_of)]

    def _count(self, text: str) -> int:
        return len(self._plan.maps.load(CARD_MAP).encode(text))

    async def _recent(self, since: float) -> dict[str, Any]:
        history = await to_thread.run_sync(self.metrics.history.as_json, since)
        return self._overview() | self.metrics.summary() | history

    def _standing(self) -> Standing:
        members = self.fleet.members()
        return Standing(
            up={member.spec.label: member.state == "up" for member in members},
            tools_by_server={member.spec.label: len(member.offers.tools) for member in members},
            tools=len(self.runtime.snapshot.catalog),
            breakers=self.runtime.breaker_phases,
        )

    def _waiting_for(self) -> list[str]:
        trying = [m.spec.name for m in self.fleet.members() if not m.first_try_over.is_set()]
        # Anybody may ask whether a gateway is ready; which servers it has is for those who may come in.
        names = trying if self._auth is None else ["behind it"] * bool(trying)
        missing = [f"the server {name} has neither come up nor failed yet" for name in names]
        return missing if self.refresher.is_caught_up else [*missing, "the catalog has not been built yet"]

    @asynccontextmanager
    async def announcing(self, server: GatewayServer) -> AsyncIterator[None]:
        """Changes at the upstreams reach this server's clients inside this context."""
        news = _News()
        self.fleet.on_change(news.changed)
        self.fleet.on_update(news.updated)
        async with anyio.create_task_group() as group:
            group.start_soon(news.pass_on, server)
            yield
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Its upstreams are kept connected, and its catalog up to date, inside this context.

        StoreError, before anything was started, where its store cannot be used.
        """
        async with self._keeping(), anyio.create_task_group() as group:
            group.start_soon(self.refresher.run)
            async with self.fleet.running():
                yield
            group.cancel_scope.cancel()
        if self.tracing is not None:
            await to_thread.run_sync(self.tracing.close)

    @asynccontextmanager
    async def _keeping(self) -> AsyncIterator[None]:
        """The store is open inside this context; what was counted is told to it at the end."""
        await self._state.open()
        async with anyio.create_task_group() as group:
            if self._kept_counts is not None:
                await self._kept_counts.settle()
                group.start_soon(self._kept_counts.run)
            try:
                yield
            finally:
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    if self._kept_counts is not None:
                        await self._kept_counts.settle()
                    await self._state.close()

    @asynccontextmanager
    async def insisting(self) -> AsyncIterator[None]:
        """Ends everything inside this context if a required server does not come up."""
        async with anyio.create_task_group() as group:

            async def check() -> None:
                missing = await self.fleet.missing()
                if missing:
                    told = "; ".join(f"{each.spec.name}: {without_secrets(str(each.last_failure))}" for each in missing)
                    raise ConfigError(f"a required server did not come up: {told}")

            group.start_soon(check)
            yield
            group.cancel_scope.cancel()

    def status(self) -> dict[str, Any]:
        """What an operator wants to know, as JSON."""
        return {
            **self._overview(),
            "risks": [risk.as_json() for risk in self.watch.risks],
            "flagged": [flag.as_json() for flag in self.runtime.snapshot.flags],
            **self.metrics.as_json(),
        }

    def _overview(self) -> dict[str, Any]:
        """How the servers are."""
        members = [
            {
                "name": m.spec.name,
                "label": m.spec.label,
                "state": m.state,
                "tools": len(m.offers.tools),
                "last_failure": None if m.last_failure is None else without_secrets(m.last_failure),
            }
            for m in self.fleet.members()
        ]
        return {
            "version": __version__,
            "upstreams": members,
            "tools": len(self.runtime.snapshot.catalog),
            "breakers": dict(self.runtime.breaker_phases),
        }


def _keep_secrets_out(config: Config) -> None:
    """What servers and services are given may be repeated by them, and is written down nowhere."""
    services = secrets_in({"embedder": config.embedder or {}, "tracing": config.tracing or {}})
    keep_out(services.union(secrets_of_url(config.state), *(secrets_of(server.reach) for server in config.servers)))


def _reach(config: Config) -> str:
    """Which servers, and with which credentials: a digest that differs where results may."""
    servers = sorted(config.servers, key=lambda server: server.name)
    ways = [(server.name, server.label, type(server.reach).__name__, vars(server.reach)) for server in servers]
    return hashlib.sha256(json.dumps(ways, sort_keys=True, default=dict).encode()).hexdigest()[:32]


class _News:
    """Changes at upstreams, gathered until they are passed on; a storm of them becomes one notification."""

    def __init__(self) -> None:
        self._waiting = anyio.Event()
        self._changed = False
        self._updated: dict[str, None] = {}

    def changed(self) -> None:
        self._changed = True
        self._waiting.set()

    def updated(self, uri: str) -> None:
        self._updated[uri] = None
        self._waiting.set()

    async def pass_on(self, server: GatewayServer) -> None:
        while True:
            await self._waiting.wait()
            await anyio.sleep(CALM_SECONDS)
            self._waiting = anyio.Event()
            changed, updated = self._changed, [*self._updated]
            self._changed, self._updated = False, {}
            if changed:
                await server.clients.tell_changed()
            for uri in updated:
                await server.clients.tell_updated(uri)


class _PresentMaps:
    """The maps as they are configured at the moment."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def entries(self) -> Sequence[ListedMap]:
        return self._gateway.maps.entries()

    def open_raw(self, digest: str) -> BinaryIO:
        return self._gateway.maps.open_raw(digest)


def compose(config: Config) -> Gateway:
    """Puts the parts together."""
    return Gateway(make_plan(config))
