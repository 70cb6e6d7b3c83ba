"""Whether the gateway has come up. In: what it still waits for. Out: what is missing; once nothing is, nothing ever is.

Touches nothing. Servers that go down later are no reason to send clients elsewhere: the status tells of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Readiness:
    """Latched: ready stays ready."""

    def __init__(self, waiting_for: Callable[[], Sequence[str]]) -> None:
        self._waiting_for = waiting_for
        self._is_ready = False

    def missing(self) -> Sequence[str]:
        if self._is_ready:
            return ()
        missing = self._waiting_for()
        self._is_ready = not missing
        return missing
