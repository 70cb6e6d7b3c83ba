"""The composition root: chooses the adapters and puts a gateway together. In: a Config. Out: a Gateway, ready to run.

The only file that knows every room.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mcp.server import Server

from leafgate.cli.config import Config
from leafgate.firewall.redact import redact_text
from leafgate.firewall.sanitize import sanitize_text
from leafgate.gateway.runtime import GatewayParts, ProxyRuntime
from leafgate.server.mcp_server import MapOffer, make_mcp_server
from leafgate.storage.map_files import CARD_MAP, MapFiles
from leafgate.storage.memory import MemoryArtifactStore
from leafgate.telemetry.metrics import Metrics
from leafgate.upstream.fleet import Fleet
from leafgate.version import __version__


@dataclass(frozen=True)
class Gateway:
    """A gateway with all its parts."""

    config: Config
    runtime: ProxyRuntime
    fleet: Fleet
    metrics: Metrics
    offer: MapOffer

    def mcp_server(self) -> Server[Any]:
        """The gateway as an MCP server, for any transport."""
        names = [member.spec.name for member in self.fleet.members()]
        return make_mcp_server(self.runtime, names, self.offer, self.status)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Its upstreams are kept connected inside this context."""
        async with self.fleet.running():
            yield

    def status(self) -> dict[str, Any]:
        """What an operator wants to know, as JSON."""
        members = [
            {"name": m.spec.name, "state": m.state, "tools": len(m.tools), "last_failure": m.last_failure}
            for m in self.fleet.members()
        ]
        snapshot = self.runtime.snapshot
        return {
            "version": __version__,
            "upstreams": members,
            "tools": len(snapshot.catalog),
            "flagged": [flag.as_json() for flag in snapshot.flags],
            **self.metrics.as_json(),
        }


def _clean(text: str) -> str:
    """Everything foreign goes through both: first what could act on a model, then what must not leave."""
    return redact_text(sanitize_text(text).text).text


def compose(config: Config) -> Gateway:
    """Puts the parts together. Maps that are needed for sure are loaded here, so that a broken one ends the start."""
    maps = MapFiles()
    cards = maps.load(CARD_MAP)
    default = None if config.map is None else maps.load(config.map).map.digest
    digests = {entry.digest for entry in maps.list() if entry.digest is not None}
    metrics = Metrics(lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    fleet = Fleet(config.servers)
    runtime = ProxyRuntime(
        GatewayParts(
            upstream=fleet,
            artifacts=MemoryArtifactStore(),
            recorder=metrics,
            clean=_clean,
            count=lambda text: len(cards.encode(text)),
            encoder_of=maps.load,
            budget=config.budget,
            level=config.check,
            cache_stable=config.cache_stable,
        )
    )

    def refresh() -> None:
        runtime.register_listings(fleet.listings())

    fleet.on_change(refresh)
    offer = MapOffer(default, digests | ({default} if default else set()), maps.load)
    return Gateway(config, runtime, fleet, metrics, offer)
