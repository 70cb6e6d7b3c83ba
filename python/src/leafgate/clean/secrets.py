"""What secrets look like: patterns for known kinds, and rules for the names and values of assignments.

A pattern is tried only where one of its literal beginnings stands, and none can look back or run on without limit: this
keeps redaction linear. Names and values of assignments are checked in plain code, where the thresholds can be read.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from leafgate.data import check_types, expand, load_table

Judge = Literal["", "bearer", "basic", "url-password", "assignment"]


@dataclass(frozen=True)
class SecretPattern:
    """One kind of secret. `regex` (for UTF-8 bytes) must match at a beginning; the group `secret`, or the whole match,
    is replaced."""

    type: str
    starts: tuple[str, ...]
    regex: str
    any_case: bool = False
    whole_word: bool = True  # the match may not continue a word
    lead: int = 0  # bytes that belong to the match before the literal beginning
    judge: Judge = ""


_TOKEN_END: Final = r"(?<!\.)(?![A-Za-z0-9])"
_LISTS: Final = dict.fromkeys(("tokens", "starts"), list)
_ENTRY: Final = dict.fromkeys(("type", "regex", "judge"), str) | {"any_case": bool, "whole_word": bool, "lead": int}


def _load_patterns() -> Iterator[SecretPattern]:
    table = load_table("secrets", {"fragments": dict, "patterns": list})
    for entry in table["patterns"]:
        check_types("secrets.toml", entry, _ENTRY | _LISTS)
        for *starts, body in entry.get("tokens", ()):
            rest = expand(body, table["fragments"]) + _TOKEN_END
            yield from (SecretPattern(entry["type"], (start,), re.escape(start) + rest) for start in starts)
        if "tokens" not in entry:
            regex = expand(entry["regex"], table["fragments"])
            yield SecretPattern(**entry | {"starts": tuple(entry["starts"]), "regex": regex})


DEFAULT_PATTERNS: Final[tuple[SecretPattern, ...]] = tuple(_load_patterns())

_MARK: Final = b"[redacted:"
_PLACEHOLDER: Final = re.compile(
    rb"[<{$%\[*].*|.*(?:\*{3}|x{4}|\.{3}|\xe2\x80\xa6).*"
    rb"|(?:your|my|the|some|insert|enter|put|replace|change|example|sample|dummy|placeholder|fake|todo|test)[-_ .].*"
    rb"|(?:change_?me|password|passwd|secret|token|string|none|null|undefined|true|false|redacted|hidden|required|optional)"
    rb"|.*(?:[-_](?:here|goes))",
    re.IGNORECASE | re.DOTALL,
)
_CODE: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|->|::|\?\.)[A-Za-z_][A-Za-z0-9_]*)+")
_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX: Final = re.compile(rb"(?:0x)?[0-9a-fA-F]+")
_PART: Final = re.compile(rb"[-_./:+~=@ ]+")
_WORDY: Final = re.compile(rb"[a-z]*(?:[A-Z][a-z]+){0,8}[A-Z]?|[A-Z]+|[0-9]{1,4}|v[0-9]{1,3}|[A-Za-z]{1,3}[0-9]{1,2}")
_LOCATION: Final = re.compile(
    rb"(?:https?|file|s3|gs|arn|urn|projects|secrets|vault|ref|env|op)(?::|/).*|[./~].*|sha\d+[-:].*", re.I
)

_NAME_OF_PASSWORD: Final = re.compile(r"pass(?:w|_?phrase|_?code)|pwd|(?:^|[_.-])pass$|[a-z]pass$")
_NAME_OF_KEY: Final = re.compile(
    r"(?:api|access|secret|private|encryption|encrypt|decryption|signing|sign|auth|account|shared|master|service|app"
    r"|application|storage|deploy|client|admin|subscription|webhook|hmac|aes|ssh|license|integration|session|root|server"
    r"|write|read|ingest|project|user|rsa|jwt|cookie|crypto|vault|wireguard|preshared)"
    r"[_. -]?key(?:s|_?base64|_?value|_?secret)?$"
)
_NAME_OF_SECRET: Final = re.compile(
    r"secret(?:s|[_-]?(?:key|token|value|base64|access[_-]?key|string|phrase|key[_-]?base))?\d?$|credentials?$"
)
_NAME_OF_TOKEN: Final = re.compile(r"token(?:s|[_-]?(?:secret|value|key))?\d?$")
# Tokens that are not secrets: positions in a list, and counts of what models read
_NAME_OF_OTHER: Final = re.compile(
    r"(?:page|next|prev|previous|cursor|continu\w*|sync|start|resume|pagina\w*|change|delta|watch|idempoten\w*|cancel\w*"
    r"|progress|max|min|num|total|input|output|prompt|completion|public|pub|design|pad|eos|bos|stop|special|client_request)"
    r"[_. -]?(?:\w{0,12}[_-])?(?:token|key|secret)"
)


def name_type(name: str) -> str | None:
    """Return the type of secret that a variable, header or member of this name would hold, or None."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if _NAME_OF_OTHER.search(plain):
        return None
    if _NAME_OF_PASSWORD.search(plain):
        tail = re.split(r"pass(?:word|wd|wort|_?phrase|_?code)?|pwd", plain)[-1]
        ending = re.fullmatch(r"[\d_-]{0,3}|s|[_-]?(?:value|plain|text|plaintext|confirm\w*|new|old)", tail)
        return "password" if ending else None
    for kind, pattern in (("api-key", _NAME_OF_KEY), ("secret", _NAME_OF_SECRET), ("token", _NAME_OF_TOKEN)):
        if pattern.search(plain):
            return kind
    return None


