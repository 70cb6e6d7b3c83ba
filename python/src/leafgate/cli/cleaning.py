"""How foreign text is cleaned, as the operator configured it. In: the `sanitize` and `redact` blocks. Out: Cleaners.

A server's own `sanitize` block counts for what comes from it; the file's counts for everything else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from leafgate.firewall.cleaner import Cleaner, make_cleaner
from leafgate.firewall.links import LinkPolicy
from leafgate.firewall.redact import RedactPolicy
from leafgate.firewall.sanitize import SanitizePolicy
from leafgate.firewall.secrets import DEFAULT_PATTERNS, SecretPattern
from leafgate.model.errors import ConfigError


def make_cleaners(
    sanitize: object, redact: object, by_server: Mapping[str, object]
) -> tuple[Cleaner, Mapping[str, Cleaner]]:
    """The cleaner for everything, and those of servers with a block of their own."""
    hidden = redact_policy_of(redact)
    own = {server: make_cleaner(sanitize_policy_of(block), hidden) for server, block in by_server.items()}
    return make_cleaner(sanitize_policy_of(sanitize), hidden), own


def sanitize_policy_of(block: object) -> SanitizePolicy:
    """{escape_html, links, trusted_hosts}, each optional."""
    fields = _fields(block, "sanitize", {"escape_html": bool, "links": str, "trusted_hosts": list})
    links = fields.get("links", "flag")
    if links not in get_args(LinkPolicy):
        raise ConfigError(f"sanitize.links: one of {', '.join(get_args(LinkPolicy))}")
    return SanitizePolicy(
        escape_html=fields.get("escape_html", False),
        links=links,
        trusted_hosts=_texts(fields, "sanitize", "trusted_hosts"),
    )


def redact_policy_of(block: object) -> RedactPolicy:
    """{allow: [values], patterns: [{type, start, regex}]}: values that are no secret, and secrets of your own."""
    fields = _fields(block, "redact", {"allow": list, "patterns": list})
    own = tuple(_pattern(index, found) for index, found in enumerate(fields.get("patterns", [])))
    return RedactPolicy(patterns=(*DEFAULT_PATTERNS, *own), allow=_texts(fields, "redact", "allow"))


def _pattern(index: int, found: object) -> SecretPattern:
    where = f"redact.patterns[{index}]"
    fields = _fields(found, where, {"type": str, "start": str, "regex": str})
    if len(fields) != 3 or len(fields["start"]) < 2 or not re.fullmatch(r"[a-z0-9-]{1,40}", fields["type"]):
        raise ConfigError(
            f"{where}: type (lower-case words), start (what it literally begins with) and regex are needed"
        )
    try:
        re.compile(fields["regex"].encode())
    except (re.error, UnicodeEncodeError) as error:
        raise ConfigError(f"{where}.regex: {error}") from None
    return SecretPattern(fields["type"], (fields["start"],), fields["regex"])


def _fields(block: object, where: str, known: Mapping[str, type[Any]]) -> Mapping[str, Any]:
    if block is None:
        return {}
    if not isinstance(block, Mapping):
        raise ConfigError(f"{where}: an object with {', '.join(known)}")
    for key, value in block.items():
        if key not in known or not isinstance(value, known[key]):
            raise ConfigError(
                f"{where}.{key}: known are {', '.join(f'{name} ({kind.__name__})' for name, kind in known.items())}"
            )
    return block


def _texts(fields: Mapping[str, Any], where: str, name: str) -> tuple[str, ...]:
    values = fields.get(name, [])
    if not all(isinstance(value, str) for value in values):
        raise ConfigError(f"{where}.{name}: a list of texts")
    return tuple(values)
