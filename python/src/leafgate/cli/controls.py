"""The controls of a call, as the operator configured them. In: the configuration's blocks. Out: Controls.

Each block is read by the room that it controls; a bad one is a ConfigError that names its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leafgate.admission.breaker import breaker_policy_of
from leafgate.admission.cacheable import CachePolicy, cache_policy_of
from leafgate.admission.capability import policy_of
from leafgate.admission.quota import rate_limits_of
from leafgate.admission.retry import RetryPolicy, retry_policy_of
from leafgate.gateway.dispatch import Breakers, Dispatcher
from leafgate.gateway.execute import Controls
from leafgate.model.errors import ConfigError
from leafgate.storage.memory_state import MemoryState
from leafgate.storage.result_cache import CacheBounds
from leafgate.storage.state import State

_STORE_KEYS = ("ttl", "max_entries", "max_bytes")


def make_controls(blocks: Mapping[str, Any], state: State | None = None, counting: State | None = None) -> Controls:
    """All controls are off unless their block is there. `counting` keeps the counts of calls, `state` the rest."""
    state = state or MemoryState()
    counting = counting or state
    dispatcher = Dispatcher(
        retry=retry_policy_of(blocks["retry"]) if "retry" in blocks else RetryPolicy(),
        breakers=Breakers(breaker_policy_of(blocks["breaker"])) if "breaker" in blocks else None,
    )
    cache_policy = cache_policy_of(blocks["cache"]) if "cache" in blocks else CachePolicy()
    return Controls(
        policy=policy_of(blocks["policy"]) if "policy" in blocks else None,
        tolerant_args=_switch(blocks, "tolerant_args"),
        strict_output=_switch(blocks, "strict_output"),
        quotas=counting.quotas(rate_limits_of(blocks["rate_limits"]), "") if "rate_limits" in blocks else None,
        cache=state.results(_bounds(blocks["cache"])) if "cache" in blocks else None,
        cache_policy=cache_policy,
        dispatcher=dispatcher,
    )


def _switch(blocks: Mapping[str, Any], name: str) -> bool:
    value = blocks.get(name, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{name}: true or false")
    return value


def _bounds(block: Mapping[str, Any]) -> CacheBounds:
    return CacheBounds(**{key: block[key] for key in _STORE_KEYS if key in block})
