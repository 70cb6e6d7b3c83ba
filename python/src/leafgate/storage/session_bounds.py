"""How long, and how much of, a session is kept for whoever takes it up. In: nothing. Out: numbers. Touches nothing."""

from __future__ import annotations

import re
from typing import Final

SESSION_SECONDS: Final = 3_600
EVENT_SECONDS: Final = 600
MAX_EVENTS: Final = 256  # of one session
ALIVE_SECONDS: Final = 15

_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def is_event_name(given: str, separator: str = "") -> bool:
    """Whether a client can have been given this name: a number, or two with a separator between them."""
    parts = given.split(separator) if separator else [given]
    return len(parts) == 1 + bool(separator) and all(_NUMBER.fullmatch(part) for part in parts)
