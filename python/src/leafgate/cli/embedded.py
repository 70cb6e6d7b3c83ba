"""The default without a configuration: the two bundled demo servers. In: nothing. Out: a Config.

Looks for the TypeScript time server in the checkout; an installed wheel has only the notes server, and says so.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from leafgate.config.settings import Config
from leafgate.upstream.server_spec import ServerSpec, StdioServer

DEFAULT_MAP: Final = "qwen/qwen2"
FALLBACK_MAP: Final = "openai/cl100k_base"
_CHECKOUT = Path(__file__).resolve().parents[4]
TIME_SERVER: Final = _CHECKOUT / "typescript" / "dist" / "examples" / "time-server" / "main.js"


def embedded_config() -> Config:
    """Both demo servers, ids of the map that the time server tokenizes with."""
    notes = ServerSpec("notes", StdioServer(sys.executable, ("-m", "leafgate.demo.notes")))
    node = shutil.which("node")
    if node is None or not TIME_SERVER.is_file():
        missing = "Node.js is not installed" if node is None else "the time server is not built"
        return Config(servers=(notes,), map=FALLBACK_MAP, notices=(f"without the demo time server: {missing}",))
    time = ServerSpec("time", StdioServer(node, (str(TIME_SERVER),)))
    return Config(servers=(time, notes), map=DEFAULT_MAP)
