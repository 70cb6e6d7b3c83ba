"""What becomes of a token that somebody else gave out: who its holder is, or a refusal. Touches nothing.

Apart from jwt_verifier, whose libraries take a while to load, and only gateways that are told to take JWTs need them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class TokenRefusedError(Exception):
    """Not a token of ours. The message is ours too, and holds nothing of the token."""


@dataclass(frozen=True)
class VerifiedToken:
    """What a good token says."""

    name: str
    scopes: tuple[str, ...]


class Verifier(Protocol):
    """Whoever can tell good tokens."""

    async def verify(self, token: str) -> VerifiedToken:
        """What the token says; TokenRefusedError unless everything about it is right."""
        ...
