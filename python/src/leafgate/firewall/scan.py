"""Tool definitions judged before a model reads them. In: a definition, and what else is offered. Out: findings, a risk.

Every string of a definition is looked at: names, descriptions, schemas down to enum values. A rule reads the shadow of
the text (case, width, look-alikes, invisible characters folded away) and what is encoded in it. Pure.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from leafgate.firewall.escapes import strip_escapes
from leafgate.firewall.invisibles import strip_invisibles
from leafgate.firewall.json_strings import MAX_DEPTH
from leafgate.firewall.links import judge_links
from leafgate.firewall.markers import neutralise_markers, neutralise_turns, shadow
from leafgate.firewall.scan_rules import (
    MENTION,
    OTHER_TOOLS,
    REVEALING_NAME,
    RULES,
    SIGNS,
    STEERING,
    Rule,
)

FLAG_AT: Final = 0.5  # a risk from which a definition deserves a person's eyes
_MAX_STRINGS: Final = 5_000
_MAX_TEXT: Final = 20_000  # characters of one string that rules read; more is a finding of its own
_MAX_DECODED: Final = 20
_EXCERPT: Final = 80


@dataclass(frozen=True)
class Finding:
    """One reason for distrust: what, where (JSON Pointer), how much it weighs (0-1), and the words."""

    kind: str
    where: str
    weight: float
    excerpt: str

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "where": self.where, "weight": self.weight, "excerpt": self.excerpt}


@dataclass(frozen=True)
class Scan:
    """The judgement on one definition."""

    risk: float
    findings: tuple[Finding, ...] = ()

    @property
    def flagged(self) -> bool:
        return self.risk >= FLAG_AT


def scan_definition(
    definition: Mapping[str, Any], other_names: Iterable[str] = (), *, own_names: Iterable[str] = ()
) -> Scan:
    """Judges one definition. `other_names`: tools of other servers; `own_names`: tools of the same server."""
    foreign = frozenset(name for name in other_names if _is_telling(name)) - frozenset(own_names)
    own_name = definition.get("name")
    findings: list[Finding] = []
    for count, (where, text, is_name) in enumerate(_strings(definition)):
        if count >= _MAX_STRINGS:
            findings.append(Finding("oversize", where, 0.5, f"more than {_MAX_STRINGS} strings"))
            break
        findings += _scan_string(where, text, foreign - {own_name})
        if is_name:
            findings += _scan_name(where, text)
    if isinstance(own_name, str):
        findings += _scan_identity(own_name, foreign)
    return Scan(_risk(findings), tuple(findings))


def _risk(findings: Iterable[Finding]) -> float:
    """Independent doubts add up: one less the product of what each leaves.

    They add up within one string only: signs scattered over a large schema are chance. The worst string counts, and a
    little of the next.
    """
    by_place: dict[str, float] = {}
    for finding in findings:
        by_place[finding.where] = by_place.get(finding.where, 1.0) * (1 - finding.weight)
    worst = sorted(by_place.values())[:2]
    trust = (worst[0] if worst else 1.0) * (1 - (1 - worst[1]) / 4 if len(worst) > 1 else 1.0)
    return round(1 - trust, 3)


def _strings(definition: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Every string down to a depth: (JSON Pointer, text, is it the name of a parameter?)."""
    waiting: list[tuple[str, Any]] = [("", definition)]
    for _ in range(MAX_DEPTH):
        below: list[tuple[str, Any]] = []
        for where, value in waiting:
            if isinstance(value, str):
                yield where, value, False
            elif isinstance(value, Mapping):
                for key, item in value.items():
                    place = f"{where}/{str(key).replace('~', '~0').replace('/', '~1')}"
                    if isinstance(key, str):
                        yield place, key, where.endswith("/properties")
                    below.append((place, item))
            elif isinstance(value, list | tuple):
                below += ((f"{where}/{index}", item) for index, item in enumerate(value))
        waiting = below


def _scan_string(where: str, text: str, foreign: frozenset[str]) -> Iterator[Finding]:
    if len(text) > _MAX_TEXT:
        yield Finding("oversize", where, 0.3, f"{len(text)} characters")
        text = text[:_MAX_TEXT]
    if len(text) < 3 or (text.isascii() and text.isidentifier() and len(text) < 40):
        return
    yield from _scan_characters(where, text)
    readings = [text, *_decoded(text)]
    for number, reading in enumerate(readings):
        extra = 0.2 if number else 0.0  # what hides behind an encoding wants to hide
        for finding in _scan_words(where, reading, foreign):
            yield Finding(finding.kind, where, round(min(0.95, finding.weight + extra), 3), finding.excerpt)


def _scan_characters(where: str, text: str) -> Iterator[Finding]:
    without, sequences = strip_escapes(text)
    if sequences:
        yield Finding("invisible", where, 0.7 if "escape-sequence" in sequences else 0.5, _listed(sequences))
    without, invisible = strip_invisibles(without)
    if invisible:
        smuggling = invisible.keys() & {"tag", "variation-selector"} or sum(invisible.values()) > 8
        slight = sum(invisible.values()) <= 2 and invisible.keys() <= {"soft-hyphen", "zero-width", "surrogate"}
        yield Finding("invisible", where, 0.9 if smuggling else 0.3 if slight else 0.6, _listed(invisible))
    _, markers = neutralise_markers(without)
    if markers:
        yield Finding("marker", where, 0.7, _listed(markers))
    turns = neutralise_turns(without)[1]
    if turns:
        yield Finding("marker", where, 0.6 if turns > 1 else 0.4, "opening of a chat turn")
    if judge_links(without, "flag")[1]:
        yield Finding("exfiltration", where, 0.5, "a link that can carry data")
    if re.search(r"[ \t\u00a0\u2800\u3000]{120,}\S|\n(?:[ \t\r]*\n){14,}[ \t]*\S", without):
        yield Finding("hidden-instruction", where, 0.5, "text after a long blank")


