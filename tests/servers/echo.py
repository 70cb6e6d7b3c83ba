"""A server whose answers can be checked: each says what it was asked, with a digest, after a while if so wished.

Writes each call to the file of CALL_LOG, one line with the call's mark, so that calls made twice show.
"""

from __future__ import annotations

import os
from typing import Annotated

import anyio
from echo_answer import answer_to
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.server import Context
from pydantic import Field

server = MCPServer("echo")


def _note(mark: str) -> None:
    with open(os.environ["CALL_LOG"], "a") as log:
        log.write(f"{mark}\n")


@server.tool()
async def echo(
    ctx: Context,
    mark: Annotated[str, Field(description="Comes back in the answer.")],
    size: Annotated[int, Field(description="Of the answer, in bytes.", ge=0, le=4_000_000)] = 0,
    seconds: Annotated[float, Field(description="How long it takes.", ge=0, le=60)] = 0,
) -> str:
    """Echo a mark, with a digest of what follows it."""
    _note(mark)
    for step in range(4 if seconds else 0):
        await ctx.report_progress(step, 4, f"{mark} {step}")
        await anyio.sleep(seconds / 4)
    return answer_to(mark, size)


if __name__ == "__main__":
    server.run()
