"""May this caller use this tool? In: the operator's policy, a catalog item, a principal. Out: allow, deny or approval.

Touches nothing. Fails closed: where there is a policy and no rule of it speaks, the answer is no.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, get_args

from leafgate.model.errors import ConfigError
from leafgate.model.tool import SelectableItem

Effect = Literal["allow", "deny", "require_approval"]

SHOWN_ARGS: Final = 2_000
_VERSION: Final = re.compile(r"[@#]")


@dataclass(frozen=True)
class Rule:
    """One line of a policy. Every condition that it states must hold; one that it does not state always holds.

    Globs are case-sensitive. `tool` is tried on the id, on the id without version and hash, and on the tool's own name.
    A rule about principals never fits a caller without one. Tags are the server's claims: an allowance that rests on
    them trusts the server.
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
        return (
            (self.namespace is None or fnmatchcase(item.namespace, self.namespace))
            and (self.tool is None or names_tool(self.tool, item.id) or _has_name(item, self.tool))
            and set(self.tags) <= set(item.tags)
            and (self.principal is None or (principal is not None and fnmatchcase(principal, self.principal)))
        )


@dataclass(frozen=True)
class CapabilityPolicy:
    """Rules in order: the first one that fits decides. None fits: denied."""

    rules: tuple[Rule, ...] = ()

    def judge(self, item: SelectableItem, principal: str | None) -> Effect:
        return next((rule.effect for rule in self.rules if rule.fits(item, principal)), "deny")


def names_tool(pattern: str, tool_id: str) -> bool:
    """Whether a glob fits a tool id, or the id without its version and hash."""
    return fnmatchcase(tool_id, pattern) or fnmatchcase(_VERSION.split(tool_id, maxsplit=1)[0], pattern)


def _has_name(item: SelectableItem, pattern: str) -> bool:
    return fnmatchcase(item.upstream_name, pattern) or fnmatchcase(item.name, pattern)


def approval_question(item: SelectableItem, args: object) -> str:
    """What a person is asked: the tool and its arguments, with nothing in them that could hide or reorder text."""
    told = _told(args)
    shown, hidden = told[:SHOWN_ARGS], len(told) - SHOWN_ARGS
    rest = f" … and {hidden} more characters that are not shown" if hidden > 0 else ""
    return f"May {item.id} be called with these arguments? {shown}{rest}"


def _told(args: object) -> str:
    try:
        text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=_type_name)
    except (TypeError, ValueError, RecursionError):
        text = _type_name(args)
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def _type_name(value: object) -> str:
    return f"({type(value).__name__})"


def policy_of(document: object) -> CapabilityPolicy:
    """The policy in a configuration: {"rules": [{"effect": ..., "namespace": ..., ...}]}."""
    if not isinstance(document, Mapping) or set(document) != {"rules"} or not isinstance(document["rules"], list):
        raise ConfigError("policy: an object with one key, rules, that is a list")
    return CapabilityPolicy(tuple(_rule(index, rule) for index, rule in enumerate(document["rules"])))


def _rule(index: int, document: object) -> Rule:
    where = f"policy.rules[{index}]"
    if not isinstance(document, Mapping) or "effect" not in document:
        raise ConfigError(f"{where}: an object with an effect")
    known: dict[str, Any] = {"effect": str, "namespace": str, "tool": str, "tags": list, "principal": str}
    for key, value in document.items():
        # A condition that is misspelt or misread would widen the rule, so nothing unknown is passed over.
        if key not in known or not isinstance(value, known[key]):
            raise ConfigError(f"{where}.{key}: known are {', '.join(known)}; tags is a list, the others are texts")
    tags = document.get("tags", [])
    if not all(isinstance(tag, str) for tag in tags):
        raise ConfigError(f"{where}.tags: a list of texts")
    return Rule(
        document["effect"], document.get("namespace"), document.get("tool"), tuple(tags), document.get("principal")
    )
