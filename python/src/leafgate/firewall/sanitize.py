"""Cleaning of foreign text. In: a string or a JSON value. Out: the same, clean, and what was removed. Pure.

The order is a straight line: terminal sequences and controls, invisible characters, chat markers, links, HTML. No stage
makes work for an earlier one, so cleaning clean text changes nothing. Clean text costs one look.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leafgate.firewall.codepoints import CONTROLS, SURROGATES, char_class
from leafgate.firewall.escapes import strip_escapes
from leafgate.firewall.invisibles import INVISIBLE, strip_invisibles
from leafgate.firewall.json_strings import MAX_DEPTH, all_strings, map_strings
from leafgate.firewall.links import LINK, LinkPolicy, judge_links
from leafgate.firewall.markers import (
    MARKER,
    SHAPES,
    marker_needles,
    may_hold_marker,
    neutralise_markers,
    neutralise_turns,
)
from leafgate.firewall.sieve import Needle, Sieve, spelled, utf8

DEPTH: Final = "too-deep"


@dataclass(frozen=True)
class SanitizePolicy:
    """How one upstream's text is cleaned. The defaults keep code and data byte for byte."""

    escape_html: bool = False
    links: LinkPolicy = "flag"
    trusted_hosts: tuple[str, ...] = ()  # links to these, and to hosts below them, are nobody's business
    legacy_turns: bool = False  # also make "Human:" and "Assistant:" after an empty line inert
    max_depth: int = MAX_DEPTH


DEFAULT: Final = SanitizePolicy()


@dataclass(frozen=True)
class Cleaned:
    """A clean text, how many of each kind were removed or made inert, and what was only noticed."""

    text: str
    removed: Mapping[str, int] = field(default_factory=dict)
    flagged: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CleanedJson:
    """A clean JSON value, likewise."""

    value: Any
    removed: Mapping[str, int] = field(default_factory=dict)
    flagged: Mapping[str, int] = field(default_factory=dict)


def sanitize_text(text: str, policy: SanitizePolicy = DEFAULT) -> Cleaned:
    """The text as the model may read it."""
    work = _work(text)
    if not work and not policy.escape_html and not policy.legacy_turns:
        return Cleaned(text)
    removed: Counter[str] = Counter()
    flagged: dict[str, int] = {}
    if _UNPRINTED in work:
        text, counts = strip_escapes(text)
        removed.update(counts)
        text, counts = strip_invisibles(text)
        removed.update(counts)
    shapes = SHAPES if _UNPRINTED in work else [shape for shape in SHAPES if shape in work]
    if shapes:
        text, counts = neutralise_markers(text, shapes)
        removed.update(counts)
    if work:
        text, links = judge_links(text, policy.links, policy.trusted_hosts)
        if links and policy.links == "flag":
            flagged[LINK] = links
        elif links:
            removed[LINK] += links
    if policy.legacy_turns:
        text, turns = neutralise_turns(text)
        removed.update({MARKER: turns} if turns else {})
    if policy.escape_html:
        text = _escape_html(text)
    return Cleaned(text, dict(removed), flagged)


def sanitize_json(value: Any, policy: SanitizePolicy = DEFAULT) -> CleanedJson:
    """The value with every string and key as the model may read it, its shape kept."""
    strings = all_strings(value, policy.max_depth)
    dirty = worth_a_look(strings.found, policy)
    if not dirty and not strings.too_deep:
        return CleanedJson(value)
    removed: Counter[str] = Counter()
    flagged: Counter[str] = Counter()

    def clean(text: str, _: str | None) -> str:
        if text not in dirty:
            return text
        cleaned = sanitize_text(text, policy)
        if cleaned.removed:
            removed.update(cleaned.removed)
        if cleaned.flagged:
            flagged.update(cleaned.flagged)
        return cleaned.text

    made, withheld = map_strings(value, clean, policy.max_depth)
    if withheld:
        removed[DEPTH] += withheld
    return CleanedJson(made, dict(removed), dict(flagged))


def worth_a_look(texts: Sequence[str], policy: SanitizePolicy = DEFAULT) -> set[str]:
    """Those of the texts that cleaning may change or flag; the others are clean."""
    return set(texts) if policy.escape_html or policy.legacy_turns else _SIEVE.dirty(texts)


# An entity stays as it is: escaped text, escaped again, is the same text.
_AMPERSAND: Final = re.compile(r"&(?!(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)")
_ESCAPES: Final = str.maketrans({"<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def _escape_html(text: str) -> str:
    return _AMPERSAND.sub("&amp;", text).translate(_ESCAPES)


# The sieve that tells whether there is anything to do, by family of trouble.
_UNPRINTED: Final = "unprinted"
_LINKED: Final = "linked"
_SHORT: Final = 300  # characters below which regular expressions are quicker
_UNPRINTED_CHAR: Final = re.compile(f"[{char_class(CONTROLS, SURROGATES, INVISIBLE)}]")


def _unprinted_needles() -> Iterator[Needle]:
    yield (b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c" + bytes(range(0x0E, 0x20)) + b"\x7f",)
    yield (b"\xc2", range(0x80, 0xA0))
    yield (b"\xed", range(0xA0, 0xC0))  # surrogates
    yield (b"\xf3", b"\xa0")  # the plane of tags and selectors
    for low, high in INVISIBLE:
        if low < 0xE0000 or high > 0xE0FFF:
            yield from (spelled(chr(point)) for point in range(low, high + 1))


_SIEVE: Final = Sieve(
    {
        _UNPRINTED: _unprinted_needles(),
        _LINKED: (spelled("]("), spelled("]:"), spelled("<img", any_case=True)),
        **{shape: marker_needles(shape) for shape in SHAPES},
    }
)


def _work(text: str) -> Collection[str]:
    """Which families of trouble the text may hold."""
    if len(text) >= _SHORT:
        return _SIEVE.families(utf8(text))
    unprinted = (_UNPRINTED,) if _UNPRINTED_CHAR.search(text) else ()
    return (*unprinted, _LINKED, *SHAPES) if may_hold_marker(text) or "]" in text else unprinted
