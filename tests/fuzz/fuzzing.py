"""Feeds a reader. In: a Reader and a number. Out: how many inputs it took; raises with the smallest that fails."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from readers import Reader

# No reader here has work for more than milliseconds; this is room for a busy machine.
HANG_SECONDS = 10.0


class Hang(BaseException):
    """A reader did not come back."""


@contextmanager
def _coming_back() -> Iterator[None]:
    def interrupt(number: int, frame: object) -> None:
        raise Hang(f"no answer within {HANG_SECONDS} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def feed(reader: Reader, inputs: int, seed: int) -> int:
    """Runs the reader on this many inputs (fewer where there are no more different ones)."""
    taken = 0

    @seeded(seed)
    @settings(
        max_examples=inputs,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(reader.inputs)
    def one(given_input: Any) -> None:
        nonlocal taken
        taken += 1
        try:
            with _coming_back():
                reader.read(given_input)
        except reader.refusals:
            pass
        except Hang as hang:
            raise AssertionError(f"{reader.name}: {hang}") from None

    one()
    return taken
