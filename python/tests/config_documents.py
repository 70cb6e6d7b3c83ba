"""Configurations for tests: made from sections, and drawn from the models by hypothesis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from leafgate.config.document import Document
from leafgate.config.kinds import SECURE_URL, STATE, Kind, ListOf, MapOf, Section, keys_of, kind_of
from leafgate.config.load import config_of
from leafgate.config.models import Config, ConfigFile, Hash

NAMES = st.text("abcdefgh_-", min_size=1, max_size=8)
FILES = NAMES.map(lambda name: f"{name}.json")
OF_PATTERN = {
    r"^(https?://[^\s/]\S*)$": NAMES.map(lambda name: f"http://{name}/mcp"),
    SECURE_URL.schema["pattern"]: st.sampled_from(
        ["https://x/m", "http://127.0.0.1:80/m", "http://localhost", "http://[::1]"]
    ),
    kind_of(Hash)[0].schema["pattern"]: st.sampled_from(["sha256:" + "0a" * 32, "scrypt:16384:8:1:YQ==:YQ=="]),
    STATE.schema["pattern"]: st.sampled_from(
        ["memory", "sqlite:a b.db", "redis://db/0", "valkeys://a:b@db:1/2", "unix:///r.sock"]
    ),
    r"^((sha256:)?[0-9a-fA-F]{64})$": st.sampled_from(["a" * 64, "sha256:" + "0A" * 32]),
    r"^([a-z0-9-]{1,40})$": st.text("ab9-", min_size=1, max_size=40),
}
WRONG = st.sampled_from([None, True, 0, -1, 1.5, 10**12, "", "zz", [], [[]], [None], {}, {"zz": 1}, {"a": None}])


def make_config(**sections: Any) -> Config:
    """The configuration in a file with these sections; a ConfigError where they are wrong."""
    return config_of(Document(Path("leafgate.yaml"), "yaml", {"catalog": "tools.json", **sections}), {})


def valid(kind: Any, entry: Any = None, least: int = 0) -> st.SearchStrategy[Any]:
    """Values that fit the kind; objects and lists with so many entries or more."""
    match kind:
        case MapOf():
            return st.dictionaries(NAMES, valid(*kind_of(entry)), min_size=least, max_size=2)
        case ListOf():
            inner = valid(*kind_of(entry))
            listed = st.lists(inner, min_size=max(least, kind.least), max_size=2)
            return inner | listed if kind.or_one else listed
        case type():
            return section(kind)
        case Kind(choices=(_, *_)):
            return st.sampled_from(kind.choices)
        case _:
            return scalar(kind.schema)


def scalar(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit the JSON Schema of a scalar kind."""
    match schema:
        case {"pattern": pattern}:
            return OF_PATTERN.get(pattern, FILES)
        case {"type": "string"}:
            return st.text("abc*:", min_size=schema.get("minLength", 0), max_size=6)
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "integer", "minimum": least}:
            return st.integers(least, schema.get("maximum", 10**9))
        case {"type": "number", "maximum": most}:
            least = schema.get("minimum", schema.get("exclusiveMinimum"))
            return st.floats(least, most, exclude_min="exclusiveMinimum" in schema)
        case _:
            return NAMES | st.integers(0, 99) | st.booleans()


def valid_sections(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these keys of a file, with values that fit."""
    keys = keys_of(ConfigFile)
    return st.fixed_dictionaries({}, optional={name: valid(keys[name].kind, keys[name].entry) for name in names})


def section(kind: type[Section]) -> st.SearchStrategy[dict[str, Any]]:
    keys = keys_of(kind)
    needed = {key.name for key in keys.values() if key.required} | {*kind.any_of[:1]}
    one_of = [{name} for name in kind.exactly_one] or [set[str]()]

    def with_one(chosen: set[str]) -> st.SearchStrategy[dict[str, Any]]:
        always = needed | chosen
        fitting = [key for key in keys.values() if key.name not in {*kind.exactly_one} - chosen]
        values = {key.name: valid(key.kind, key.entry, least=int(key.name in kind.any_of[:1])) for key in fitting}
        optional = {name: each for name, each in values.items() if name not in always}
        made = st.fixed_dictionaries({name: values[name] for name in always}, optional=optional)
        return made.filter(bool) if kind.needs_a_key else made

    return st.sampled_from(one_of).flatmap(with_one)


DOCUMENTS = section(ConfigFile)


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
        holder[draw(st.sampled_from(["zz", "comand", *keys_of(ConfigFile)]))] = draw(WRONG)
    return document
