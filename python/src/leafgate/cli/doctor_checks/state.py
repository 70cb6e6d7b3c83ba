"""Checks of where a gateway keeps its state. In: a Config. Out: Findings.

Opens the store as a gateway does, and closes it: a file that is not there yet is made. Its address is said without
secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import anyio

from leafgate.cli.doctor_checks.finding import Finding, fail, ok
from leafgate.cli.state import make_state
from leafgate.config.settings import Config
from leafgate.model.errors import LeafgateError
from leafgate.storage.state import State

GROUP: Final = "state"


def check_state(config: Config) -> Iterator[Finding]:
    """Nothing to say where nothing outlives the process."""
    if config.state == "memory":
        return
    try:
        anyio.run(_open, make_state(config.state))
    except LeafgateError as error:
        yield fail(GROUP, "store", str(error), "correct state, or mend what it names: the gateway will not start")
    else:
        yield ok(GROUP, "store", "can be used")


async def _open(state: State) -> None:
    try:
        await state.open()
    finally:
        await state.close()
