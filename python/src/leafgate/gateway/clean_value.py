"""Foreign JSON that goes out whole: no ids, clean. In: a value and a Cleaner. Out: a clean value.

Touches threads for what is large. Tool results do not come this way: they are delivered (deliver.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from leafgate.codec.read_leaf import strip_everywhere
from leafgate.firewall.cleaner import Cleaner
from leafgate.gateway.deliver import off_loop, rough_size


async def clean_value(raw: Mapping[str, Any], cleaner: Cleaner, *, keep: tuple[str, ...] = ()) -> dict[str, Any]:
    """The texts under the keys `keep` are opaque (addresses, bytes) and stay as they are."""
    return await off_loop(rough_size(raw), partial(_cleaned, raw, cleaner, frozenset(keep)))


def _cleaned(raw: Mapping[str, Any], cleaner: Cleaner, keep: frozenset[str]) -> dict[str, Any]:
    stripped = strip_everywhere(raw)  # ids spell texts, and nobody judges them here
    cleaned = cleaner.json(stripped).value
    return _with_kept(cleaned, stripped, keep) if isinstance(cleaned, dict) else {}


def _with_kept(cleaned: Any, raw: Any, keep: frozenset[str]) -> Any:
    if isinstance(cleaned, dict) and isinstance(raw, Mapping) and len(cleaned) == len(raw):
        return {
            key: source if name in keep and isinstance(source, str) else _with_kept(value, source, keep)
            for (key, value), (name, source) in zip(cleaned.items(), raw.items(), strict=True)
        }
    if isinstance(cleaned, list) and isinstance(raw, list):
        return [_with_kept(value, source, keep) for value, source in zip(cleaned, raw, strict=False)]
    return cleaned
