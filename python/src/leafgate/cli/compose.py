"""The composition root: chooses the adapters and puts a gateway together. In: a Config. Out: a Gateway, ready to run.

The only file that knows every room.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import anyio

from leafgate.cli.cleaning import make_cleaners
from leafgate.cli.config import Config
from leafgate.cli.controls import make_controls
from leafgate.gateway.refresh import Refresher
from leafgate.gateway.runtime import GatewayParts, GatewayRuntime
from leafgate.gateway.snapshot import Pinned
from leafgate.gateway.watch import DefinitionWatch
from leafgate.model.errors import ConfigError
from leafgate.server.http import Web
from leafgate.server.mcp_server import GatewayServer, MapOffer, Surface
from leafgate.server.operator_routes import operator_routes
from leafgate.storage.embedders import make_embedder
from leafgate.storage.index_file import IndexFiles, default_directory
from leafgate.storage.map_files import CARD_MAP, MapFiles
from leafgate.storage.memory import MemoryArtifactStore
from leafgate.storage.pin_file import load_pins
from leafgate.telemetry.metrics import Metrics
from leafgate.upstream.fleet import Fleet
from leafgate.version import __version__

CALM_SECONDS: Final = 0.05


@dataclass(frozen=True)
class Gateway:
    """A gateway with all its parts."""

    config: Config
    runtime: GatewayRuntime
    fleet: Fleet
    refresher: Refresher
    watch: DefinitionWatch
    metrics: Metrics
    offer: MapOffer

    def mcp_server(self) -> GatewayServer:
        """The gateway as an MCP server, for any transport."""
        config = self.config
        surface = Surface(
            mode=config.mode,
            servers=[member.spec.name for member in self.fleet.members()],
            hydrate=config.hydrate,
            url_safe_names=config.url_safe_names,
        )
        return GatewayServer(self.runtime, surface=surface, offer=self.offer, status=self.status, primitives=self.fleet)

    def web(self) -> Web:
        """What is served over HTTP beside the MCP endpoint, and what stands before it."""
        return Web(routes=operator_routes(self.status))

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
        """Its upstreams are kept connected, and its catalog up to date, inside this context."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.refresher.run)
            async with self.fleet.running():
                yield
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def insisting(self) -> AsyncIterator[None]:
        """Ends everything inside this context if a required server does not come up."""
        async with anyio.create_task_group() as group:

            async def check() -> None:
                missing = await self.fleet.missing()
                if missing:
                    told = "; ".join(f"{member.spec.name}: {member.last_failure}" for member in missing)
                    raise ConfigError(f"a required server did not come up: {told}")

            group.start_soon(check)
            yield
            group.cancel_scope.cancel()

    def status(self) -> dict[str, Any]:
        """What an operator wants to know, as JSON."""
        members = [
            {"name": m.spec.name, "state": m.state, "tools": len(m.offers.tools), "last_failure": m.last_failure}
            for m in self.fleet.members()
        ]
        snapshot = self.runtime.snapshot
        return {
            "version": __version__,
            "upstreams": members,
            "tools": len(snapshot.catalog),
            "breakers": dict(self.runtime.breaker_phases),
            "risks": [risk.as_json() for risk in self.watch.risks],
            "flagged": [flag.as_json() for flag in snapshot.flags],
            **self.metrics.as_json(),
        }


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


def compose(config: Config) -> Gateway:
    """Puts the parts together. Maps that are needed for sure are loaded here, so that a broken one ends the start."""
    maps = MapFiles()
    cards = maps.load(CARD_MAP)
    default = None if config.map is None else maps.load(config.map).map.digest
    digests = {entry.digest for entry in maps.list() if entry.digest is not None}
    metrics = Metrics(lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    fleet = Fleet(config.servers)
    clean, clean_for = make_cleaners(config.sanitize, config.redact, config.sanitize_by_server)
    refreshers: list[Refresher] = []

    async def caught_up() -> None:
        await refreshers[0].caught_up()

    runtime = GatewayRuntime(
        GatewayParts(
            upstream=fleet,
            artifacts=MemoryArtifactStore(),
            recorder=metrics,
            clean=clean,
            clean_for=clean_for,
            primitives=fleet,
            count=lambda text: len(cards.encode(text)),
            encoder_of=maps.load,
            budget=config.budget,
            level=config.check,
            controls=make_controls(config.controls),
            index_store=IndexFiles(default_directory()),
            embedder=make_embedder(config.embedder),
            caught_up=caught_up,
            pinned=None if config.pins is None else Pinned(load_pins(config.pins), config.hold_drift),
            cache_stable=config.cache_stable,
        )
    )
    watch = DefinitionWatch(hold=config.hold_risk)
    refresher = Refresher(runtime, fleet.offers, watch)
    refreshers.append(refresher)
    fleet.on_change(refresher.poke)
    offer = MapOffer(default, digests | ({default} if default else set()), maps.load)
    return Gateway(config, runtime, fleet, refresher, watch, metrics, offer)
