"""The server behind the gateway in the client matrix: small and large results, as text and as structured output.

Run: `bakery.py` for stdio, or `bakery.py --transport http`, which listens on a free port and prints its URL.
"""

from __future__ import annotations

import socket
import sys
from typing import Final

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel

LINES: Final = 4_000
META_NOTE: Final = "example.org/note-for-programs"

server = MCPServer("bakery", log_level="ERROR")


class Loaf(BaseModel):
    """One loaf."""

    number: int
    flour: str
    grams: int
    label: str


class Stock(BaseModel):
    """All loaves of a shop."""

    shop: str
    loaves: list[Loaf]


def loaf(number: int) -> Loaf:
    flour = ("rye", "wheat", "spelt", "oat")[number % 4]
    return Loaf(number=number, flour=flour, grams=500 + number * 37 % 501, label=f"label-{number * 7919 % 100_003}")


@server.tool()
def weigh_loaf(number: int) -> CallToolResult:
    """Weigh one loaf: a short text, with a note for programs in `_meta`."""
    text = f"Loaf {number} weighs {loaf(number).grams} grams."
    return CallToolResult(content=[TextContent(type="text", text=text)], _meta={META_NOTE: "x" * 500})


@server.tool(structured_output=True)
def describe_loaf(number: int) -> Loaf:
    """Describe one loaf as a record, with an output schema."""
    return loaf(number)


@server.tool(structured_output=False)
def print_ledger() -> str:
    """Print the ledger of the bakery: a long text."""
    loaves = map(loaf, range(1, LINES + 1))
    return "\n".join(f"{each.number}. sold {each.flour}, {each.label}" for each in loaves)


@server.tool(structured_output=True)
def count_stock() -> Stock:
    """Count the stock of the bakery: a long record, with an output schema."""
    return Stock(shop="corner", loaves=[loaf(number) for number in range(LINES)])


def main() -> None:
    if "http" not in sys.argv:
        server.run("stdio")
        return
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    main()
