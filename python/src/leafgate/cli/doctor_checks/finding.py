"""What a check found. Nouns only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One check: of what, how it came out, in words, and the fix where one is needed."""

    group: str
    name: str
    state: State
    said: str
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        return {key: value for key, value in asdict(self).items() if key != "fix" or value}


def ok(group: str, name: str, said: str) -> Finding:
    return Finding(group, name, "ok", said)


def warn(group: str, name: str, said: str, fix: str) -> Finding:
    return Finding(group, name, "warn", said, fix)


def fail(group: str, name: str, said: str, fix: str) -> Finding:
    return Finding(group, name, "fail", said, fix)
