"""The secrets in a client's servers. In: what its file says of them. Out: the same with references, or a text without.

Touches nothing. A secret stands in a server's environment, its headers, its URL, or behind a flag among its arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from leafgate.firewall.redact import redact_text
from leafgate.firewall.secrets import looks_random, name_type
from leafgate.upstream.server_spec import HttpServer, StdioServer

HIDDEN: Final = "(hidden)"
LONG: Final = 8  # a value of an environment that is shorter, and not named like a secret, may be shown

_HOLDERS: Final = ("env", "headers")
_SECRET_HEADERS: Final = re.compile(r"authorization|cookie|x-api-key", re.IGNORECASE)
_WORDS: Final = re.compile(r"[A-Za-z]+(?:[ _./-][A-Za-z]+)*+")
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


def secrets_of(reach: StdioServer | HttpServer) -> frozenset[str]:
    """What a server is given that nobody else is to read: whole values, and the parts that it may repeat alone."""
    if isinstance(reach, StdioServer):
        flagged = {secret for _, secret in map(_flagged, ("", *reach.args), reach.args) if secret is not None}
        held = _not_plain(reach.env.items())
        # Where a password is all that is secret of an address, the rest helps whoever reads what went wrong with it.
        whole = {name: value for name, value in held.items() if name_type(name) or not secrets_of_url(value)}
        parts = frozenset[str]().union(*map(secrets_of_url, held.values()))
        return secrets_in({"env": whole, "args": [*reach.args]}) | flagged | parts
    headers = _not_plain(reach.headers.items())
    tokens = frozenset(value.rpartition(" ")[2] for value in headers.values())  # behind `Bearer`
    return secrets_in({"headers": headers, "url": reach.url}) | tokens | secrets_of_url(reach.url)


def secrets_of_url(url: str) -> frozenset[str]:
    """Its password, and what its query holds."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return frozenset()
    found = (parts.password, *_not_plain(parse_qsl(parts.query)).values())
    return frozenset(part for part in found if part)


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


def secret_names(entry: Mapping[str, Any]) -> list[str]:
    """What of a server holds a secret in plain sight: the names of variables and headers, flags, its url."""
    held = [
        str(name)
        for holder in _HOLDERS
        for name, value in (entry.get(holder) or {}).items()
        if is_secret(str(name), str(value))
    ]
    args = entry.get("args")
    flagged = [_flagged(*pair) for pair in pairwise(("", *(args if isinstance(args, list) else ())))]
    flags = [flag for flag, secret in flagged if secret is not None]
    return [*held, *flags, *(["url"] if _is_secret_url(entry.get("url")) else [])]


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
        if _is_secret_url(entry.get("url")):
            changed["url"] = _reference(values, server, f"{server}_url", entry["url"])
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
            elif key == "url" and _is_secret_url(inner):
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


def _not_plain(held: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What may be a secret. Words and paths that are not called one are none: a log without them could not be read."""
    return {name: value for name, value in held if is_secret(name, value) or not _is_plain(value)}


def _is_plain(value: str) -> bool:
    if "://" in value:
        return not _is_secret_url(value)
    if value.startswith(("/", "./", "~/")):
        return not any(looks_random(part.encode()) for part in value.split("/"))
    return _WORDS.fullmatch(value) is not None


def _is_secret_url(url: object) -> bool:
    """Whether a URL holds a password, a query or a key among its path's segments, in plain sight."""
    if not isinstance(url, str) or _REFERENCE.search(url):
        return False
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
