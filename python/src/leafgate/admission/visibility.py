"""Which items does somebody see? In: globs over ids, a policy, a principal. Out: yes or no for each catalog item.

Touches nothing. What is not seen is not there: it is no card, no count, and its id is as unknown as any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from leafgate.admission.capability import CapabilityPolicy, names_tool
from leafgate.model.tool import SelectableItem


@dataclass(frozen=True)
class Visibility:
    """Globs over ids, and a policy whose denials hide.

    Globs are tried on the id, and on the id without its version and hash; for resources and prompts also without the
    kind in front, so that `github:*` means all that github offers. Without an include glob everything is included. An
    exclusion always wins. Policies speak of tools only.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    hidden_by: CapabilityPolicy | None = None

    @property
    def is_whole(self) -> bool:
        """Nothing is hidden, whatever there is."""
        return not self.include and not self.exclude and self.hidden_by is None

    def sees(self, item: SelectableItem) -> bool:
        if self.include and not _is_named(item, self.include):
            return False
        if _is_named(item, self.exclude):
            return False
        denied = self.hidden_by is not None and item.kind == "tool" and self.hidden_by.judge(item, None) == "deny"
        return not denied

    def without_denied(self, policy: CapabilityPolicy | None, principal: str | None) -> Visibility:
        """The same, less the tools that a policy denies this principal."""
        return self if policy is None else replace(self, hidden_by=spoken_to(policy, principal))


EVERYTHING: Final = Visibility()


def _is_named(item: SelectableItem, globs: tuple[str, ...]) -> bool:
    bare = item.id.removeprefix(f"{item.kind}::")
    return any(names_tool(glob, item.id) or (bare != item.id and names_tool(glob, bare)) for glob in globs)


def spoken_to(policy: CapabilityPolicy, principal: str | None) -> CapabilityPolicy:
    """The policy as it reads for one principal, with no principal left in it.

    Principals for whom it reads alike get equal policies; so a thousand of them can share one view of a catalog.
    """
    meant = (rule for rule in policy.rules if rule.principal is None or _fits(rule.principal, principal))
    return CapabilityPolicy(tuple(replace(rule, principal=None) for rule in meant))


def _fits(glob: str, principal: str | None) -> bool:
    return principal is not None and fnmatchcase(principal, glob)
