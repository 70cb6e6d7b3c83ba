"""Who makes a request over HTTP, and what a principal may see and do: policies, visibility, limits of calls.

A policy fails closed: where there is one and none of its rules fits a tool, the tool is denied. An item that is not
visible does not exist for the caller: it has no card, is not counted, and its id is as unknown as any other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final, Literal, Protocol, get_args

from leafgate.model.errors import ConfigError
from leafgate.model.tool import SelectableItem

Capability = Literal["browse", "execute", "view", "operate"]

CAPABILITIES: Final[tuple[Capability, ...]] = get_args(Capability)
EVERY_CAPABILITY: Final[frozenset[Capability]] = frozenset(CAPABILITIES)
# What a client needs for its work. `operate` shows the state of the gateway for all clients.
CLIENT_CAPABILITIES: Final[frozenset[Capability]] = frozenset({"browse", "execute", "view"})

MAX_NAME: Final = 256


@dataclass(frozen=True)
class Principal:
    """An authenticated caller; without a name, a caller of a gateway that does not require authentication."""

    name: str | None
    capabilities: frozenset[Capability] = CLIENT_CAPABILITIES


ANONYMOUS: Final = Principal(None)


def is_principal_name(value: object) -> bool:
    """Whether this can name a principal: a printable text that a log line can hold, without spaces around it."""
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable() and value == value.strip()


Effect = Literal["allow", "deny", "require_approval"]

_VERSION: Final = re.compile(r"[@#]")


@dataclass(frozen=True)
class Rule:
    """One line of a policy. It fits where every condition that it states holds.

    Globs are case-sensitive. `tool` is matched against the id, the id without version and hash, and the tool's own
    name. A rule about principals never fits a caller without one. Tags are the server's claims: an allowance that
    rests on them trusts the server.
    """

    effect: Effect
    namespace: str | None = None
    tool: str | None = None
    tags: tuple[str, ...] = ()
    principal: str | None = None

    def __post_init__(self) -> None:
        if self.effect not in get_args(Effect):
            raise ConfigError(f"policy: the effect of a rule is one of {', '.join(get_args(Effect))}")

    def fits(self, item: SelectableItem, principal: str | None) -> bool:
        tool = "*" if self.tool is None else self.tool
        return (
            (self.namespace is None or fnmatchcase(item.namespace, self.namespace))
            and (names_tool(tool, item.id) or fnmatchcase(item.upstream_name, tool) or fnmatchcase(item.name, tool))
            and set(self.tags) <= set(item.tags)
            and self.is_about(principal)
        )

    def is_about(self, principal: str | None) -> bool:
        """Whether the rule speaks of this principal, whatever the tool."""
        return self.principal is None or (principal is not None and fnmatchcase(principal, self.principal))


@dataclass(frozen=True)
class CapabilityPolicy:
    """Rules in order: the first one that fits decides. Where none fits, the tool is denied."""

    rules: tuple[Rule, ...] = ()

    def judge(self, item: SelectableItem, principal: str | None) -> Effect:
        return next((rule.effect for rule in self.rules if rule.fits(item, principal)), "deny")

    def narrow_to(self, principal: str | None) -> CapabilityPolicy:
        """The policy as it reads for one principal, with no principal left in its rules.

        Principals for whom it reads alike get equal policies, so that a thousand of them share one view of a catalog.
        """
        return CapabilityPolicy(tuple(replace(rule, principal=None) for rule in self.rules if rule.is_about(principal)))


def names_tool(pattern: str, tool_id: str) -> bool:
    """Whether a glob fits a tool id, or the id without its version and hash."""
    return fnmatchcase(tool_id, pattern) or fnmatchcase(_VERSION.split(tool_id, maxsplit=1)[0], pattern)


@dataclass(frozen=True)
class Visibility:
    """Which items of the catalog exist for a caller: globs over ids, and a policy whose denials hide tools.

    Globs are matched against the id, and the id without its version and hash; for resources and prompts also without
    the kind in front, so that `github:*` means all that github offers. Without an include glob everything is included.
    An exclusion always wins. Policies apply to tools only. `for_models` hides the tools that only apps call.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    hidden_by: CapabilityPolicy | None = None
    for_models: bool = False
    is_whole: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Read by every request: whether nothing is hidden, whatever the catalog holds.
        is_whole = not self.include and not self.exclude and self.hidden_by is None and not self.for_models
        object.__setattr__(self, "is_whole", is_whole)

    def sees(self, item: SelectableItem) -> bool:
        if (self.include and not _fits_any(item, self.include)) or _fits_any(item, self.exclude):
            return False
        if self.for_models and not item.is_for_models:
            return False
        return self.hidden_by is None or item.kind != "tool" or self.hidden_by.judge(item, None) != "deny"

    def without_denied(self, policy: CapabilityPolicy | None, principal: str | None) -> Visibility:
        """The same, less the tools that a policy denies this principal."""
        return self if policy is None else replace(self, hidden_by=policy.narrow_to(principal))


def _fits_any(item: SelectableItem, globs: tuple[str, ...]) -> bool:
    bare = item.id.removeprefix(f"{item.kind}::")
    return any(names_tool(glob, item.id) or (bare != item.id and names_tool(glob, bare)) for glob in globs)


@dataclass(frozen=True)
class QuotaBreach:
    """The limit that a call would exceed: its scope (a meta-tool or a tool id), its name, and when to try again."""

    scope: str
    limit: Literal["max_calls_per_minute", "max_calls_per_session"]
    retry_after: float | None


class Quotas(Protocol):
    """Counts calls per owner and scope. A scope is the name of a meta-tool, or a tool id. Raises StoreError."""

    async def take(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        """Count one call in every scope; or in none of them, and return the limit that forbids it."""

    async def peek(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        """What `take` would return; counts nothing."""


@dataclass(frozen=True)
class Rights:
    """What one principal has that differs from the gateway's own settings; None means no difference.

    `visibility` is what the principal may know of, `maps` the digests of the tokenizer maps it may ask for.
    """

    visibility: Visibility = Visibility()
    policy: CapabilityPolicy | None = None
    quotas: Quotas | None = None
    maps: frozenset[str] | None = None
