"""The peers, each from its package at a pinned version in an environment of its own. Out: paths, or what went wrong.

Touches .tools/peers and, through uv, the package index. A peer that cannot be installed is reported; the rest goes on.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Final

from leafgate.maps.files import MapFiles

ROOT: Final = Path(__file__).resolve().parents[2]
PEERS: Final = ROOT / ".tools" / "peers"
UV: Final = ROOT / ".tools" / "uv-env" / "bin" / "uv"
FASTMCP: Final = "fastmcp==4.1.2"
MCP_PROXY: Final = "mcp-proxy==0.13.0"
CONTEXTWEAVER: Final = "contextweaver==0.18.2"
PACKAGES: Final = (CONTEXTWEAVER, FASTMCP, MCP_PROXY)
INSTALL_SECONDS: Final = 300
# contextweaver counts with tiktoken, which fetches its ranks unless they lie in a folder under this name. Its own
# documentation says to put them there; else every start waits for a host that many machines cannot reach.
RANKS: Final = PEERS / "tiktoken-cache"
RANKS_NAME: Final = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
RANKS_SHA256: Final = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"


def name_of(package: str) -> str:
    return package.split("==", maxsplit=1)[0]


def program(package: str, name: str) -> Path:
    """A program of a peer's environment."""
    return PEERS / name_of(package) / "bin" / name


def install(package: str) -> str | None:
    """Puts a peer into its own environment, unless it is there; what went wrong, if anything did."""
    name = name_of(package)
    stamp = PEERS / f"{name}.stamp"
    if stamp.is_file() and stamp.read_text() == package:
        return None
    for command in (
        [str(UV), "venv", "--quiet", "--clear", "--python", sys.executable, str(PEERS / name)],
        [str(UV), "pip", "install", "--quiet", "--python", str(program(package, "python")), package],
    ):
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"not installed: {type(error).__name__}"
        if ran.returncode:
            return f"not installed: {' '.join(ran.stderr.split())[-160:]}"
    stamp.write_text(package)
    return None


def ranks_folder() -> Path:
    """A folder with the ranks of cl100k_base, made of our map: the same bytes as the file that tiktoken would fetch."""
    file = RANKS / RANKS_NAME
    if not file.is_file():
        ranks = MapFiles().load("openai/cl100k_base").map.ranks
        lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in sorted(ranks.items(), key=lambda r: r[1]))
        made = b"".join(lines)
        assert hashlib.sha256(made).hexdigest() == RANKS_SHA256
        RANKS.mkdir(parents=True, exist_ok=True)
        file.write_bytes(made)
    return RANKS
