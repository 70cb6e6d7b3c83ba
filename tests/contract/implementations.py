"""The implementations as processes. In: a command, its map and options, JSON lines. Out: the answers, one per line.

Touches processes. Nothing here knows how an implementation works inside: the seam is the commands of spec 5.8.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from warm_python import PYTHON

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).resolve().parent
TIME_LIMIT: Final = 120

_PYTHON_GROUP = {"encode": "tokens", "decode": "tokens"}


@dataclass(frozen=True)
class Implementation:
    """One language's command."""

    name: str

    def command(self, command: str, map_id: str | None, options: Mapping[str, str]) -> list[str]:
        chosen = [] if map_id is None else ["--map", map_id]
        flags = [part for key, value in options.items() for part in (f"--{key}", value)]
        if self.name == "python" and command == "load":
            return [sys.executable, str(HERE / "load_maps.py")]
        if self.name == "python":
            program = str(ROOT / ".venv" / "bin" / "leafgate")
            if command == "tool-id":
                return [PYTHON, program, command]
            return [PYTHON, program, _PYTHON_GROUP.get(command, "leaf"), command, *chosen, *flags]
        return ["node", str(ROOT / "typescript" / "contract.mjs"), command, *chosen, *flags]

    def answer_raw(
        self, command: str, lines: Sequence[bytes], map_id: str | None = None, options: Mapping[str, str] | None = None
    ) -> list[bytes]:
        ran = subprocess.run(
            self.command(command, map_id, options or {}),
            input=b"".join(line + b"\n" for line in lines),
            capture_output=True,
            timeout=TIME_LIMIT,
            cwd=ROOT,
            env={**os.environ, "XDG_CACHE_HOME": os.devnull},
            check=False,
        )
        answers = ran.stdout.split(b"\n")[:-1]
        if ran.returncode or len(answers) != len(lines):
            raise AssertionError(
                f"{self.name} {command}: {len(answers)} answers to {len(lines)} lines, exit code {ran.returncode}\n"
                + ran.stderr.decode(errors="replace")[-2000:]
            )
        return answers

    def answer(
        self, command: str, lines: Sequence[str], map_id: str | None = None, options: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        raw = [line.encode() for line in lines]
        return [json.loads(answer) for answer in self.answer_raw(command, raw, map_id, options)]


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """The results of some calls that mostly wait for processes."""
    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


IMPLEMENTATIONS: Final = (Implementation("python"), Implementation("node"))
MAPS: Final[tuple[str, ...]] = tuple(e["id"] for e in json.loads((ROOT / "maps" / "index.json").read_bytes())["maps"])


def as_line(value: Mapping[str, Any]) -> str:
    """A JSON line; escaped only where UTF-8 cannot say it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() or _is_utf8(text) else json.dumps(value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
