"""The secrets in a client's servers. In: what its file says of them. Out: the same with references, or a text without.

Touches nothing. A secret stands in a server's environment, its headers, or behind a flag among its arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlsplit

from leafgate.firewall.redact import redact_text
from leafgate.firewall.secrets import looks_random, name_type

HIDDEN: Final = "(hidden)"
LONG: Final = 8  # a value of an environment that is shorter, and not named like a secret, may be shown

_HOLDERS: Final = ("env", "headers")
_SECRET_HEADERS: Final = re.compile(r"authorization|cookie|x-api-key", re.IGNORECASE)
_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")
_JSON_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"')


@dataclass(frozen=True)
class Referenced:
    """Servers whose secrets are references to the environment, and the values that the references stand for."""

    servers: Mapping[str, Mapping[str, Any]]
    values: Mapping[str, str]


def is_secret(name: str, value: str) -> bool:
    """Whether a variable or header of this name holds a secret in plain sight."""
    if not value or _REFERENCE.search(value):
        return False
    return bool(name_type(name) or _SECRET_HEADERS.search(name) or redact_text(f"{name}={value}").redacted)


def secrets_in(document: Any) -> frozenset[str]:
    """Every string of a JSON document that a preview must not show."""
    return frozenset(_secrets(document))


def host_of(url: str) -> str:
    """As much of a URL as may be shown: paths and queries hold keys too."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        return HIDDEN


def hide(text: str, secrets: Collection[str]) -> str:
    """A JSON text in which neither these strings nor anything else that looks like a secret can be read."""

    def cover(match: re.Match[str]) -> str:
        return f'"{HIDDEN}"' if _said(match[0]) in secrets else match[0]

    return redact_text(_JSON_STRING.sub(cover, text)).text


def with_references(servers: Mapping[str, Mapping[str, Any]]) -> Referenced:
    """Every secret becomes ${env:NAME}; equal values of one name share it."""
    values: dict[str, str] = {}
    made: dict[str, Mapping[str, Any]] = {}
    for server, entry in servers.items():
        changed = dict(entry)
        for holder in _HOLDERS:
            held = entry.get(holder)
            if isinstance(held, Mapping):
                changed[holder] = {
                    name: _reference(values, server, str(name), value)
                    if isinstance(value, str) and is_secret(str(name), value)
                    else value
                    for name, value in held.items()
                }
        if isinstance(entry.get("args"), list):
            changed["args"] = _args_with_references(values, server, entry["args"])
        made[server] = changed
    return Referenced(made, values)


def _args_with_references(values: dict[str, str], server: str, args: Sequence[Any]) -> list[Any]:
    """`--token VALUE` and `--token=VALUE`; a flag's name alone says little, so the server's stands before it."""
    made: list[Any] = []
    for before, arg in pairwise(("", *args)):
        flag, secret = _flagged(before, arg)
        if secret is None:
            made.append(arg)
            continue
        reference = _reference(values, server, f"{server}_{flag.lstrip('-')}", secret)
        made.append(reference if arg == secret else f"{flag}={reference}")
    return made


def _reference(values: dict[str, str], server: str, name: str, value: str) -> str:
    """Takes the variable's own name if it is free, else one with the server's name before it."""
    own, longer = _variable(name), _variable(f"{server}_{name}")
    candidates = [own, longer, *(f"{longer}_{number}" for number in range(2, len(values) + 3))]
    if name.lower() == "authorization":  # says nothing by itself
        candidates = candidates[1:]
    chosen = next(each for each in candidates if values.get(each, value) == value)
    values[chosen] = value
    return f"${{env:{chosen}}}"


def _variable(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
    return plain if plain and not plain[0].isdigit() else f"LEAFGATE_{plain}"


def _secrets(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in _HOLDERS and isinstance(inner, Mapping):
                yield from _held(key, inner)
            elif key == "args" and isinstance(inner, list):
                yield from _behind_flags(inner)
            elif key == "url" and isinstance(inner, str) and _tells_much(inner):
                yield inner
            else:
                yield from _secrets(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner)


def _held(holder: str, held: Mapping[str, Any]) -> Iterator[str]:
    for name, value in held.items():
        if not isinstance(value, str) or _REFERENCE.search(value):
            continue
        if holder == "headers" or len(value) >= LONG or is_secret(name, value):
            yield value


def _tells_much(url: str) -> bool:
    """Whether a URL holds a password, a query or a key among its path's segments."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    keys = any(looks_random(segment.encode()) for segment in parts.path.split("/"))
    return "@" in parts.netloc or bool(parts.query) or keys


def _behind_flags(args: Sequence[Any]) -> Iterator[str]:
    """The arguments that hold a secret, whole."""
    for before, arg in pairwise(("", *args)):
        if _flagged(before, arg)[1] is not None:
            yield arg


def _flagged(before: Any, arg: Any) -> tuple[str, str | None]:
    """The flag whose secret an argument holds, and the secret."""
    if not isinstance(arg, str) or not arg or _REFERENCE.search(arg):
        return "", None
    flag, equals, value = arg.partition("=")
    if flag.startswith("-"):
        return (flag, value) if equals and value and name_type(flag.lstrip("-")) else (flag, None)
    if isinstance(before, str) and before.startswith("-") and "=" not in before and name_type(before.lstrip("-")):
        return before, arg
    return "", None


def _said(token: str) -> str:
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token
