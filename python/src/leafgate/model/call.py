"""Who asks, and for what form of answer. Nouns only; touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal["both", "ids", "text"]


@dataclass(frozen=True)
class Asking:
    """The asking side of one request: whose artifacts it may see, and which map its ids should be in (None: no ids)."""

    owner: str = "local"
    map_digest: str | None = None
    form: Form = "both"


@dataclass(frozen=True)
class Origin:
    """The upstream tool that a result comes from."""

    server: str
    tool: str
