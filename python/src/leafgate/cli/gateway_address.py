"""Where a running gateway is, and what it wants to see. In: a URL, the environment. Out: addresses and headers.

Touches nothing. A token comes from LEAFGATE_TOKEN only: what stands on a command line can be read by everybody on the
machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from leafgate.config.settings import DEFAULT_HOST, DEFAULT_PORT

DEFAULT_URL: Final = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
TOKEN_VARIABLE: Final = "LEAFGATE_TOKEN"
SSE_PATH: Final = "/sse"


def token_headers(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a gateway with authentication wants to see."""
    token = environment.get(TOKEN_VARIABLE, "")
    return {"Authorization": f"Bearer {token}"} if token else {}


def root_of(url: str) -> str:
    """A gateway's address without the path of its MCP endpoint."""
    return url.rstrip("/").removesuffix("/mcp").removesuffix(SSE_PATH)


def is_sse(url: str) -> bool:
    """Whether this is the address of a gateway on the older transport, `serve --transport sse`."""
    return url.rstrip("/").endswith(SSE_PATH)
