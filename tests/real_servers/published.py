"""The published servers that the tests start: how each is run, and what must be installed first. Touches no process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEAFGATE = ROOT / ".venv" / "bin" / "leafgate"
INSTALLED = ROOT / ".tools" / "servers"
_NPM = INSTALLED / "npm" / "node_modules" / "@modelcontextprotocol"
_PROGRAMS = {
    "everything": _NPM / "server-everything" / "dist" / "index.js",
    "files": _NPM / "server-filesystem" / "dist" / "index.js",
    "memory": _NPM / "server-memory" / "dist" / "index.js",
    "time": INSTALLED / "mcp-server-time" / "bin" / "mcp-server-time",
    "git": INSTALLED / "mcp-server-git" / "bin" / "mcp-server-git",
}


def require_installed() -> None:
    """Skips with the reason where the servers are missing; with CI=true that is a failure."""
    missing = [name for name, program in _PROGRAMS.items() if not program.exists()]
    if not missing:
        return
    reason = f"not installed: {', '.join(missing)}; scripts/install-test-servers.sh installs them"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def server_blocks(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """The `mcpServers` of a configuration in which all five work inside this folder."""
    node = shutil.which("node") or "node"
    return {
        "everything": {"command": node, "args": [str(_PROGRAMS["everything"])]},
        "files": {"command": node, "args": [str(_PROGRAMS["files"]), str(folder)]},
        "memory": {
            "command": node,
            "args": [str(_PROGRAMS["memory"])],
            "env": {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")},
        },
        "time": {"command": str(_PROGRAMS["time"]), "args": ["--local-timezone", "UTC"]},
        "git": {"command": str(_PROGRAMS["git"]), "args": ["--repository", str(folder / "repo")]},
    }
