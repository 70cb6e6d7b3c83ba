"""Markdown and HTML links that carry data away. In: a string. Out: the same, links stripped if asked, and a count.

An image is fetched when it is shown and a link when it is clicked: what stands in their URL reaches its host. A URL is
suspect if it goes to a host that is not trusted and has room for a secret: placeholders, long or random values. Pure.
"""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import unquote

LINK: Final = "link"

LinkPolicy = Literal["off", "flag", "strip"]

_URL: Final = r"(?:https?:)?//[^\s<>()\"'`]{4,2000}(?:\([^\s<>()\"'`]{0,200}\)[^\s<>()\"'`]{0,2000})?"
# Each begins with the literal that a link cannot do without; the label before it is read only when the URL is suspect.
_INLINE: Final = re.compile(
    rf"\]\([ ]{{0,4}}<?(?P<url>{_URL})>?(?:[ ]{{1,4}}[\"'(][^\n\"')]{{0,200}}[\"')])?[ ]{{0,4}}\)", re.IGNORECASE
)
_DEFINITION: Final = re.compile(rf"\]:[ \t]{{1,4}}<?(?P<url>{_URL})>?", re.IGNORECASE)
_IMAGE: Final = re.compile(
    rf"<img\s[^<>]{{0,300}}?src\s{{0,2}}=\s{{0,2}}[\"']?(?P<url>{_URL})[\"']?[^<>]{{0,500}}>", re.IGNORECASE
)
_LABEL: Final = re.compile(r"!?\[(?P<label>[^\[\]\n]{0,300})\Z")
_PARTS: Final = re.compile(
    r"(?:https?:)?//(?:[^/?#@]*@)?(?P<host>[^/?#:]+)[^/?#]*(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?", re.IGNORECASE
)
_PLACEHOLDER: Final = re.compile(r"\{[^{}]{0,80}\}|\[[A-Z_]{3,}\]|%7B|<[a-z_]+>|\$[A-Z_]{3,}", re.IGNORECASE)
_HEXADECIMAL: Final = re.compile(r"[0-9a-f-]+", re.IGNORECASE)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_=-]{32,}")
_IMAGE_ROOM: Final = 16  # characters of a value in an image's URL that may pass
_LINK_ROOM: Final = 48


def judge_links(text: str, policy: LinkPolicy, trusted_hosts: tuple[str, ...] = ()) -> tuple[str, int]:
    """The text and the number of suspect links; under `strip`, each is replaced by a note of its host and label."""
    if policy == "off":
        return text, 0
    suspects: list[tuple[int, int, str]] = []
    for pattern in (_INLINE, _DEFINITION, _IMAGE):
        for found in pattern.finditer(text):
            suspects += _suspect(text, found, trusted_hosts, html=pattern is _IMAGE)
    if policy == "flag" or not suspects:
        return text, len(suspects)
    pieces: list[str] = []
    done = 0
    for start, end, note in sorted(suspects):
        if start >= done:
            pieces += (text[done:start], note)
            done = end
    return "".join((*pieces, text[done:])), len(suspects)


def _suspect(
    text: str, found: re.Match[str], trusted_hosts: tuple[str, ...], *, html: bool
) -> list[tuple[int, int, str]]:
    label = None if html else _LABEL.search(text, max(0, found.start() - 302), found.start())
    image = html or (label is not None and label[0].startswith("!"))
    host = suspect_host(found["url"], image=image, trusted_hosts=trusted_hosts)
    if host is None:
        return []
    said = label["label"].strip() if label else ""
    note = f"({'image' if image else 'link'} to {host} withheld{': ' + said if said else ''})"
    return [(label.start() if label else found.start(), found.end(), note)]


def suspect_host(url: str, *, image: bool, trusted_hosts: tuple[str, ...]) -> str | None:
    """The host of a URL that could carry data away."""
    parts = _PARTS.match(url)
    if parts is None:
        return None
    host = parts["host"].lower()
    if any(host == trusted or host.endswith(f".{trusted}") for trusted in trusted_hosts):
        return None
    return host if _has_room(host, parts["path"], parts["query"] or "", image=image) else None


def _has_room(host: str, path: str, query: str, *, image: bool) -> bool:
    values = [unquote(item.partition("=")[2] or item) for item in query.split("&") if item]
    room = _IMAGE_ROOM if image else _LINK_ROOM
    return (
        _PLACEHOLDER.search(query) is not None
        or (image and _PLACEHOLDER.search(path) is not None)
        or any(len(value) >= room and not _HEXADECIMAL.fullmatch(value) for value in values)
        or len(query) >= 8 * room
        or any(_is_encoded(segment) for segment in path.split("/"))
        or any(len(label) > 40 for label in host.split("."))
    )


def _is_encoded(segment: str) -> bool:
    if not _BASE64.fullmatch(segment) or "-" in segment.strip("-"):
        return False
    return segment != segment.lower() and segment != segment.upper() and any(map(str.isdigit, segment))
