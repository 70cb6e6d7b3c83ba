"""What a gateway is run with. Nouns only: a Config, as load makes it from a file, or as a program writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from leafgate.firewall.screen import DEFAULT_BUDGET
from leafgate.model.leaf import Level
from leafgate.model.mode import ExposureMode
from leafgate.upstream.server_spec import ServerSpec

Transport = Literal["stdio", "http", "sse"]

USUAL_CONFIG: Final = "leafgate.yaml"  # where commands look if they are told of no other
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8808

# Read by the rooms that they control.
CONTROL_KEYS: Final = ("policy", "tolerant_args", "strict_output", "rate_limits", "cache", "retry", "breaker")


@dataclass(frozen=True, repr=False)
class Config:
    """The settings of one gateway. Sections are plain mappings in the shape of docs/configuration.md.

    In a Config that was loaded they are checked, with their defaults and variables filled in and paths made Paths.
    `files` are the files that were read to make it. It does not show its values: some are secrets.
    """

    servers: tuple[ServerSpec, ...] = ()
    catalog: Path | None = None
    transport: Transport | None = None
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    insecure_bind: bool = False
    drain_seconds: float = 3.0
    max_connections: int = 4_096
    state: str = field(default="memory", repr=False)  # may hold a password
    mode: ExposureMode = ExposureMode.GATEWAY
    hydrate: bool = True
    url_safe_names: bool = False
    budget: int = DEFAULT_BUDGET
    cache_stable: bool = False
    embedder: Mapping[str, Any] | None = None
    pins: Path | None = None
    hold_drift: bool = False
    hold_risk: bool = False
    sanitize: object = None
    sanitize_by_server: Mapping[str, object] = field(default_factory=dict)
    redact: object = None
    controls: Mapping[str, Any] = field(default_factory=dict)
    map: str | None = None
    check: Level = "canonical"
    check_by_server: Mapping[str, Level] = field(default_factory=dict)
    maps: Mapping[str, Any] = field(default_factory=lambda: {"files": [], "urls": []})
    accelerate: Literal["auto", "off"] = "auto"
    compress_from: int = 1024
    auth: Mapping[str, Any] | None = None
    principals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dashboard: bool = True
    metrics: bool = True
    tracing: Mapping[str, Any] | None = None
    log: Mapping[str, Any] = field(default_factory=lambda: {"level": "warning", "format": "text"})
    record: Path | None = None
    notices: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        return f"Config(servers: {', '.join(server.name for server in self.servers) or 'none'})"
