"""What do a token's scopes allow? In: the operator's table of scopes, the scopes of a token. Out: capabilities.

Touches nothing. With a table, only what it grants; without one, clients may do all that clients do, and to operate is
for tokens that the operator handed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leafgate.model.principal import CAPABILITIES, CLIENT_CAPABILITIES, EVERY_CAPABILITY, Capability


@dataclass(frozen=True)
class ScopeGrants:
    """Capabilities by scope; None: the operator has no table."""

    table: Mapping[str, frozenset[Capability]] | None = None

    def of_token(self, scopes: Iterable[str] | None) -> frozenset[Capability]:
        """A token of the operator's. Where there is no table, its scopes are the capabilities by their own names."""
        if self.table is not None:
            return self._granted(scopes or ())
        if scopes is None:
            return EVERY_CAPABILITY
        named = set(scopes)
        return frozenset(capability for capability in CAPABILITIES if capability in named)

    def of_jwt(self, scopes: Iterable[str]) -> frozenset[Capability]:
        """A token of the authorization server's."""
        return CLIENT_CAPABILITIES if self.table is None else self._granted(scopes)

    def scopes_for(self, needed: Iterable[Capability]) -> tuple[str, ...]:
        """The scopes to ask for where these capabilities are needed: for each the one that grants least beside it."""
        chosen = (self._least(capability) for capability in needed)
        return tuple(dict.fromkeys(scope for scope in chosen if scope is not None))

    def _least(self, capability: Capability) -> str | None:
        able = [scope for scope, granted in (self.table or {}).items() if capability in granted]
        return min(able, key=lambda scope: len((self.table or {})[scope]), default=None)

    def _granted(self, scopes: Iterable[str]) -> frozenset[Capability]:
        table = self.table or {}
        return frozenset(capability for scope in scopes for capability in table.get(scope, ()))
