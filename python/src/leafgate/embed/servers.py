"""The MCP servers of an embedded gateway. In: a ProxyRuntime. Out: a server for any transport of the SDK.

Touches standard input and output, or a loopback socket, once it is told to run.
"""

from __future__ import annotations

from typing import ClassVar

from leafgate.embed.cards import shared_maps
from leafgate.embed.runtime import ProxyRuntime
from leafgate.model.errors import ConfigError
from leafgate.model.mode import ExposureMode
from leafgate.server.http import Web, bind, serve_http
from leafgate.server.mcp_server import GatewayServer, MapOffer, Surface
from leafgate.server.operator_routes import operator_routes
from leafgate.server.stdio import serve_stdio
from leafgate.server.stop_signals import stop_signals


class _EmbeddedServer(GatewayServer):
    """A server over a ProxyRuntime."""

    modes: ClassVar[tuple[ExposureMode, ...]]
    other: ClassVar[str]

    def __init__(
        self, runtime: ProxyRuntime, *, name: str = "leafgate", hydrate: bool = True, url_safe_names: bool = False
    ) -> None:
        if runtime.mode not in self.modes:
            raise ConfigError(f"a runtime in mode {runtime.mode.value} is served by {self.other}")
        self._program = runtime
        digests = {entry.digest for entry in shared_maps().list() if entry.digest is not None}
        default = runtime.map_digest
        offer = MapOffer(default, digests | ({default} if default else set()), shared_maps().prepared)
        super().__init__(
            runtime.gateway,
            surface=Surface(runtime.mode, lambda: [*runtime.catalog.by_namespace()], hydrate, url_safe_names),
            offer=lambda: offer,
            status=runtime.status,
            primitives=runtime.primitives,
            name=name,
        )

    async def run_stdio(self) -> None:
        """Serves one client on standard input and output until it leaves, or a signal."""
        async with stop_signals() as stopping:
            await serve_stdio(self, stopping)

    async def run_http(self, host: str = "127.0.0.1", port: int = 8808) -> None:
        """Serves clients over Streamable HTTP at /mcp, on a loopback address, until a signal."""

        async def ready() -> None:
            return

        web = Web(operator_routes(self._program.status))
        async with stop_signals() as stopping:
            await serve_http(self, bind(host, port), web, ready, stopping)


class McpGatewayServer(_EmbeddedServer):
    """A few meta-tools in the place of all tools: ExposureMode.GATEWAY."""

    modes = (ExposureMode.GATEWAY,)
    other = "McpProxyServer"


class McpProxyServer(_EmbeddedServer):
    """All tools: without schemas (ExposureMode.TRANSPARENT), or as their servers show them (PASSTHROUGH)."""

    modes = (ExposureMode.TRANSPARENT, ExposureMode.PASSTHROUGH)
    other = "McpGatewayServer"
