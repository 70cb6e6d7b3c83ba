"""A server with a letter to read, as a tool and as a resource, and a tool that writes what it is given to CALL_LOG."""

from __future__ import annotations

import os

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

LETTER = "Dear Ines, the seed potatoes are in the cellar of the old brewery, behind the blue door. Yours, Tomasz"

server = MCPServer("courier")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_letter() -> str:
    """Read the letter."""
    return LETTER


@server.resource("letter://1")
def letter() -> str:
    """The same letter."""
    return LETTER


@server.tool()
def write_note(note: str) -> str:
    """Write a note."""
    with open(os.environ["CALL_LOG"], "a") as log:
        log.write(f"{note}\n")
    return "written"


if __name__ == "__main__":
    server.run()
