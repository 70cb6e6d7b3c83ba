"""leafgate: an MCP gateway that keeps a model's context small, clean and already tokenized.

The public names are listed once, in `__init__.pyi`: type checkers read that file as it is, and here each name is loaded
from its module on first use, because importing the MCP SDK takes a second.
"""

import importlib
import re
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text("utf-8")
_HOME = {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", _STUB, re.MULTILINE)}

__all__ = [*_HOME]  # noqa: PLE0604  the names of the stub


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'leafgate' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