def is_placeholder(value: bytes) -> bool:
    """Does this value stand for a secret, or for one that was removed?"""
    return value.startswith(_MARK) or _PLACEHOLDER.fullmatch(value) is not None


def looks_secret(kind: str, value: bytes, *, quoted: bool) -> bool:
    """Is this value a secret, given the kind that its name implies? Words, paths, expressions and ids are not."""
    if is_placeholder(value) or _LOCATION.fullmatch(value) or (not quoted and _CODE.fullmatch(value)):
        return False
    if kind == "password":
        return _looks_like_password(value)
    if _UUID.fullmatch(value):
        return kind == "api-key"
    return looks_random(value)


def _looks_like_password(value: bytes) -> bool:
    if not 6 <= len(value) <= 256 or re.search(rb"(?i)passw|secret|token|param|field|input", value):
        return False
    classes = [re.search(kind, value) is not None for kind in (rb"[a-z]", rb"[A-Z]", rb"[0-9]", rb"[^A-Za-z0-9_.\-/]")]
    if sum(classes) < 2 or not (classes[2] or classes[3]):
        return False
    return bits_per_byte(value) * len(value) >= 14 and re.fullmatch(rb"[A-Za-z]+[:!?.,;*]+|[0-9.,:%/-]+", value) is None


def looks_random(value: bytes) -> bool:
    """Is the value long and mixed enough to be a key?"""
    if not 16 <= len(value) <= 1024 or not re.fullmatch(rb"[A-Za-z0-9_+/=.~:!@#%^*?-]+", value):
        return False
    if not (re.search(rb"[0-9]", value) and re.search(rb"[A-Za-z]", value)):
        return False
    if all(_WORDY.fullmatch(part) for part in _PART.split(value)):
        return False
    return bits_per_byte(value) >= (2.8 if _HEX.fullmatch(value) else 3.2)


def looks_like_basic_auth(value: bytes) -> bool:
    """Does the value decode to user:password?"""
    try:
        decoded = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False
    return b":" in decoded and len(decoded) > 4 and all(0x20 <= byte < 0x7F for byte in decoded)


def bits_per_byte(value: bytes) -> float:
    """Return Shannon's entropy of the bytes."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