def _scan_words(where: str, text: str, foreign: frozenset[str]) -> Iterator[Finding]:
    words = _folded(text)
    for rule in (*RULES, *SIGNS):
        found = _found(rule, words)
        if found:  # a purpose put in several ways is no slip of the pen
            weight = min(0.9, rule.weight + 0.15 * (len(found) - 1)) if rule.weight > 0.2 else rule.weight
            yield Finding(rule.kind, where, round(weight, 3), _excerpt(found[0]))
    steering = STEERING.search(words)
    turned = steering or MENTION.search(words)
    written = shadow(text)
    for name in sorted(foreign) if turned else ():
        if re.search(rf"(?<![\w-]){re.escape(name.lower())}(?![\w-])", written):
            yield Finding("shadowing", where, 0.6 if steering else 0.5, f"{name}: {_excerpt(turned) if turned else ''}")
            break
    others = OTHER_TOOLS.search(words)
    if others:
        yield Finding("shadowing", where, 0.5, _excerpt(others))


def _found(rule: Rule, words: str) -> list[re.Match[str]]:
    """One find for each pattern of the rule that has one."""
    finds = (pattern.search(words) for pattern in rule.patterns)
    return [found for found in finds if found and not (rule.unless and rule.unless.search(found[0]))]


def _folded(text: str) -> str:
    """What the rules read: one case, one width, single spaces, spelled-out letters joined, digits as letters."""
    words = shadow(text) if not text.isascii() else text.lower()
    words = re.sub(r"(?<![^\W_])(?:[^\W\d_][ .\-_*]{1,3}){5,}[^\W\d_](?![^\W_])", _join_letters, words)
    words = re.sub(r"[a-z0-9]*[0-9][a-z0-9]*", _unleet, words)
    return _SEPARATORS.sub(" ", words) + "\n" + (re.sub(r"\s+", " ", text.lower()) if not text.isascii() else "")


_SEPARATORS: Final = re.compile(r"[\s*`_]+")


def _join_letters(found: re.Match[str]) -> str:
    words = re.split(r"[ .\-_*]{2,}", found[0])
    return " ".join(re.sub(r"[ .\-_*]", "", word) for word in words)


_LEET: Final = str.maketrans("013457", "oieast")


def _unleet(found: re.Match[str]) -> str:
    word = found[0]
    return word.translate(_LEET) if len(word) > 3 and sum(map(str.isalpha, word)) >= 2 else word


def _decoded(text: str) -> Iterator[str]:
    """What is written in the text in another coding."""
    unescaped = html.unescape(text) if "&" in text else text
    if unescaped != text:
        yield unescaped
    if re.search(r"%20[A-Za-z]", text):
        yield unquote(text)
    for count, found in enumerate(re.finditer(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/_-]{24,4096}={0,2}", text)):
        if count >= _MAX_DECODED:
            return
        blob = found[0]
        reading = _as_hexadecimal(blob) or _as_base64(blob)
        if reading:
            yield reading


def _as_hexadecimal(blob: str) -> str | None:
    try:
        return _readable(bytes.fromhex(blob))
    except ValueError:
        return None


def _as_base64(blob: str) -> str | None:
    plain = blob.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _readable(base64.b64decode(plain + "=" * (-len(plain) % 4)))
    except (binascii.Error, ValueError):
        return None


def _readable(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if " " in text and text.isprintable() else None


def _scan_name(where: str, name: str) -> Iterator[Finding]:
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    found = REVEALING_NAME.search(plain)
    if found:
        yield Finding("exfiltration", where.rpartition("/")[0], 0.3, f"parameter {name[:_EXCERPT]}")


def _scan_identity(name: str, foreign: frozenset[str]) -> Iterator[Finding]:
    """A name that reads like another tool's, or that mixes alphabets, is made to be mistaken."""
    folded = shadow(name)
    if not name.isascii() and any(shadow(other) == folded for other in foreign):
        yield Finding("shadowing", "/name", 0.8, f"{name[:_EXCERPT]} looks like another tool's name")
    elif not name.isascii() and folded.isascii():
        yield Finding("shadowing", "/name", 0.5, f"{name[:_EXCERPT]} is written in look-alike letters")


def _is_telling(name: str) -> bool:
    """Names that are also plain words (`search`) say nothing when a description uses them."""
    return len(name) > 4 and re.search(r"[_\-A-Z0-9]", name[1:]) is not None


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind}: {counts[kind]}" for kind in sorted(counts))


def _excerpt(found: re.Match[str]) -> str:
    words = re.sub(r"\s+", " ", found[0]).strip()
    return words if len(words) <= _EXCERPT else words[: _EXCERPT - 1] + "…"
