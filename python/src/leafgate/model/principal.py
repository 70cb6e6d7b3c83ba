"""Who a request over HTTP is made for, and what kinds of requests that one may make. Nouns only; touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

Capability = Literal["browse", "execute", "view", "operate"]

CAPABILITIES: Final[tuple[Capability, ...]] = get_args(Capability)
EVERY_CAPABILITY: Final[frozenset[Capability]] = frozenset(CAPABILITIES)
# What a client needs for its work. To operate is to see how the gateway does for everybody.
CLIENT_CAPABILITIES: Final[frozenset[Capability]] = frozenset({"browse", "execute", "view"})

MAX_NAME: Final = 256


@dataclass(frozen=True)
class Principal:
    """Somebody who was authenticated; without a name, somebody who was let in without it."""

    name: str | None
    capabilities: frozenset[Capability] = CLIENT_CAPABILITIES


ANONYMOUS: Final = Principal(None)


def is_principal_name(value: object) -> bool:
    """Whether this can name a principal: a text that can stand in a line of a log and means one thing."""
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable() and value == value.strip()
