"""The ways by which a client comes to ids, as the benchmark sets them up. In: nothing. Out: names. Touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Tokenizer = Literal["tiktoken", "accelerated"]
ServerName = Literal["canonical", "decode", "trust", "plain"]
Outcome = Literal["leaf", "shim", "none"]

MAP: Final = "qwen/qwen2"


@dataclass(frozen=True)
class Way:
    """One gateway, one server behind it, and whether the client asks for ids."""

    key: str
    title: str
    gateway: Tokenizer
    server: ServerName
    outcome: Outcome

    @property
    def wants_ids(self) -> bool:
        return self.outcome != "none"


NO_IDS: Final = Way("no-ids", "no ids", "tiktoken", "plain", "none")
UNASKED: Final = Way("leaf-unasked", "no ids, leaf server", "tiktoken", "decode", "none")
SHIM: Final = Way("shim-tiktoken", "shim (tiktoken)", "tiktoken", "plain", "shim")
FAST_SHIM: Final = Way("shim-accelerated", "shim (accelerated)", "accelerated", "plain", "shim")
CANONICAL: Final = Way("leaf-canonical", "leaf-canonical", "tiktoken", "canonical", "leaf")
FAST_CANONICAL: Final = Way(
    "leaf-canonical-accelerated", "leaf-canonical (accelerated)", "accelerated", "canonical", "leaf"
)
DECODE: Final = Way("leaf-decode", "leaf-decode", "tiktoken", "decode", "leaf")
TRUST: Final = Way("leaf-trust", "leaf-trust", "tiktoken", "trust", "leaf")

WAYS: Final = (NO_IDS, SHIM, FAST_SHIM, CANONICAL, FAST_CANONICAL, DECODE, TRUST, UNASKED)


def ways_with(tokenizers: frozenset[Tokenizer]) -> tuple[Way, ...]:
    """Those whose tokenizer is at hand."""
    return tuple(way for way in WAYS if way.gateway in tokenizers)


def servers_of(gateway: Tokenizer) -> tuple[ServerName, ...]:
    """The servers that a gateway needs for its ways, each once."""
    return tuple(dict.fromkeys(way.server for way in WAYS if way.gateway == gateway))
