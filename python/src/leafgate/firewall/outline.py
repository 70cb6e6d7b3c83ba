"""Tells the shape of a JSON value in few lines. In: a value, whole or sampled. Out: lines, as many as fit. Pure.

The elements of an array are told together: which kinds they are, which members they have, a few short values. Members
keep the order of the document.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from leafgate.firewall.fit import Count, cut_line
from leafgate.firewall.json_sample import Unread, elements, members

_LOOKED_AT: Final = 60  # elements of an array that are merged
_MAX_KEYS: Final = 60
_MAX_DEPTH: Final = 6
_LONGEST_KEY: Final = 60
_LONGEST_VALUE: Final = 32
_KEPT_SAMPLES: Final = 3
_KINDS: Final = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}


@dataclass(frozen=True)
class Detail:
    """How much is told: levels, members per object, values per member."""

    depth: int
    keys: int
    samples: int


LADDER: Final = (
    Detail(6, 60, 3),
    Detail(5, 40, 2),
    Detail(4, 24, 2),
    Detail(3, 16, 1),
    Detail(2, 12, 1),
    Detail(2, 8, 0),
    Detail(1, 8, 0),
)


@dataclass
class _Kind:
    """What was seen in one place of a document, over all elements merged into it."""

    kinds: Counter[str] = field(default_factory=Counter)
    samples: list[str] = field(default_factory=list)
    low: float = math.inf
    high: float = -math.inf
    shortest: int = -1
    longest: int = -1
    inside: _Kind | None = None
    keys: dict[str, _Kind] = field(default_factory=dict)
    most_keys: int = 0

    def see(self, value: Any, depth: int = 0) -> None:
        kind = kind_of(value)
        self.kinds[kind] += 1
        array, item = elements(value), members(value)
        if array is not None:
            length, known = array
            self.shortest = length if self.shortest < 0 else min(self.shortest, length)
            self.longest = max(self.longest, length)
            if known and depth < _MAX_DEPTH:
                self.inside = self.inside or _Kind()
                for element in known[:_LOOKED_AT]:
                    self.inside.see(element, depth + 1)
        elif item is not None:
            self.most_keys = max(self.most_keys, item[0])
            if depth < _MAX_DEPTH:
                for key, inner in item[1].items():
                    if key in self.keys or len(self.keys) < _MAX_KEYS:
                        self.keys.setdefault(key, _Kind()).see(inner, depth + 1)
        elif kind in ("integer", "number"):
            self.low, self.high = min(self.low, value), max(self.high, value)
            self._keep(value)
        elif kind == "string":
            self._keep(value)

    def _keep(self, value: Any) -> None:
        if len(self.samples) < _KEPT_SAMPLES and (shown := _short(value)) not in self.samples:
            self.samples.append(shown)


def kind_of(value: Any) -> str:
    """The name of a value's type, as JSON Schema has it."""
    if isinstance(value, Unread):
        return value.kind
    return _KINDS.get(type(value)) or ("array" if elements(value) is not None else "object")


def outline(value: Any, count: Count, room: int) -> str:
    """The outline of a value, in the most detail that fits the room."""
    seen = _Kind()
    seen.see(value)
    text = ""
    for detail in LADDER:
        text = "\n".join(_lines(seen, detail))
        if count(text) <= room:
            return text
    lines = text.split("\n")
    while lines and count("\n".join([*lines, "…"])) > room:
        lines = lines[: len(lines) * 3 // 4]
    return "\n".join([*lines, "…"]) if lines else ""


def largest_part(value: Any) -> str:
    """The JSON Pointer of the member worth reading first: the longest array or object of the first level."""
    found = members(value)
    if found is None:
        return ""
    sizes = [(_length(inner), -place, key) for place, (key, inner) in enumerate(found[1].items())]
    length, _, key = max(sizes, default=(0, 0, ""))
    return pointer_to((key,)) if length > 1 and len(key) <= _LONGEST_KEY else ""


def pointer_to(path: tuple[str | int, ...]) -> str:
    """The JSON Pointer of these steps."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _length(value: Any) -> int:
    found = elements(value) or members(value)
    return 0 if found is None else found[0]


def _lines(seen: _Kind, detail: Detail) -> Iterator[str]:
    yield _told(seen, detail)
    yield from _below(seen, detail, 0)


def _below(seen: _Kind, detail: Detail, level: int) -> Iterator[str]:
    """The members of an object, or of the objects in an array, each on a line of its own."""
    holder = seen
    while not holder.keys and holder.inside is not None:
        holder = holder.inside
    if not holder.keys or level >= detail.depth:
        return
    for key, inner in list(holder.keys.items())[: detail.keys]:
        optional = "?" if sum(inner.kinds.values()) < holder.kinds["object"] else ""
        yield f"{'  ' * (level + 1)}{cut_line(_plain(key), _LONGEST_KEY)}{optional}: {_told(inner, detail)}"
        yield from _below(inner, detail, level + 1)
    more = max(holder.most_keys, len(holder.keys)) - detail.keys
    if more > 0:
        yield f"{'  ' * (level + 1)}… {more} more keys"


def _told(seen: _Kind, detail: Detail) -> str:
    parts = [_one_kind(seen, kind, detail) for kind, _ in seen.kinds.most_common()]
    return " or ".join(parts) if parts else "nothing"


def _one_kind(seen: _Kind, kind: str, detail: Detail) -> str:
    if kind == "array" and seen.longest >= 0:
        spread = str(seen.longest) if seen.shortest == seen.longest else f"{seen.shortest} to {seen.longest}"
        inside = "" if seen.inside is None else f" of {_plural(seen.inside, detail)}"
        return f"array [{spread}]{inside}"
    if kind == "object" and seen.most_keys:
        return f"object, {seen.most_keys} keys"
    if kind in ("integer", "number") and seen.low < seen.high and detail.samples:
        return f"{kind} {_short(seen.low)} to {_short(seen.high)}"
    if kind in ("integer", "number", "string") and detail.samples and seen.samples:
        return f"{kind} {', '.join(seen.samples[: detail.samples])}"
    return kind


def _plural(seen: _Kind, detail: Detail) -> str:
    kinds = [kind for kind, _ in seen.kinds.most_common()]
    if kinds == ["array"]:
        return _told(seen, detail)
    if len(kinds) == 1 and kinds[0] in ("integer", "number", "string"):
        return _told(seen, detail)
    return " or ".join(kinds)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return cut_line(str(value), _LONGEST_VALUE) if value.bit_length() < 4096 else "a huge number"
    return json.dumps(cut_line(" ".join(value[:200].split()), _LONGEST_VALUE), ensure_ascii=False)


def _plain(key: str) -> str:
    return " ".join(key[:200].split()) or json.dumps(key)
