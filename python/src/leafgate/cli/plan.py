"""What follows from a Config and can change while the gateway runs. In: a Config, and the plan before it. Out: a Plan.

Touches maps and pins on disk; made in a thread, and a wrong file ends in a ConfigError or MapError before anything was
changed. What did not change is kept as it is, with all that it counts and remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from leafgate.cli.auth import Access, make_access
from leafgate.cli.cleaning import make_cleaners
from leafgate.cli.controls import make_controls
from leafgate.cli.map_sources import make_shelf
from leafgate.cli.state import make_state
from leafgate.config.settings import Config
from leafgate.firewall.cleaner import Cleaner
from leafgate.gateway.execute import Controls
from leafgate.gateway.snapshot import Pinned
from leafgate.server.http import MCP_PATH
from leafgate.server.mcp_server import MapOffer
from leafgate.server.sse import SSE_PATH
from leafgate.storage.map_files import CARD_MAP
from leafgate.storage.map_shelf import MapShelf
from leafgate.storage.memory_state import MemoryState
from leafgate.storage.pin_file import load_pins
from leafgate.storage.state import State

# The settings that take hold while the gateway runs. The others are told as waiting for the next start.
LIVE: Final = frozenset(
    {
        "servers",
        "budget",
        "sanitize",
        "sanitize_by_server",
        "redact",
        "controls",
        "map",
        "check",
        "check_by_server",
        "maps",
        "accelerate",
        "pins",
        "hold_drift",
        "hold_risk",
        "auth",
        "principals",
        "notices",
        "files",
    }
)


@dataclass(frozen=True)
class Plan:
    """The parts of a gateway that its configuration decides alone.

    `session_state` keeps what belongs to sessions: counts of calls, and which cards were seen. A gateway on stdio has
    one client, whose session ends with it; that state is in its memory, and nobody else's.
    """

    config: Config
    maps: MapShelf
    clean: Cleaner
    clean_for: Mapping[str, Cleaner]
    controls: Controls
    access: Access
    pinned: Pinned | None
    state: State
    session_state: State

    @property
    def offer(self) -> MapOffer:
        return MapOffer(self.maps.default, self.maps.offered, self.maps.prepared)

    @property
    def path(self) -> str:
        """The path of the MCP endpoint."""
        return SSE_PATH if self.config.transport == "sse" else MCP_PATH


def make_plan(config: Config, earlier: Plan | None = None) -> Plan:
    """Maps that are needed for sure are loaded here, so that a broken one ends the start."""
    maps = _kept(config, earlier, ("maps", "map", "accelerate"), lambda plan: plan.maps) or _shelf(config)
    state, session_state = _states(config) if earlier is None else (earlier.state, earlier.session_state)
    cleaners = make_cleaners(config.sanitize, config.redact, config.sanitize_by_server)
    plan = Plan(
        config=config,
        maps=maps,
        clean=cleaners[0],
        clean_for=cleaners[1],
        controls=_controls(config.controls, earlier, state, session_state),
        access=Access(),
        pinned=None if config.pins is None else Pinned(load_pins(config.pins), config.hold_drift),
        state=state,
        session_state=session_state,
    )
    access = _kept(config, earlier, ("auth", "principals", "maps"), lambda plan: plan.access)
    access = access or make_access(config.auth, config.principals, maps.digest, plan.path, session_state)
    return replace(plan, access=access)


def waiting_for_restart(config: Config, running: Config) -> list[str]:
    """The settings that changed, but hold only from the next start on."""
    changed = [each.name for each in fields(Config) if each.name not in LIVE and _differ(config, running, each.name)]
    toggled = (config.auth is None) != (running.auth is None)
    return [*changed, *(["auth"] if toggled else [])]


def _states(config: Config) -> tuple[State, State]:
    state = make_state(config.state)
    return state, state if config.transport in ("http", "sse") else MemoryState()


def _shelf(config: Config) -> MapShelf:
    maps = make_shelf(config.maps, config.map, accelerated=config.accelerate == "auto")
    maps.load(CARD_MAP)
    if maps.default is not None:
        maps.load(maps.default)
    return maps


def _controls(blocks: Mapping[str, Any], earlier: Plan | None, state: State, counting: State) -> Controls:
    made = make_controls(blocks, state, counting)
    if earlier is None:
        return made
    before, kept = earlier.config.controls, earlier.controls

    def same(*keys: str) -> bool:
        return all(blocks.get(key) == before.get(key) for key in keys)

    return replace(
        made,
        quotas=kept.quotas if same("rate_limits") else made.quotas,
        cache=kept.cache if same("cache") else made.cache,
        dispatcher=kept.dispatcher if same("retry", "breaker") else made.dispatcher,
    )


def _kept(config: Config, earlier: Plan | None, keys: tuple[str, ...], part: Callable[[Plan], Any]) -> Any:
    if earlier is None or any(_differ(config, earlier.config, key) for key in keys):
        return None
    return part(earlier)


def _differ(one: Config, other: Config, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))
