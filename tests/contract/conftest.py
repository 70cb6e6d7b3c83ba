"""Both implementations must be there: a suite that proves agreement does not skip half of it."""

from __future__ import annotations

import pytest
from implementations import ROOT


def pytest_configure(config: pytest.Config) -> None:
    needed = [".venv/bin/leafgate", "typescript/dist/src/index.js", "typescript/node_modules/@modelcontextprotocol/sdk"]
    missing = [path for path in needed if not (ROOT / path).exists()]
    if missing:
        raise pytest.UsageError(f"missing: {', '.join(missing)}. Run `just setup` first.")
