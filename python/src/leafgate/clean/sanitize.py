"""Sanitizing: make inert what could act on a model or a terminal, and report what was removed.

The stages run in one order: terminal sequences and control characters, invisible characters, chat markers, links, HTML.
No stage makes work for an earlier one, so sanitizing clean text changes nothing. Clean text costs one search.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal
from urllib.parse import unquote

from leafgate.clean.invisibles import CONTROLS, INVISIBLE, SURROGATES, char_class, strip_invisibles, without
from leafgate.clean.markers import (
    ESCAPE_NEEDLES,
    MARKER,
    MARKER_NEEDLES,
    TokenFinder,
    find_windows,
    neutralise_escaped_markers,
    neutralise_markers,
    neutralise_turns,
)
from leafgate.clean.result import DEPTH, MAX_DEPTH, Cleaned, CleaningReport, all_strings, map_strings, replace_spans
from leafgate.clean.sieve import Needle, Places, Sieve, either, one_of, rest, sequence, utf8

SEQUENCE: Final = "escape-sequence"
CONTROL: Final = "control"
LINK: Final = "link"

LinkPolicy = Literal["off", "flag", "strip"]


@dataclass(frozen=True)
class SanitizePolicy:
    """How the text of one upstream is sanitized. The defaults keep code and data byte for byte."""

    escape_html: bool = False
    links: LinkPolicy = "flag"
    trusted_hosts: tuple[str, ...] = ()  # links to these hosts and their subdomains are not checked
    legacy_turns: bool = False  # also make "Human:" and "Assistant:" after an empty line inert
    max_depth: int = MAX_DEPTH
    tokens: tuple[str, ...] = ()  # special tokens of the reader's own map: searched for literally

    @cached_property
    def token_finder(self) -> TokenFinder:
        """The search for `tokens`, kept with the policy."""
        return TokenFinder(self.tokens)


DEFAULT: Final = SanitizePolicy()


def sanitize_text(text: str, policy: SanitizePolicy = DEFAULT) -> Cleaned[str]:
    """Sanitize a text."""
    return _sanitize(text, policy, _SIEVE.families(utf8(text)))


def _sanitize(text: str, policy: SanitizePolicy, work: Mapping[str, Places | None]) -> Cleaned[str]:
    """Run the stages for which there is work: the families of needles in the text, and where they stand if known."""
    if not work and not policy.escape_html and not policy.legacy_turns and not policy.tokens:
        return Cleaned(text)
    removed: Counter[str] = Counter()
    flagged: dict[str, int] = {}

    def run(stage: Callable[[str], tuple[str, dict[str, int]]]) -> None:
        nonlocal text, work
        before = text
        text, counts = stage(text)
        removed.update(counts)
        if text != before:  # the places are those of the text before
            work = _SIEVE.families(utf8(text))

    if _UNPRINTED in work:
        run(strip_escapes)
        run(strip_invisibles)
    run(policy.token_finder.neutralise)
    if _MARKED in work:
        run(lambda text: neutralise_markers(text, find_windows(text, work[_MARKED])))
    if _ESCAPED in work:
        run(lambda text: neutralise_escaped_markers(text, find_windows(text, work[_ESCAPED])))
    run(policy.token_finder.neutralise)
    if _LINKED in work:
        text, links = check_links(text, policy.links, policy.trusted_hosts)
        if links and policy.links == "flag":
            flagged[LINK] = links
        elif links:
            removed[LINK] += links
    if policy.legacy_turns:
        text, turns = neutralise_turns(text)
        removed.update({MARKER: turns} if turns else {})
    if policy.escape_html:
        text = _AMPERSAND.sub("&amp;", text).translate(_ESCAPES)
    return Cleaned(text, CleaningReport(dict(removed), flagged=flagged)) if removed or flagged else Cleaned(text)


def sanitize_json(value: Any, policy: SanitizePolicy = DEFAULT) -> Cleaned[Any]:
    """Sanitize every string and key of a JSON value. The result has the same structure."""
    strings = all_strings(value, policy.max_depth)
    suspects = find_suspect_texts(strings.items, policy)
    if not suspects and not strings.too_deep:
        return Cleaned(value)
    removed: Counter[str] = Counter()
    flagged: Counter[str] = Counter()

    def clean(text: str, _: str | None) -> str:
        if text not in suspects:
            return text
        result = sanitize_text(text, policy)
        removed.update(result.report.removed)
        flagged.update(result.report.flagged)
        return result.value

    clean_value, withheld = map_strings(value, clean, policy.max_depth)
    if withheld:
        removed[DEPTH] += withheld
    return Cleaned(clean_value, CleaningReport(dict(removed), flagged=dict(flagged)))


def find_suspect_texts(texts: Sequence[str], policy: SanitizePolicy = DEFAULT) -> set[str]:
    """Return those of the texts that sanitizing may change or flag; the others are clean."""
    if policy.escape_html or policy.legacy_turns:
        return set(texts)
    return _SIEVE.find_texts(texts) | policy.token_finder.find_texts(texts)


# Which stages does a text need?

_UNPRINTED: Final = "unprinted"
_LINKED: Final = "linked"
_MARKED: Final = "marked"
_ESCAPED: Final = "escaped"


def _unprinted_needles() -> Iterator[Needle]:
    ranges = (*CONTROLS, *SURROGATES, *INVISIBLE)
    yield (tuple(point for low, high in ranges for point in range(low, min(high, 0x7F) + 1)),)
    heads: dict[bytes, list[int]] = {}
    for low, high in ranges:
        for point in range(max(low, 0x80), high + 1):
            encoded = utf8(chr(point))
            # the plane of tags and selectors holds nothing else
            *head, last = encoded[:2] if 0xE0000 <= point <= 0xE0FFF else encoded
            heads.setdefault(bytes(head), []).append(last)
    yield from ((*((byte,) for byte in head), tuple(lasts)) for head, lasts in heads.items())


# Terminal sequences and control characters

# A string sequence (OSC, DCS, ...) ends at its terminator or is not one: its body holds no control character and no
# line break. An unterminated opening therefore removes no text, and no character is examined twice.
_BODY = r"[^\x00-\x1f\x7f-\x9f]*"
_STRING_END = r"(?:\x1b\\|\x9c)"
_SEQUENCE = rf"""
    (?<=\x1b)(?:
        \[ [0-?]{{0,64}} [\ -/]{{0,16}} [@-~]                       # CSI
      | \] {_BODY} (?:\x07|{_STRING_END})                          # OSC
      | [PX^_] {_BODY} {_STRING_END}                               # DCS SOS PM APC
      | \[                                                         # CSI that goes nowhere
      | [\ -/]{{1,4}}[0-~]                                         # character sets
      | [0-Z\\\]^_`clmno|}}~]                                      # two-character functions
    )
  | (?<=\x9b)(?=[0-?]) [0-?]{{0,64}} [\ -/]{{0,16}} [@-~]          # the 8-bit forms; CSI only with parameters
  | (?<=\x9d) {_BODY} (?:\x07|{_STRING_END})
  | (?<=[\x90\x98\x9e\x9f]) {_BODY} {_STRING_END}
"""
# A run of control characters ends before one that may open a sequence: one that no other control character follows.
# Every match begins with a control character, so that a search passes over other characters quickly.
_OPENERS: Final = (0x1B, 0x90, 0x98, 0x9B, 0x9D, 0x9E, 0x9F)
_CONTROL: Final = f"[{char_class(CONTROLS)}]"
_OTHER: Final = f"[{char_class(without(CONTROLS, {*_OPENERS}))}]"
_UNWANTED: Final = re.compile(
    rf"{_CONTROL}(?:(?P<sequence>{_SEQUENCE})|(?:{_OTHER}|{_CONTROL}(?={_CONTROL}))*)", re.VERBOSE
)


def strip_escapes(text: str) -> tuple[str, dict[str, int]]:
    """Remove terminal sequences and control characters. Afterwards TAB, LF and CR are the only control characters."""
    sequences = controls = 0

    def drop(match: re.Match[str]) -> str:
        nonlocal sequences, controls
        if match["sequence"] is not None:
            sequences += 1
        else:
            controls += len(match[0])
        return ""

    clean = _UNWANTED.sub(drop, text)
    return clean, {kind: count for kind, count in ((SEQUENCE, sequences), (CONTROL, controls)) if count}


# Links of Markdown and HTML. An image is fetched when it is shown and a link when it is clicked: the host receives
# whatever stands in the URL. A URL is suspect if its host is not trusted and it has room for a secret: placeholders,
# long or random values.

_URL: Final = r"(?:https?:)?//[^\s<>()\"'`]{4,2000}(?:\([^\s<>()\"'`]{0,200}\)[^\s<>()\"'`]{0,2000})?"
# Each pattern begins with the literal that such a link needs; the label before it is read only if the URL is suspect.
_LINKS: Final = tuple(
    sequence(*map(one_of, opening), rest(body))
    for opening, body in (
        ("](", rf"[ ]{{0,4}}<?(?P<url>{_URL})>?(?:[ ]{{1,4}}[\"'(][^\n\"')]{{0,200}}[\"')])?[ ]{{0,4}}\)"),
        ("]:", rf"[ \t]{{1,4}}<?(?P<url>{_URL})>?"),
        ("<img", rf"\s[^<>]{{0,300}}?src\s{{0,2}}=\s{{0,2}}[\"']?(?P<url>{_URL})[\"']?[^<>]{{0,500}}>"),
    )
)
_INLINE, _DEFINITION, _IMAGE = (re.compile(link.regex, re.IGNORECASE) for link in _LINKS)
_LABEL: Final = re.compile(r"!?\[(?P<label>[^\[\]\n]{0,300})\Z")
_PARTS: Final = re.compile(
    r"(?:https?:)?//(?:[^/?#@]*@)?(?P<host>[^/?#:]+)[^/?#]*(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?", re.IGNORECASE
)
_PLACEHOLDER: Final = re.compile(r"\{[^{}]{0,80}\}|\[[A-Z_]{3,}\]|%7B|<[a-z_]+>|\$[A-Z_]{3,}", re.IGNORECASE)
_HEXADECIMAL: Final = re.compile(r"[0-9a-f-]+", re.IGNORECASE)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_=-]{32,}")
_IMAGE_ROOM: Final = 16  # characters of a value in an image's URL that may pass
_LINK_ROOM: Final = 48


def check_links(text: str, policy: LinkPolicy, trusted_hosts: tuple[str, ...] = ()) -> tuple[str, int]:
    """Return the text and the number of suspect links. Under `strip`, a note of host and label replaces each one."""
    if policy == "off":
        return text, 0
    suspects: list[tuple[int, int, str]] = []
    for pattern in (_INLINE, _DEFINITION, _IMAGE):
        for match in pattern.finditer(text):
            suspects += _check_link(text, match, trusted_hosts, html=pattern is _IMAGE)
    if policy == "flag" or not suspects:
        return text, len(suspects)
    return replace_spans(text, sorted(suspects)), len(suspects)


def _check_link(
    text: str, match: re.Match[str], trusted_hosts: tuple[str, ...], *, html: bool
) -> list[tuple[int, int, str]]:
    """Return the span of a suspect link and the note that may replace it, or nothing."""
    label = None if html else _LABEL.search(text, max(0, match.start() - 302), match.start())
    is_image = html or (label is not None and label[0].startswith("!"))
    host = _suspect_host(match["url"], is_image=is_image, trusted_hosts=trusted_hosts)
    if host is None:
        return []
    caption = label["label"].strip() if label else ""
    note = f"({'image' if is_image else 'link'} to {host} withheld{': ' + caption if caption else ''})"
    return [(label.start() if label else match.start(), match.end(), note)]


def _suspect_host(url: str, *, is_image: bool, trusted_hosts: tuple[str, ...]) -> str | None:
    """Return the host of a URL that could carry data away, or None if the URL is harmless."""
    parts = _PARTS.match(url)
    if parts is None:
        return None
    host = parts["host"].lower()
    if any(host == trusted or host.endswith(f".{trusted}") for trusted in trusted_hosts):
        return None
    return host if _has_room(host, parts["path"], parts["query"] or "", is_image=is_image) else None


def _has_room(host: str, path: str, query: str, *, is_image: bool) -> bool:
    values = [unquote(item.partition("=")[2] or item) for item in query.split("&") if item]
    room = _IMAGE_ROOM if is_image else _LINK_ROOM
    return (
        _PLACEHOLDER.search(query) is not None
        or (is_image and _PLACEHOLDER.search(path) is not None)
        or any(len(value) >= room and not _HEXADECIMAL.fullmatch(value) for value in values)
        or len(query) >= 8 * room
        or any(_is_encoded(segment) for segment in path.split("/"))
        or any(len(label) > 40 for label in host.split("."))
    )


def _is_encoded(segment: str) -> bool:
    if not _BASE64.fullmatch(segment) or "-" in segment.strip("-"):
        return False
    return segment != segment.lower() and segment != segment.upper() and any(map(str.isdigit, segment))


# HTML

# An entity stays as it is: escaped text, escaped again, is the same text.
_AMPERSAND: Final = re.compile(r"&(?!(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)")
_ESCAPES: Final = str.maketrans({"<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


# The search for all of this in one pass. Its needles are those of the patterns themselves.

_SIEVE: Final = Sieve(
    {
        _UNPRINTED: _unprinted_needles(),
        _LINKED: either(*_LINKS).needles({}),
        _MARKED: MARKER_NEEDLES,
        _ESCAPED: ESCAPE_NEEDLES,
    }
)
