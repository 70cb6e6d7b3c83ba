"""fastmcp's proxy with one session kept open to the server behind. Runs in fastmcp's own environment.

    python fastmcp_kept.py CONFIG PORT

CONFIG is a client's file with one server. fastmcp offers this way, and warns that all clients then share the session.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.server import create_proxy


async def serve(config: dict[str, Any], port: int) -> None:
    async with Client(config) as client:
        proxy = create_proxy(client)
        await proxy.run_http_async(show_banner=False, host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), int(sys.argv[2])))
