"""The request that is being served: what log lines, error reports and spans of it have in common. Nouns only.

`SERVING` is set for as long as a request lasts, in its own task; whoever writes a log line may read it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Served:
    """One request: the id that leads from an answer to the log, what was asked, and the server it went to, if any."""

    correlation_id: str
    operation: str
    server: str = ""


SERVING: Final[ContextVar[Served | None]] = ContextVar("serving", default=None)
