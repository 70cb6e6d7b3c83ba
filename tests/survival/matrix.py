"""Runs the checks. In: subjects. Out: for each subject, transport and era the outcome of each check.

A subject has one process per transport; its eras run one after the other, because some checks change what the server
lists. Checks that do not are run at once.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from call_features import CALL_FEATURES
from connections import Connection, Era, Transport, connect
from features import Feature, Loss
from mcp import MCPError
from offer_features import OFFER_FEATURES
from subjects import Subject, running

FEATURES: Final = (*CALL_FEATURES, *OFFER_FEATURES)
CHECK_SECONDS: Final = 60
ROUTE_SECONDS: Final = 900
AT_ONCE: Final = 3  # subjects with their processes
REASON: Final = 120  # characters
ROUTES: Final[tuple[tuple[Transport, Era], ...]] = (
    ("http", "2025-11-25"),
    ("http", "2026-07-28"),
    ("stdio", "2025-11-25"),
    ("stdio", "2026-07-28"),
    ("sse", "2025-11-25"),
)
"""How a client is connected. SSE is a transport of the handshake era."""


@dataclass(frozen=True)
class Outcome:
    """What became of a feature: `kept`, `lost` or `changed`, and why."""

    outcome: str
    why: str = ""


KEPT: Final = Outcome("kept")
Outcomes = dict[str, Outcome]
"""By the key of a check."""


def key_of(feature: Feature) -> str:
    return f"{feature.group}: {feature.name}"


def route_name(transport: Transport, era: Era) -> str:
    return f"{transport} {era}"


def features_of(transport: Transport, era: Era) -> list[Feature]:
    return [each for each in FEATURES if era in each.eras and transport in each.transports]


async def run_subjects(
    subjects: Sequence[Subject], transports: Mapping[str, Sequence[Transport]]
) -> dict[str, dict[str, Outcomes]]:
    """The outcomes by subject and route, over the transports that are given for each subject."""
    found: dict[str, dict[str, Outcomes]] = {subject.name: {} for subject in subjects}
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def run(subject: Subject, transport: Transport, folder: Path) -> None:
        async with limiter:
            found[subject.name] |= await _run_transport(subject, transport, folder)

    with tempfile.TemporaryDirectory() as folder:
        async with anyio.create_task_group() as group:
            for subject in subjects:
                for transport in transports[subject.name]:
                    group.start_soon(run, subject, transport, Path(folder))
    return {
        name: {route_name(*route): routes[route_name(*route)] for route in ROUTES if route_name(*route) in routes}
        for name, routes in found.items()
    }


async def _run_transport(subject: Subject, transport: Transport, folder: Path) -> dict[str, Outcomes]:
    """The outcomes by route. Where a subject does not come up, or breaks off, the checks that are left are lost."""
    found: dict[str, Outcomes] = {}
    for each, era in ROUTES:
        if each == transport:
            features = features_of(transport, era)
            found[route_name(transport, era)] = {key_of(each): Outcome("lost", "no connection") for each in features}
    try:
        async with running(subject, transport, folder) as target:
            if transport != "stdio":  # a gateway may listen before the server behind it is up
                with anyio.fail_after(CHECK_SECONDS):
                    async with connect(target(), transport, "2025-11-25", subject.connection) as first:
                        await first.tools()
            for each, era in ROUTES:
                if each == transport:
                    with anyio.fail_after(ROUTE_SECONDS):
                        async with connect(target(), transport, era, subject.connection) as connection:
                            outcomes = found[route_name(transport, era)]
                            features = features_of(transport, era)
                            await _run_checks(connection, features, outcomes, subject.checks_at_once)
    except Exception as error:
        print(f"{subject.name}, {transport}: {_reason(error)}", file=sys.stderr)
    return found


async def _run_checks(connection: Connection, features: Sequence[Feature], outcomes: Outcomes, at_once: int) -> None:
    """All checks; those that change nothing at once, before the others."""
    limiter = anyio.CapacityLimiter(at_once)

    async def run(feature: Feature) -> None:
        async with limiter:
            outcomes[key_of(feature)] = await _run_check(connection, feature)

    async with anyio.create_task_group() as group:
        for feature in features:
            if not feature.alone:
                group.start_soon(run, feature)
    for feature in features:
        if feature.alone:
            await run(feature)


async def _run_check(connection: Connection, feature: Feature) -> Outcome:
    try:
        with anyio.fail_after(CHECK_SECONDS):
            await feature.check(connection)
    except Loss as loss:
        return Outcome(loss.outcome, str(loss))
    except TimeoutError:
        return Outcome("lost", "no answer")
    except Exception as error:
        return Outcome("lost", _reason(error))
    return KEPT


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return f"error {error.code}: {' '.join(error.message.split())}"[:REASON]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:REASON]
