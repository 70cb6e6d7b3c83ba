"""What an operator's policies allow: approvals, cached results, and rates of calls.

`readOnlyHint` is a claim of the server: it counts only as far as the operator allows. The usage under rate limits is a
value, which the state room stores between calls; the caller passes the time.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leafgate.model.errors import ConfigError
from leafgate.model.rights import QuotaBreach, names_tool
from leafgate.model.tool import SelectableItem

WINDOW: Final = 60.0  # seconds in which calls per minute are counted
MAX_ARGS: Final = 2_000  # characters of the arguments in a question
MAX_CLEANED: Final = 16_384  # characters of them that are looked at


def approval_question(item: SelectableItem, args: object, clean: Callable[[str], str] = str, reason: str = "") -> str:
    """Return the question to a person: the tool and its arguments, and why it is asked, if there is a reason."""
    why = f" It is asked because {reason}." if reason else ""
    return f"May {item.id} be called with these arguments?{why} {show_arguments(args, clean)}"


def show_arguments(args: object, clean: Callable[[str], str] = str) -> str:
    """Return arguments for a person: cleaned, without characters that hide or reorder text, and bounded."""
    try:
        text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=_type_name)
    except (TypeError, ValueError, RecursionError):
        text = _type_name(args)
    # Cleaned before it is cut: half of a secret does not look like one.
    clean_text = clean(text[:MAX_CLEANED])
    shown = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in clean_text)
    hidden = len(shown) - MAX_ARGS + max(0, len(text) - MAX_CLEANED)
    rest = f" … and {hidden} more characters that are not shown" if hidden > 0 else ""
    return f"{shown[:MAX_ARGS]}{rest}"


def _type_name(value: object) -> str:
    return f"({type(value).__name__})"


@dataclass(frozen=True)
class CachePolicy:
    """Nothing is cached unless `read_only` is true; with `allow`, only results of the tools in it (ids or globs)."""

    read_only: bool = False
    allow: tuple[str, ...] | None = None


def is_cacheable_tool(policy: CachePolicy, item: SelectableItem) -> bool:
    """May results of this tool be cached: is it declared read-only, not declared destructive, and allowed?"""
    if not policy.read_only or item.side_effects or "destructive" in item.tags:
        return False
    return policy.allow is None or any(names_tool(pattern, item.id) for pattern in policy.allow)


def is_cacheable_result(raw: Mapping[str, Any]) -> bool:
    """Is this a complete result: not an error, a request for more input, or the name of a task?"""
    return raw.get("isError") is not True and raw.get("resultType", "complete") == "complete"


def cache_key(tool_id: str, args: Mapping[str, Any], partition: str = "") -> str:
    """Return one key per tool and arguments, for any order of members; 1, 1.0, true and "1" give different keys.

    All callers may share results, because a call contains the gateway's credentials and none of the caller's. If that
    is not so, a partition separates callers.
    """
    text = json.dumps([tool_id, partition, args], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# Rate limits


@dataclass(frozen=True)
class Limit:
    """The limits of one scope; None means unlimited."""

    max_calls_per_minute: int | None = None
    max_calls_per_session: int | None = None

    def __post_init__(self) -> None:
        for value in (self.max_calls_per_minute, self.max_calls_per_session):
            if value is not None and (type(value) is not int or value < 0):
                raise ConfigError("rate_limits: a limit is a whole number, 0 or more")


@dataclass(frozen=True)
class RateLimits:
    """Limits by meta-tool, and by glob over tool ids: the first glob that matches applies, per tool."""

    meta_tools: Mapping[str, Limit] = field(default_factory=dict)
    tools: Mapping[str, Limit] = field(default_factory=dict)

    def limit_of(self, scope: str) -> Limit | None:
        limit = self.meta_tools.get(scope)
        if limit is not None or ":" not in scope:
            return limit
        return next((limit for pattern, limit in self.tools.items() if names_tool(pattern, scope)), None)


@dataclass(frozen=True)
class Usage:
    """The calls of one owner in one scope: the times of those in the last minute, and the number of all."""

    recent: tuple[float, ...] = ()
    total: int = 0

    def add_call(self, limit: Limit, now: float) -> Usage:
        """Return the usage after one more call. Times are recorded only if a limit needs them."""
        has_window = limit.max_calls_per_minute is not None
        return Usage((*_within(self.recent, now), now) if has_window else (), self.total + 1)


def breach(scope: str, limit: Limit, usage: Usage, now: float) -> QuotaBreach | None:
    """Return the limit that one more call would exceed, or None. A session's limit never ends, so it has no time."""
    if limit.max_calls_per_session is not None and usage.total >= limit.max_calls_per_session:
        return QuotaBreach(scope, "max_calls_per_session", None)
    if limit.max_calls_per_minute is None:
        return None
    recent = _within(usage.recent, now)
    if len(recent) < limit.max_calls_per_minute:
        return None
    if limit.max_calls_per_minute == 0:
        return QuotaBreach(scope, "max_calls_per_minute", None)
    # The call that must leave the window before one more is allowed.
    leaving = recent[len(recent) - limit.max_calls_per_minute]
    return QuotaBreach(scope, "max_calls_per_minute", math.ceil((leaving + WINDOW - now) * 1000) / 1000)


def _within(times: Sequence[float], now: float) -> tuple[float, ...]:
    return tuple(time for time in times if now - time < WINDOW)
