"""How many calls are left? In: limits, what was used so far, the time. Out: a breach or none, and the new usage.

Touches nothing: the time is handed in, and usage is a value. Who keeps it between calls is storage's business.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leafgate.admission.capability import names_tool
from leafgate.model.errors import ConfigError
from leafgate.model.mode import ALL_META_TOOLS
from leafgate.ports import QuotaBreach

WINDOW: Final = 60.0


@dataclass(frozen=True)
class Limit:
    """What one scope allows; None is no limit."""

    max_calls_per_minute: int | None = None
    max_calls_per_session: int | None = None

    def __post_init__(self) -> None:
        for value in (self.max_calls_per_minute, self.max_calls_per_session):
            if value is not None and (type(value) is not int or value < 0):
                raise ConfigError("rate_limits: a limit is a whole number, 0 or more")


@dataclass(frozen=True)
class RateLimits:
    """Limits by meta-tool, and by glob over tool ids: the first glob that fits a tool gives it a count of its own."""

    meta_tools: Mapping[str, Limit] = field(default_factory=dict)
    tools: Mapping[str, Limit] = field(default_factory=dict)

    def limit_of(self, scope: str) -> Limit | None:
        found = self.meta_tools.get(scope)
        if found is not None or ":" not in scope:
            return found
        return next((limit for pattern, limit in self.tools.items() if names_tool(pattern, scope)), None)


@dataclass(frozen=True)
class Usage:
    """The calls of one owner in one scope: when those of the last minute were, and how many there ever were."""

    recent: tuple[float, ...] = ()
    total: int = 0

    def spent(self, limit: Limit, now: float) -> Usage:
        """One call more. Times are kept only where a limit asks for them."""
        timed = limit.max_calls_per_minute is not None
        return Usage((*_within(self.recent, now), now) if timed else (), self.total + 1)


def breach(scope: str, limit: Limit, usage: Usage, now: float) -> QuotaBreach | None:
    """The limit that one more call would break. A session's limit never comes free, so it says no time."""
    if limit.max_calls_per_session is not None and usage.total >= limit.max_calls_per_session:
        return QuotaBreach(scope, "max_calls_per_session", None)
    if limit.max_calls_per_minute is None:
        return None
    recent = _within(usage.recent, now)
    if len(recent) < limit.max_calls_per_minute:
        return None
    if limit.max_calls_per_minute == 0:
        return QuotaBreach(scope, "max_calls_per_minute", None)
    # The call that has to leave the window before there is room for one more.
    leaving = recent[len(recent) - limit.max_calls_per_minute]
    return QuotaBreach(scope, "max_calls_per_minute", math.ceil((leaving + WINDOW - now) * 1000) / 1000)


def _within(times: Sequence[float], now: float) -> tuple[float, ...]:
    return tuple(time for time in times if now - time < WINDOW)


def rate_limits_of(document: object) -> RateLimits:
    """The limits in a configuration: one object per meta-tool, and `tools` with one per glob."""
    if not isinstance(document, Mapping):
        raise ConfigError("rate_limits: an object")
    meta = {str(key): _limit(f"rate_limits.{key}", value) for key, value in document.items() if key != "tools"}
    unknown = next((key for key in meta if key not in ALL_META_TOOLS), None)
    if unknown is not None:
        raise ConfigError(f"rate_limits.{unknown}: known are tools, {', '.join(ALL_META_TOOLS)}")
    tools = document.get("tools", {})
    if not isinstance(tools, Mapping):
        raise ConfigError("rate_limits.tools: an object from tool ids or globs to limits")
    return RateLimits(meta, {str(key): _limit(f"rate_limits.tools.{key}", value) for key, value in tools.items()})


def _limit(where: str, document: Any) -> Limit:
    known = ("max_calls_per_minute", "max_calls_per_session")
    if not isinstance(document, Mapping) or not set(document) <= set(known):
        raise ConfigError(f"{where}: an object with {' and '.join(known)}")
    try:
        return Limit(**document)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
