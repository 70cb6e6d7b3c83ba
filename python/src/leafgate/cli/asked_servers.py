"""What configured servers offer, asked once. In: ServerSpecs. Out: a listing of each that answered, and who did not.

Touches processes and the network: all servers are started at the same time, listed and ended; no tool is called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import anyio

from leafgate.catalog.snapshot_file import ServerListing
from leafgate.upstream.fleet import Fleet
from leafgate.upstream.server_spec import ServerSpec
from leafgate.upstream.supervise import Supervised


def ask_servers(
    specs: Sequence[ServerSpec], tell: Callable[[str], None]
) -> tuple[tuple[ServerListing, ...], tuple[str, ...]]:
    """Their listings, and the names of those that gave none. `tell` hears how far it is."""
    with _quiet():
        return anyio.run(_ask, specs, tell)


async def _ask(
    specs: Sequence[ServerSpec], tell: Callable[[str], None]
) -> tuple[tuple[ServerListing, ...], tuple[str, ...]]:
    fleet = Fleet(specs)
    async with fleet.running():
        members = fleet.members()
        for place, member in enumerate(members):
            tell(f"{place} of {len(members)} servers asked; waiting for {member.spec.name}")
            with anyio.move_on_after(member.spec.start_timeout + member.spec.timeout):
                await member.first_try_over.wait()
        up = [member for member in members if member.state == "up"]
        return tuple(_listing(member) for member in up), tuple(each.spec.name for each in members if each not in up)


def _listing(member: Supervised) -> ServerListing:
    offers = member.offers
    return ServerListing(member.spec.label, tuple(offers.tools), tuple(offers.resources), tuple(offers.prompts))


@contextmanager
def _quiet() -> Iterator[None]:
    """Who is down is told once, at the end, and not at every try."""
    logger = logging.getLogger("leafgate.upstream")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
