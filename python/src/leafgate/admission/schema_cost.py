"""The maximum cost of checking values with a schema: evaluations per place of a value, by depth.

A schema of a few lines can require 2^n evaluations, by references that double or recursion through several branches.
The engine has no limit, so the bound is computed before it runs. The work of computing it is itself limited.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

MAX_LEVELS: Final = 128
MAX_STEPS: Final = 40_000
MAX_CHAIN: Final = 200
HOPELESS: Final = 10_000_000

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_SAME_PLACE: Final = ("not", "if", "then", "else")
_SAME_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SAME_PLACE_MAPS: Final = ("dependentSchemas", "dependencies")
_REST: Final = ("additionalProperties", "unevaluatedProperties")
_EVERY_CHILD: Final = ("items", "contains", "unevaluatedItems", "additionalItems", "propertyNames")
_POSITIONS: Final = ("prefixItems", "items")
_MAPS_OF_SCHEMAS: Final = (*_SAME_PLACE_MAPS, "properties", "patternProperties", "$defs", "definitions")
_ANY_NAME: Final = ""  # represents a member that is not in `properties`; a member with this name costs no more

Schema = Mapping[str, Any]
# The schemas that apply at one place, by identity, and how often.
State = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class SchemaCost:
    """The maximum evaluations at one place for each depth of a value; if `closed`, deeper places cost no more."""

    by_depth: tuple[int, ...]
    closed: bool

    def bound(self, nodes: int, depth: int) -> float:
        """Return the maximum cost of checking a value with this number of nodes and depth."""
        if depth >= len(self.by_depth) and not self.closed:
            return math.inf
        return float(nodes * max(self.by_depth[: depth + 1]))


def cost_of_checking(schema: Schema) -> SchemaCost:
    """Return the cost of a validity check. A schema whose bound takes too long to compute exceeds every budget."""
    return _Costing(schema, looks=1).cost()


def cost_of_reporting(schema: Schema) -> SchemaCost:
    """Return the cost of finding all violations: a choice that fails is evaluated again, branch by branch."""
    return _Costing(schema, looks=2).cost()


def has_choices(schema: Schema) -> bool:
    """Can one violation contain others: those of the branches of a choice?"""
    return _Costing(schema, looks=1).has_choices()


class _Costing:
    """One walk: which schemas can apply together at one place of a value, level by level, and how often each."""

    def __init__(self, root: Schema, *, looks: int) -> None:
        self._root = root
        self._looks = looks
        self._schemas: dict[int, Schema] = {}
        self._anchors: dict[str, list[Schema]] = {}
        self._foreign = False
        self._steps = 0
        self._expanded: dict[int, Counter[int]] = {}
        self._index(root)

    def has_choices(self) -> bool:
        return any("anyOf" in schema or "oneOf" in schema for schema in self._schemas.values())

    def cost(self) -> SchemaCost:
        levels: list[int] = []
        try:
            visited: set[State] = set()
            frontier = {frozenset({(id(self._root), 1)})}
            while frontier and len(levels) < MAX_LEVELS:
                visited |= frontier
                places = [self._place(state) for state in frontier]
                levels.append(max(self._load(place) for place in places))
                if levels[-1] > HOPELESS:
                    return SchemaCost(tuple(levels), closed=False)
                frontier = {child for place in places for child in self._children(place)} - visited
            return SchemaCost(tuple(levels), closed=not frontier)
        except _TooManyStepsError:
            return SchemaCost((*levels, HOPELESS), closed=False)

    def _index(self, root: Schema) -> None:
        """Index every schema of the document, and those with an anchor by name."""
        stack: list[Any] = [root]
        while stack:
            schema = stack.pop()
            if not isinstance(schema, Mapping) or id(schema) in self._schemas:
                continue
            self._schemas[id(schema)] = schema
            for key in ("$anchor", "$dynamicAnchor", "$id", "id"):
                name = schema.get(key)
                if isinstance(name, str) and (not key.endswith("id") or name.startswith("#")):
                    self._anchors.setdefault(name.removeprefix("#"), []).append(schema)
                elif isinstance(name, str) and key == "$id" and schema is not root:
                    self._foreign = True  # an embedded document: its references have another root
            for key, value in schema.items():
                if key in _MAPS_OF_SCHEMAS and isinstance(value, Mapping):
                    stack += value.values()
                elif isinstance(value, list):
                    stack += value
                else:
                    stack.append(value)

    def _place(self, state: State) -> Counter[int]:
        """Return all schemas that apply at a place where these do, with references and combinators resolved."""
        place: Counter[int] = Counter()
        for schema, times in state:
            for inner, inner_times in self._expand(schema, ()).items():
                place[inner] += times * inner_times
        return place

    def _expand(self, schema: int, under_way: tuple[int, ...]) -> Counter[int]:
        result = self._expanded.get(schema)
        if result is not None:
            return result
        if len(under_way) > MAX_CHAIN:
            raise _TooManyStepsError
        result = Counter({schema: 1})
        for inner, looks in self._same_place(self._schemas[schema]):
            if inner == schema or inner in under_way:
                continue  # the engine, too, does not follow a cycle at one place
            for deeper, times in self._expand(inner, (*under_way, schema)).items():
                self._step()
                result[deeper] = min(result[deeper] + looks * times, HOPELESS)
        self._expanded[schema] = result
        return result

    def _same_place(self, schema: Schema) -> Iterator[tuple[int, int]]:
        """Yield the schemas that apply with this one, each with the number of evaluations."""
        # For `unevaluated…`, the engine evaluates the neighbours once more.
        again = 2 if any(key.startswith("unevaluated") for key in schema) else 1
        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                yield from ((target, again) for target in self._targets(schema[key]))
        for key in _SAME_PLACE:
            yield from ((inner, again) for inner in self._ids(schema.get(key)))
        for key in _SAME_PLACE_LISTS:
            looks = again if key == "allOf" else again * self._looks
            yield from ((inner, looks) for inner in self._ids(*_list(schema.get(key))))
        for key in _SAME_PLACE_MAPS:
            yield from ((inner, again) for inner in self._ids(*_mapping(schema.get(key)).values()))

    def _children(self, place: Counter[int]) -> Iterator[State]:
        names = {name for schema in place for name in _mapping(self._schemas[schema].get("properties"))}
        longest = max((len(_list(self._schemas[schema].get(key))) for schema in place for key in _POSITIONS), default=0)
        for name in sorted({_ANY_NAME, *names}):
            yield from self._child(place, name, None)
        for position in range(longest):
            yield from self._child(place, _ANY_NAME, position)

    def _child(self, place: Counter[int], name: str, position: int | None) -> Iterator[State]:
        """Yield the schemas that apply to one member or element."""
        child: Counter[int] = Counter()
        for schema_id, times in place.items():
            self._step()
            for inner in self._ids(*_applied(self._schemas[schema_id], name, position)):
                child[inner] = min(child[inner] + times, HOPELESS)
        if child:
            yield frozenset(child.items())

    def _load(self, place: Counter[int]) -> int:
        return sum(times * _own(self._schemas[schema]) for schema, times in place.items())

    def _targets(self, reference: str) -> Iterator[int]:
        """Yield the targets of a reference. One that this walk cannot follow makes the schema too costly."""
        if self._foreign or not reference.startswith("#"):
            raise _TooManyStepsError
        if reference[1:] in self._anchors:
            yield from self._ids(*self._anchors[reference[1:]])
            return
        target: Any = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("%25", "%").replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and name.isdecimal() and int(name) < len(target):
                target = target[int(name)]
            elif isinstance(target, Mapping) and name in target:
                target = target[name]
            else:
                raise _TooManyStepsError
        if isinstance(target, Mapping) and id(target) not in self._schemas:
            self._index(target)
        yield from self._ids(target)

    def _ids(self, *schemas: object) -> Iterator[int]:
        return (id(schema) for schema in schemas if isinstance(schema, Mapping) and id(schema) in self._schemas)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _TooManyStepsError


def _applied(schema: Schema, name: str, position: int | None) -> Iterator[object]:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and name in properties:
        yield properties[name]
    else:
        yield from (schema[key] for key in _REST if key in schema)
    yield from _mapping(schema.get("patternProperties")).values()
    yield from (schema[key] for key in _EVERY_CHILD if key in schema)
    if position is not None:
        for key in _POSITIONS:
            yield from _list(schema.get(key))[position : position + 1]


class _TooManyStepsError(Exception):
    """The walk exceeds its own limit."""


def _own(schema: Schema) -> int:
    """Return the cost of one evaluation, which is higher for keywords with long lists."""
    long = sum(len(schema[key]) for key in ("properties", "enum", "required") if _is_sized(schema.get(key)))
    patterns = len(_mapping(schema.get("patternProperties")))
    return 1 + long // 8 + 2 * patterns + (8 if schema.get("uniqueItems") is True else 0)


def _is_sized(value: object) -> bool:
    return isinstance(value, Mapping | list)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
