"""The parts of a gateway that follow from its Config and can change while it runs.

Reads maps and pins from disk, so it is made in a thread; a wrong file raises a ConfigError or MapError before anything
changes. Parts whose settings did not change stay the same objects, with all that they count and remember.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from leafgate.catalog.pins import Pins, read_pins
from leafgate.clean.cleaner import Cleaner
from leafgate.compose.policies import make_access, make_approvals, make_cleaners, make_controls
from leafgate.config import models
from leafgate.config.models import Config, Maps
from leafgate.gateway.execute import Controls
from leafgate.gateway.snapshot import Pinned
from leafgate.maps.accelerator import LazyAcceleration
from leafgate.maps.files import CARD_MAP, MapFiles, MapSource, find_named
from leafgate.maps.shelf import MapShelf, file_source, url_source
from leafgate.model.errors import ConfigError
from leafgate.server.front import MCP_PATH, Access, MapOffer
from leafgate.server.host_guard import is_loopback
from leafgate.server.transports import SSE_PATH
from leafgate.state.memory import MemoryState
from leafgate.state.records import State
from leafgate.state.sqlite import SqliteState, UserState, user_file
from leafgate.tokens.encoder import Encoder

# The settings that take effect while the gateway runs; the others wait for the next start.
LIVE: Final = frozenset[str]().union(
    *(chapter.model_fields for chapter in (models.Trust, models.Controls, models.Callers)),
    ("servers", "sanitize_by_server", "check_by_server", "instructions_by_server", "notices", "files"),
    ("budget", "envelope", "map", "check", "check_share", "maps", "accelerate"),
)


@dataclass(frozen=True)
class Plan:
    """The parts of a gateway that its configuration decides alone.

    `session_state` stores what belongs to sessions: counts of calls, and which cards were shown. A gateway on stdio has
    one client, whose session ends with it; that state is in its memory, and not shared. `path` is that of the MCP
    endpoint. `is_local`: only this machine can reach the gateway.
    """

    config: Config
    path: str
    maps: MapShelf
    clean: Cleaner
    clean_for: Mapping[str, Cleaner]
    controls: Controls
    access: Access
    pinned: Pinned | None
    state: State
    session_state: State
    is_local: bool

    @property
    def offer(self) -> MapOffer:
        return MapOffer(self.maps.default, self.maps.offered, self.maps.prepare)


def make_plan(config: Config, earlier: Plan | None = None) -> Plan:
    """Make a plan. Maps that are certainly needed are loaded here, so that the start fails if one is broken."""

    def unchanged(*keys: str) -> Plan | None:
        """The earlier plan, if these settings did not change."""
        is_same = earlier is not None and not any(_differ(config, earlier.config, key) for key in keys)
        return earlier if is_same else None

    if earlier is None:
        state = make_state(config.state, over_stdio=config.transport not in ("http", "sse"))
        session_state = state if config.transport in ("http", "sse") else MemoryState()
        is_local = config.transport not in ("http", "sse") or is_loopback(config.host)
    else:
        state, session_state, is_local = earlier.state, earlier.session_state, earlier.is_local
    same = unchanged("maps", "map", "accelerate")
    maps = _load_shelf(config) if same is None else same.maps
    controls = make_controls(config, state, session_state)
    if same := unchanged("rate_limits"):
        controls = replace(controls, quotas=same.controls.quotas)
    if same := unchanged("cache"):
        controls = replace(controls, cache=same.controls.cache)
    if same := unchanged("retry", "breaker"):
        controls = replace(controls, dispatcher=same.controls.dispatcher)
    clean, clean_for = make_cleaners(config)
    controls = replace(controls, approvals=make_approvals(config, state, clean, is_local=is_local))
    pinned = None if config.pins is None else Pinned(load_pins(config.pins), config.on_drift == "hold")
    path = SSE_PATH if config.transport == "sse" else MCP_PATH
    if same := unchanged("auth", "principals", "maps", "owner"):
        access = same.access
    else:
        access = make_access(config.auth, config.principals, maps.digest, path, session_state)
        is_one_user = is_local and config.auth is None if config.owner is None else config.owner == "user"
        access = replace(access, is_one_user=is_one_user)
    return Plan(config, path, maps, clean, clean_for, controls, access, pinned, state, session_state, is_local)


def waiting_for_restart(config: Config, running: Config) -> list[str]:
    """The settings that changed, but take effect only at the next start."""
    changed = [name for name in Config.model_fields if name not in LIVE and _differ(config, running, name)]
    return [*changed, "auth"] if (config.auth is None) != (running.auth is None) else changed


def _differ(one: Config, other: Config, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


def _load_shelf(config: Config) -> MapShelf:
    maps = make_shelf(config.maps, config.map, accelerated=config.accelerate == "auto")
    maps.load(CARD_MAP)
    if maps.default is not None:
        maps.load(maps.default)
    return maps


REDIS: Final = ("redis://", "rediss://", "valkey://", "valkeys://", "unix://")


def make_state(where: str, *, over_stdio: bool = False) -> State:
    """The store that a `state` setting names. It is opened when the gateway runs."""
    if where == "auto" and over_stdio:
        return UserState(user_file())
    if where in ("auto", "memory"):
        return MemoryState()
    if where.startswith("sqlite:") and where != "sqlite:":
        return SqliteState(Path(where.removeprefix("sqlite:")))
    if not where.startswith(REDIS):
        raise ConfigError("state: memory, sqlite:PATH or redis://HOST:PORT/NUMBER (also rediss, valkey, valkeys, unix)")
    try:
        from leafgate.state.redis import RedisState  # noqa: PLC0415  an extra
    except ImportError:
        raise ConfigError("state: a Redis server needs the extra 'redis': install leafgate[redis]") from None
    return RedisState(where)


def make_shelf(settings: Maps, default: str | None, *, accelerated: bool = True) -> MapShelf:
    """The shelf of the operator's maps and the bundled ones; an operator's map may replace a bundled one. Files are
    checked here; a URL is not fetched before a client asks for its map."""
    sources: list[MapSource] = [
        *(file_source(path) for path in settings.files),
        *(url_source(each.url, sha256=each.sha256, id=each.id) for each in settings.urls),
        *MapFiles().list(),
    ]
    if default is not None and find_named(sources, default) is None and Path(default).is_file():
        sources.append(file_source(Path(default)))
        default = sources[-1].digest
    finish: Callable[[Encoder], Encoder] = LazyAcceleration if accelerated else lambda encoder: encoder
    return MapShelf(sources, allow=settings.allow, default=default, pinned=[CARD_MAP], finish=finish)


def load_pins(path: Path) -> Pins:
    """The approved definitions in a lock file. ConfigError if it cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return read_pins(document, str(path))
