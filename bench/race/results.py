"""The results file: what a run found. In and out: JSON. May touch: the file.

The shape: date, quick, machine, peers (package: problem or null), library (in_process), calls (calls), starts (starts).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, cast

HERE: Final = Path(__file__).resolve().parent
KEPT: Final = HERE / "measured.json"
DIGITS: Final = 4

Results = dict[str, Any]


def read(file: Path = KEPT) -> Results:
    return cast(Results, json.loads(file.read_text(encoding="utf-8")))


def write(results: Results, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(_rounded(results), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    """Figures with as many digits as mean something."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value
