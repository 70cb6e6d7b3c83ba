"""Which results may be kept, and under which key. In: the operator's policy, an item, arguments. Out: yes or no; a key.

Touches nothing. `readOnlyHint` is a server's claim: it is believed only as far as the operator says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leafgate.admission.capability import names_tool
from leafgate.model.errors import ConfigError
from leafgate.model.tool import SelectableItem


@dataclass(frozen=True)
class CachePolicy:
    """Nothing is kept unless `read_only` is true; with `allow`, only tools that it names (ids or globs) are."""

    read_only: bool = False
    allow: tuple[str, ...] | None = None


def may_keep(policy: CachePolicy, item: SelectableItem) -> bool:
    """Whether results of this tool may be kept: declared read-only, not declared destructive, and allowed."""
    if not policy.read_only or item.side_effects or "destructive" in item.tags:
        return False
    return policy.allow is None or any(names_tool(pattern, item.id) for pattern in policy.allow)


def is_worth_keeping(raw: Mapping[str, Any]) -> bool:
    """Errors are never kept, nor an answer that asks for more input or names a task instead of a result."""
    return raw.get("isError") is not True and raw.get("resultType", "complete") == "complete"


def cache_key(tool_id: str, args: Mapping[str, Any], partition: str = "") -> str:
    """One key per tool and arguments, whatever the order of members; 1, 1.0, true and "1" stay apart.

    Results may be shared by all callers, because a call carries the gateway's credentials and nothing of the caller's.
    Where that does not hold, a partition keeps callers apart.
    """
    told = json.dumps([tool_id, partition, args], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(told.encode("ascii")).hexdigest()


def cache_policy_of(document: object) -> CachePolicy:
    """The policy in a configuration: `read_only`, and `allow` as a list of tool ids. The bounds are the store's."""
    known = ("read_only", "allow", "ttl", "max_entries", "max_bytes")
    if not isinstance(document, Mapping) or not set(document) <= set(known):
        raise ConfigError(f"cache: an object with some of {', '.join(known)}")
    read_only, allow = document.get("read_only", False), document.get("allow")
    if not isinstance(read_only, bool):
        raise ConfigError("cache.read_only: true or false")
    if allow is not None and (not isinstance(allow, list) or not all(isinstance(entry, str) for entry in allow)):
        raise ConfigError("cache.allow: a list of tool ids")
    return CachePolicy(read_only, None if allow is None else tuple(allow))
