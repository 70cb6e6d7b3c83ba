"""Reads shared-fixtures/. In: its files. Out: cases, with their compact forms written out. Touches files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from implementations import ROOT, as_line

FIXTURES: Final = ROOT / "shared-fixtures"
# Answered by the commands of spec 5.8, by load_maps, and by `tool-id`.
LEAF_FOLDERS: Final = ("map-hash", "tokenize", "write-leaf", "read-leaf", "tool-id")


@dataclass(frozen=True)
class Case:
    """One line in, one line out."""

    name: str
    path: Path
    command: str
    map_id: str | None
    options: tuple[tuple[str, str], ...]
    line: str
    allowed: tuple[Any, ...]


def fixture_files() -> list[Path]:
    return sorted(p for p in FIXTURES.rglob("*.json") if p.name != "fixture.schema.json")


def read_fixture(path: Path) -> Any:
    return json.loads(path.read_bytes())


def leaf_cases() -> Iterator[Case]:
    for path in fixture_files():
        if path.relative_to(FIXTURES).parts[0] in LEAF_FOLDERS:
            yield from (_case(path, written) for written in read_fixture(path)["cases"])


def _case(path: Path, written: dict[str, Any]) -> Case:
    line = written["line"] if "line" in written else as_line(expand(written["input"]))
    expected = json.loads(written["expect_line"]) if "expect_line" in written else expand(written["expect"])
    return Case(
        name=written["name"],
        path=path,
        command=written["command"],
        map_id=written.get("map"),
        options=tuple(sorted(written.get("options", {}).items())),
        line=line,
        allowed=(expected, *written.get("also_allowed", ())),
    )


def write_map_file(file: dict[str, Any], path: Path) -> None:
    """Makes the file of a `load` case: a map with pieces of its text replaced, a text of its own, or no file."""
    if "missing" in file:
        return
    text = file["raw"] if "raw" in file else (ROOT / "maps" / f"{file['base']}.json").read_text(encoding="utf-8")
    for old, new in file.get("replace", []):
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {file['base']}"
        text = text.replace(old, new)
    path.write_bytes(text.encode())


def expand(value: Any) -> Any:
    """Writes out {"repeat": x, "times": n} and {"concat": [x, y]}, for strings and for arrays."""
    if isinstance(value, list):
        return [expand(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"repeat", "times"}:
        return expand(value["repeat"]) * value["times"]
    if value.keys() == {"concat"}:
        parts = expand(value["concat"])
        return "".join(parts) if isinstance(parts[0], str) else [item for part in parts for item in part]
    return {key: expand(item) for key, item in value.items()}


def without_message(answer: Any) -> Any:
    """Messages are for people: they must be there, and may say what they like."""
    if isinstance(answer, dict) and isinstance(answer.get("message"), str) and answer["message"]:
        return {key: value for key, value in answer.items() if key != "message"}
    return answer
