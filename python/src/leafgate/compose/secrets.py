"""Finds the secrets of servers: in the environment, the headers, the URL, or behind a flag among the arguments.

For previews of a client's file, which must not show them, for files in which references replace them, and for the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from leafgate.clean.redact import redact_text
from leafgate.clean.secret_values import looks_random, name_type
from leafgate.upstream import HttpServer, StdioServer

HIDDEN: Final = "(hidden)"
LONG: Final = 8  # a value of an environment that is shorter, and not named like a secret, may be shown

_HOLDERS: Final = ("env", "headers")
# Other names of the same in clients' files.
_ALL_HOLDERS: Final = (*_HOLDERS, "envs", "environment", "http_headers")
_ARGUMENTS: Final = ("args", "command")
_URLS: Final = ("url", "httpUrl", "serverUrl", "uri")
_SECRET_HEADERS: Final = re.compile(r"authorization|cookie|x-api-key", re.IGNORECASE)
_WORDS: Final = re.compile(r"[A-Za-z]+(?:[ _./-][A-Za-z]+)*+")
_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")
_JSON_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"')


@dataclass(frozen=True)
class ServerReferences:
    """Servers whose secrets are references to the environment, and the values that the references stand for."""

    servers: Mapping[str, Mapping[str, Any]]
    values: Mapping[str, str]


def is_secret(name: str, value: str) -> bool:
    """Whether a variable or header of this name holds a secret in plain sight."""
    if not value or _REFERENCE.search(value):
        return False
    return bool(name_type(name) or _SECRET_HEADERS.search(name) or redact_text(f"{name}={value}").report.redacted)


def secrets_in(document: Any) -> frozenset[str]:
    """Every string of a JSON document that a preview must not show."""
    return frozenset(_secrets(document))


def secrets_of(reach: StdioServer | HttpServer) -> frozenset[str]:
    """The credentials of a server: whole values, and the parts that it may repeat alone."""
    if isinstance(reach, StdioServer):
        behind_flags = {secret for _, _, secret in _behind_flags(reach.args)}
        env = _not_plain(reach.env.items())
        # Where only the password of an address is secret, the rest of it helps to understand an error.
        whole = {name: value for name, value in env.items() if name_type(name) or not secrets_of_url(value)}
        parts = frozenset[str]().union(*map(secrets_of_url, env.values()))
        return secrets_in({"env": whole, "args": [*reach.args]}) | behind_flags | parts
    headers = _not_plain(reach.headers.items())
    tokens = frozenset(value.rpartition(" ")[2] for value in headers.values())  # behind `Bearer`
    return secrets_in({"headers": headers, "url": reach.url}) | tokens | secrets_of_url(reach.url)


def secrets_of_url(url: str) -> frozenset[str]:
    """The password of a URL, and the values in its query that may be secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return frozenset()
    secrets = (parts.password, *_not_plain(parse_qsl(parts.query)).values())
    return frozenset(secret for secret in secrets if secret)


def host_of(url: str) -> str:
    """The part of a URL that may be shown: paths and queries may contain keys."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        return HIDDEN


def hide(text: str, secrets: Collection[str], *, is_json: bool = True) -> str:
    """The text with these strings, and all else that looks like a secret, hidden."""

    def cover(match: re.Match[str]) -> str:
        try:
            content = json.loads(match[0], strict=False)
        except ValueError:
            content = match[0]
        return f'"{HIDDEN}"' if content in secrets else match[0]

    text = _JSON_STRING.sub(cover, text)
    if not is_json:  # texts may be without quotes
        for secret in sorted(secrets, key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    return redact_text(text).value


def secret_names(entry: Mapping[str, Any]) -> list[str]:
    """What of a server holds a secret in plain sight: the names of variables and headers, flags, its url."""
    return [name for _, _, name, _ in _secret_places(entry)]


def with_references(servers: Mapping[str, Mapping[str, Any]]) -> ServerReferences:
    """Replace every secret by ${env:NAME}; equal values of one name share a variable."""
    values: dict[str, str] = {}
    entries: dict[str, Any] = {server: deepcopy(dict(entry)) for server, entry in servers.items()}
    for server, entry in entries.items():
        for holder, place, name, secret in _secret_places(entry):
            if not isinstance(secret, str):
                continue
            # The name of a flag says little, so it gets that of the server in front.
            variable = name if holder in _HOLDERS else f"{server}_{name.lstrip('-')}"
            inside = entry if holder == "url" else entry[holder]
            before = inside[place].removesuffix(secret)  # `--token=` before a secret, else nothing
            inside[place] = before + _reference(values, server, variable, secret)
    return ServerReferences(entries, values)


def _secret_places(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any, str, Any]]:
    """Every secret in plain sight: what holds it, the place in that, its name, and the secret."""
    for holder in _HOLDERS:
        for name, value in (entry.get(holder) or {}).items():
            if is_secret(str(name), str(value)):
                yield holder, name, str(name), value
    args = entry.get("args")
    for place, flag, secret in _behind_flags(args if isinstance(args, list) else []):
        yield "args", place, flag, secret
    if _is_secret_url(entry.get("url")):
        yield "url", "url", "url", entry["url"]


def _reference(values: dict[str, str], server: str, name: str, value: str) -> str:
    """Takes the variable's own name if it is free, else one with the server's name before it."""
    own, longer = _variable(name), _variable(f"{server}_{name}")
    candidates = [own, longer, *(f"{longer}_{number}" for number in range(2, len(values) + 3))]
    if name.lower() == "authorization":  # too general
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
            if key in _ALL_HOLDERS and isinstance(inner, Mapping):
                texts = [(name, text) for name, text in inner.items() if isinstance(text, str)]
                for name, text in texts:
                    is_shown = key in ("env", "envs", "environment") and len(text) < LONG and not is_secret(name, text)
                    if not is_shown and not _REFERENCE.search(text):
                        yield text
            elif key in _ARGUMENTS and isinstance(inner, list):
                yield from (inner[place] for place, _, _ in _behind_flags(inner))
            elif key in _URLS and _is_secret_url(inner):
                yield inner
            else:
                yield from _secrets(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner)


def _not_plain(variables: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The values that may be secrets. Words and paths are not, unless their name says so: a log needs them."""
    return {name: value for name, value in variables if is_secret(name, value) or not _is_plain(value)}


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


def _behind_flags(args: Sequence[Any]) -> Iterator[tuple[int, str, str]]:
    """The arguments that hold a secret: the place, the flag, and the secret."""
    for place, (before, arg) in enumerate(pairwise(("", *args))):
        if not isinstance(arg, str) or _REFERENCE.search(arg):
            continue
        flag, _, secret = arg.partition("=")
        if not flag.startswith("-"):  # the secret may be alone, behind its flag
            flag, secret = (before, arg) if isinstance(before, str) and "=" not in before else ("", "")
        if secret and flag.startswith("-") and name_type(flag.lstrip("-")):
            yield place, flag, secret
