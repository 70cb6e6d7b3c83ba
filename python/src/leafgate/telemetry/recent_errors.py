"""The last requests that failed. In: what failed, with which code. Out: a short list for an operator.

Touches the clock it is handed. Names and codes only: nothing that a client sent or a server said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from leafgate.model.errors import FAULT_OF, ErrorCode
from leafgate.model.served import Served
from leafgate.telemetry.labels import label

KEPT: Final = 100


@dataclass(frozen=True)
class _Failure:
    time: float
    served: Served
    code: ErrorCode


class RecentErrors:
    """A ring of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ring: deque[_Failure] = deque(maxlen=KEPT)

    def add(self, served: Served, code: ErrorCode) -> None:
        self._ring.append(_Failure(self._clock(), served, code))

    def as_json(self) -> list[dict[str, Any]]:
        """The latest first."""
        return [
            {
                "t": round(failure.time, 3),
                "correlation_id": failure.served.correlation_id,
                "operation": failure.served.operation,
                "server": label(failure.served.server),
                "code": failure.code,
                "fault": FAULT_OF[failure.code],
            }
            for failure in reversed(self._ring)
        ]
