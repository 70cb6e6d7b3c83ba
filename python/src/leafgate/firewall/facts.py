"""Facts: the first level of structured content as short lines. In: a JSON value. Out: "count: 42", ... Pure.

Bounded in number and length; what is long is told by its size.
"""

from __future__ import annotations

import json
from typing import Any, Final

from leafgate.firewall.json_sample import Unread, elements, members

MAX_FACTS: Final = 16
LONGEST_FACT: Final = 160
_LONGEST_KEY: Final = 60


def facts_of(value: Any) -> tuple[str, ...]:
    """A line per member of an object, in its order; nothing for any other value."""
    found = members(value)
    if found is None:
        return ()
    return tuple(_fact(key, inner) for key, inner in list(found[1].items())[:MAX_FACTS])


def _fact(key: str, value: Any) -> str:
    name = " ".join(key[: 2 * _LONGEST_KEY].split())[:_LONGEST_KEY]
    return f"{name}: {_told(value)}"[:LONGEST_FACT]


def _told(value: Any) -> str:
    if isinstance(value, str):
        line = " ".join(value[: 2 * LONGEST_FACT].split())
        return line if len(value) <= LONGEST_FACT else f"{line[: LONGEST_FACT // 2]}… ({len(value)} characters)"
    array, item = elements(value), members(value)
    if array is not None:
        return f"{array[0]} items"
    if item is not None:
        return f"{item[0]} members"
    if isinstance(value, Unread):
        return f"a large {value.kind}"
    if isinstance(value, int) and value.bit_length() >= 512:
        return "a huge number"
    return json.dumps(value)
