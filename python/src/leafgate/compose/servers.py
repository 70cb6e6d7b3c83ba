"""The servers and listings that commands and gateways start from.

The demo servers of a start without a configuration, the tools saved in a `catalog` file, and a listing of configured
servers that are started, asked once and stopped.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import anyio

from leafgate.catalog.snapshot_file import ServerListing, read_catalog_file
from leafgate.config.models import Config
from leafgate.ports import Offers, ToolListing
from leafgate.upstream import ServerSpec, StdioServer
from leafgate.upstream.fleet import Fleet

Listings = tuple[tuple[ServerListing, ...], tuple[str, ...]]  # and the names of servers that did not answer


def ask_servers(specs: Sequence[ServerSpec], report: Callable[[str], None]) -> Listings:
    """Starts the servers, lists their tools and stops them; no tool is called. `report` is called with the progress."""
    # Servers that are down are reported once, at the end, and not at every try.
    logger = logging.getLogger("leafgate.upstream")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        return anyio.run(_ask, specs, report)
    finally:
        logger.setLevel(level)


async def _ask(specs: Sequence[ServerSpec], report: Callable[[str], None]) -> Listings:
    fleet = Fleet(specs)
    async with fleet.running():
        members = fleet.members()
        for place, member in enumerate(members):
            report(f"{place} of {len(members)} servers asked; waiting for {member.spec.name}")
            with anyio.move_on_after(member.spec.start_timeout + member.spec.timeout):
                await member.first_try_over.wait()
        up = [(each.spec.label, each.offers) for each in members if each.state == "up"]
        down = tuple(each.spec.name for each in members if each.state != "up")
    listings = (ServerListing(name, *map(tuple, (at.tools, at.resources, at.prompts))) for name, at in up)
    return tuple(listings), down


def load_saved_offers(path: Path) -> Offers:
    """What the servers of the file offered when it was saved. A bad file raises a ConfigError."""
    saved = read_catalog_file(path)

    def list_all(kind: str) -> list[ToolListing]:
        return [ToolListing(each.server or "", definition) for each in saved for definition in getattr(each, kind)]

    return Offers(tools=list_all("tools"), resources=list_all("resources"), prompts=list_all("prompts"))


def with_saved(live: Offers, saved: Offers) -> Offers:
    """What servers offer now, and the saved offers of servers that offer nothing now."""
    live_servers = {each.server for kind in (live.tools, live.resources, live.templates, live.prompts) for each in kind}

    def add(live: Sequence[ToolListing], saved: Sequence[ToolListing]) -> list[ToolListing]:
        return [*live, *(each for each in saved if each.server not in live_servers)]

    return Offers(
        tools=add(live.tools, saved.tools),
        resources=add(live.resources, saved.resources),
        templates=live.templates,
        prompts=add(live.prompts, saved.prompts),
        skills=live.skills,
        instructions=live.instructions,
    )


DEFAULT_MAP: Final = "qwen/qwen2"
FALLBACK_MAP: Final = "openai/cl100k_base"
TIME_SERVER: Final = Path(__file__).resolve().parents[4] / "typescript/dist/examples/time-server/main.js"


def embedded_config() -> Config:
    """The configuration without a file: both demo servers, with the map of the time server. An installed wheel has only
    the notes server; a notice says so."""
    notes = ServerSpec("notes", StdioServer(sys.executable, ("-m", "leafgate.demo.notes")))
    node = shutil.which("node")
    if node is None or not TIME_SERVER.is_file():
        missing = "Node.js is not installed" if node is None else "the time server is not built"
        return Config(servers=(notes,), map=FALLBACK_MAP, notices=(f"without the demo time server: {missing}",))
    time = ServerSpec("time", StdioServer(node, (str(TIME_SERVER),)))
    return Config(servers=(time, notes), map=DEFAULT_MAP)
