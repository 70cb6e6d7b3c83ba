"""Strategies of configuration values, made from the table of keys. In: a kind. Out: values it takes, or near misses."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from leafgate.config.keys import HASH, STATE, TOP
from leafgate.config.kinds import (
    SECURE_URL,
    FilePath,
    Kind,
    ListOf,
    MapOf,
    Number,
    Section,
    Switch,
    Text,
    Whole,
    Written,
)

NAMES = st.text("abcdefgh_-", min_size=1, max_size=8)
OF_PATTERN = {
    r"https?://[^\s/]\S*": NAMES.map(lambda name: f"http://{name}/mcp"),
    SECURE_URL.pattern: st.sampled_from(["https://x/m", "http://127.0.0.1:80/m", "http://localhost", "http://[::1]"]),
    HASH.pattern: st.sampled_from(["sha256:" + "0a" * 32, "scrypt:16384:8:1:YQ==:YQ=="]),
    STATE.pattern: st.sampled_from(
        ["memory", "sqlite:a b.db", "redis://db/0", "valkeys://a:b@db:1/2", "unix:///r.sock"]
    ),
    r"(sha256:)?[0-9a-fA-F]{64}": st.sampled_from(["a" * 64, "sha256:" + "0A" * 32]),
    r"[a-z0-9-]{1,40}": st.text("ab9-", min_size=1, max_size=40),
}
WRONG = st.sampled_from([None, True, 0, -1, 1.5, 10**12, "", "zz", [], [[]], [None], {}, {"zz": 1}, {"a": None}])


def valid(kind: Kind, least: int = 0) -> st.SearchStrategy[Any]:
    """Values that fit the kind; objects and lists with so many entries or more."""
    match kind:
        case Section():
            return section(kind)
        case MapOf():
            return st.dictionaries(NAMES, valid(kind.value), min_size=least, max_size=2)
        case ListOf():
            listed = st.lists(valid(kind.entry), min_size=max(least, kind.least), max_size=2)
            return valid(kind.entry) | listed if kind.or_one else listed
        case Text():
            return text(kind)
        case _:
            return scalar(kind)


def text(kind: Text) -> st.SearchStrategy[str]:
    if kind.choices:
        return st.sampled_from(kind.choices)
    return OF_PATTERN[kind.pattern] if kind.pattern else st.text("abc*:", min_size=kind.least, max_size=6)


def scalar(kind: Kind) -> st.SearchStrategy[Any]:
    match kind:
        case Written():
            return NAMES | st.integers(0, 99) | st.booleans()
        case FilePath():
            return NAMES.map(lambda name: f"{name}.json")
        case Switch():
            return st.booleans()
        case Whole():
            return st.integers(kind.least, 10**9 if kind.most is None else kind.most)
        case _:
            assert isinstance(kind, Number)
            return st.floats(kind.least, kind.most, exclude_min=kind.above)


def section(kind: Section) -> st.SearchStrategy[dict[str, Any]]:
    needed = {key.name for key in kind.keys if key.required} | {*kind.any_of[:1]}
    one_of = [{name} for name in kind.exactly_one] or [set[str]()]

    def with_one(chosen: set[str]) -> st.SearchStrategy[dict[str, Any]]:
        always = needed | chosen
        fitting = [key for key in kind.keys if key.name not in {*kind.exactly_one} - chosen]
        given = {key.name: valid(key.kind, least=int(key.name in kind.any_of[:1])) for key in fitting}
        optional = {name: each for name, each in given.items() if name not in always}
        return st.fixed_dictionaries({name: given[name] for name in always}, optional=optional)

    return st.sampled_from(one_of).flatmap(with_one)


DOCUMENTS = section(TOP)


@st.composite
def near_misses(draw: st.DrawFn) -> dict[str, Any]:
    """A document that fits, with one value somewhere in it replaced, or one key put in or taken out."""
    document = draw(DOCUMENTS)
    holder: Any = document
    while True:
        places = [*holder] if isinstance(holder, dict) else [*range(len(holder))]
        place = draw(st.sampled_from(places))
        inner = holder[place]
        if not inner or not isinstance(inner, dict | list) or draw(st.integers(0, 2)) == 0:
            break
        holder = inner
    change = draw(st.sampled_from(["replace", "remove", "add"])) if isinstance(holder, dict) else "replace"
    if change == "replace":
        holder[place] = draw(WRONG)
    elif change == "remove":
        del holder[place]
    else:
        holder[draw(st.sampled_from(["zz", "comand", *TOP.by_name]))] = draw(WRONG)
    return document
