"""The scan of tool definitions for hidden instructions, before a model reads them.

Every string of a definition is examined: names, descriptions, schemas down to enum values. Rules read the shadow of the
text (case, width, look-alikes and invisible characters folded away) and the texts that are encoded in it.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from leafgate.catalog.tool_names import OtherNames, ToolNames
from leafgate.clean.invisibles import strip_invisibles
from leafgate.clean.markers import neutralise_markers, neutralise_turns, shadow
from leafgate.clean.result import MAX_DEPTH
from leafgate.clean.sanitize import check_links, strip_escapes
from leafgate.data import check_types, expand, load_table

FLAG_AT: Final = 0.5  # a definition with this risk should be reviewed by a person
_MAX_STRINGS: Final = 5_000
_MAX_CHARACTERS: Final = 400_000  # of all strings; more than any schema that intake accepts
_MAX_TEXT: Final = 20_000  # characters of one string that rules read; a longer string is itself a finding
_MAX_DECODED: Final = 20
_EXCERPT: Final = 80
# Both begin where a blank begins: a search from each place in it would take quadratic time.
_LONG_BLANK: Final = re.compile(
    r"(?<![ \t\u00a0\u2800\u3000])[ \t\u00a0\u2800\u3000]{120,}+\S|(?<!\s)[ \t\r]*+\n(?:[ \t\r]*+\n){14,}+[ \t]*+\S"
)
_SEPARATORS: Final = re.compile(r"[\s*`_]+")
_LEET: Final = str.maketrans("013457", "oieast")


@dataclass(frozen=True)
class ScanRule:
    """Patterns for one purpose. `unless`: words in the match that make it harmless."""

    name: str
    kind: str
    weight: float
    patterns: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None


def _load_rules(entries: Iterable[Mapping[str, Any]], fragments: Mapping[str, str]) -> Iterator[ScanRule]:
    types = {"name": str, "kind": str, "weight": float, "patterns": list, "unless": str}
    for entry in entries:
        check_types("scan_rules.toml", entry, types)
        patterns = tuple(re.compile(expand(pattern, fragments), re.VERBOSE) for pattern in entry["patterns"])
        unless = re.compile(entry["unless"], re.VERBOSE) if "unless" in entry else None
        yield ScanRule(entry["name"], entry["kind"], entry["weight"], patterns, unless)


_TABLE: Final = load_table("scan_rules", {"fragments": dict, "rules": list, "wordings": dict})
RULES: Final = tuple(_load_rules(_TABLE["rules"], _TABLE["fragments"]))
_STEERING, _MENTION, _OTHER_TOOLS, _REVEALING_NAME = (
    re.compile("|".join(_TABLE["wordings"][name]), re.VERBOSE)
    for name in ("steering", "mention", "other_tools", "revealing_name")
)


@dataclass(frozen=True)
class ScanFinding:
    """One reason for distrust: its kind, the place (JSON Pointer), the weight (0-1), and the words."""

    kind: str
    where: str
    weight: float
    excerpt: str

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "where": self.where, "weight": self.weight, "excerpt": self.excerpt}


@dataclass(frozen=True)
class Scan:
    """The findings on one definition, and the risk that they amount to."""

    risk: float
    findings: tuple[ScanFinding, ...] = ()

    @property
    def flagged(self) -> bool:
        return self.risk >= FLAG_AT


def scan_definition(
    definition: Mapping[str, Any], other_names: Iterable[str] | OtherNames = (), *, own_names: Iterable[str] = ()
) -> Scan:
    """Scan one definition. `other_names`: tools of other servers; `own_names`: tools of the same server."""
    own_name = definition.get("name")
    if isinstance(other_names, OtherNames):
        foreign = other_names
    else:
        own = [*own_names, *([own_name] if isinstance(own_name, str) else [])]
        foreign = OtherNames(ToolNames({"own": own, "others": other_names}), "own")
    findings: list[ScanFinding] = []
    characters = 0
    for count, (where, text, is_name) in enumerate(_strings(definition)):
        characters += min(len(text), _MAX_TEXT)
        if count >= _MAX_STRINGS or characters > _MAX_CHARACTERS:
            message = f"more than {_MAX_STRINGS} strings or {_MAX_CHARACTERS} characters"
            findings.append(ScanFinding("oversize", where, 0.5, message))
            break
        findings += _scan_string(where, text, foreign)
        if is_name and _REVEALING_NAME.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()):
            findings.append(ScanFinding("exfiltration", where.rpartition("/")[0], 0.3, f"parameter {text[:_EXCERPT]}"))
    if isinstance(own_name, str):
        findings += _scan_identity(own_name, foreign)
    return Scan(_risk(findings), tuple(findings))


def _risk(findings: Iterable[ScanFinding]) -> float:
    """Combine the weights of independent findings: one minus the product of the remaining trust of each.

    Weights combine within one string only, because signs scattered over a large schema are chance. The worst string
    counts, and a quarter of the second.
    """
    by_place: dict[str, float] = {}
    for finding in findings:
        by_place[finding.where] = by_place.get(finding.where, 1.0) * (1 - finding.weight)
    worst = sorted(by_place.values())[:2]
    trust = (worst[0] if worst else 1.0) * (1 - (1 - worst[1]) / 4 if len(worst) > 1 else 1.0)
    return round(1 - trust, 3)


def _strings(definition: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield every string down to a depth: (JSON Pointer, text, is it the name of a parameter?)."""
    level: list[tuple[str, Any]] = [("", definition)]
    for _ in range(MAX_DEPTH):
        below: list[tuple[str, Any]] = []
        for where, value in level:
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
        level = below


def _scan_string(where: str, text: str, foreign: OtherNames) -> Iterator[ScanFinding]:
    if len(text) > _MAX_TEXT:
        yield ScanFinding("oversize", where, 0.3, f"{len(text)} characters")
        text = text[:_MAX_TEXT]
    if len(text) < 3 or (text.isascii() and text.isidentifier() and len(text) < 40):
        return
    yield from _scan_characters(where, text)
    readings = [text, *_decode(text)]
    for number, reading in enumerate(readings):
        extra = 0.2 if number else 0.0  # encoded text is more suspicious
        for finding in _scan_words(where, reading, foreign):
            yield ScanFinding(finding.kind, where, round(min(0.95, finding.weight + extra), 3), finding.excerpt)


def _scan_characters(where: str, text: str) -> Iterator[ScanFinding]:
    without, sequences = strip_escapes(text)
    if sequences:
        yield ScanFinding("invisible", where, 0.7 if "escape-sequence" in sequences else 0.5, _list_counts(sequences))
    without, invisible = strip_invisibles(without)
    if invisible:
        smuggling = invisible.keys() & {"tag", "variation-selector"} or sum(invisible.values()) > 8
        slight = sum(invisible.values()) <= 2 and invisible.keys() <= {"soft-hyphen", "zero-width", "surrogate"}
        yield ScanFinding("invisible", where, 0.9 if smuggling else 0.3 if slight else 0.6, _list_counts(invisible))
    _, markers = neutralise_markers(without)
    if markers:
        yield ScanFinding("marker", where, 0.7, _list_counts(markers))
    turns = neutralise_turns(without)[1]
    if turns:
        yield ScanFinding("marker", where, 0.6 if turns > 1 else 0.4, "opening of a chat turn")
    if check_links(without, "flag")[1]:
        yield ScanFinding("exfiltration", where, 0.5, "a link that can carry data")
    if _LONG_BLANK.search(without):
        yield ScanFinding("hidden-instruction", where, 0.5, "text after a long blank")


def _scan_words(where: str, text: str, foreign: OtherNames) -> Iterator[ScanFinding]:
    words = _fold(text)
    for rule in RULES:
        hits = (pattern.search(words) for pattern in rule.patterns)
        matches = [match for match in hits if match and not (rule.unless and rule.unless.search(match[0]))]
        if matches:  # one purpose in several phrasings is not an accident
            weight = min(0.9, rule.weight + 0.15 * (len(matches) - 1)) if rule.weight > 0.2 else rule.weight
            yield ScanFinding(rule.kind, where, round(weight, 3), _excerpt(matches[0]))
    steering = _STEERING.search(words)
    mention = steering or _MENTION.search(words)
    name = None if mention is None else foreign.find(shadow(text))
    if mention is not None and name is not None:
        excerpt = f"{name[:_EXCERPT]}: {_excerpt(mention)}"
        yield ScanFinding("shadowing", where, 0.6 if steering else 0.5, excerpt)
    others = _OTHER_TOOLS.search(words)
    if others:
        yield ScanFinding("shadowing", where, 0.5, _excerpt(others))


def _fold(text: str) -> str:
    """Return what the rules read: one case, one width, single spaces, spaced letters joined, digits as letters."""
    words = shadow(text) if not text.isascii() else text.lower()
    words = re.sub(r"(?<![^\W_])(?:[^\W\d_][ .\-_*]{1,3}){5,}[^\W\d_](?![^\W_])", _join_letters, words)
    # Whole words, also those without a digit: a pattern that looks for the digit takes quadratic time on a long word.
    words = re.sub(r"[a-z0-9]+", _unleet, words)
    return _SEPARATORS.sub(" ", words) + "\n" + (re.sub(r"\s+", " ", text.lower()) if not text.isascii() else "")


def _join_letters(match: re.Match[str]) -> str:
    words = re.split(r"[ .\-_*]{2,}", match[0])
    return " ".join(re.sub(r"[ .\-_*]", "", word) for word in words)


def _unleet(match: re.Match[str]) -> str:
    word = match[0]
    if word.isalpha():
        return word
    return word.translate(_LEET) if len(word) > 3 and sum(map(str.isalpha, word)) >= 2 else word


def _decode(text: str) -> Iterator[str]:
    """Yield the texts that are encoded in the text."""
    unescaped = html.unescape(text) if "&" in text else text
    if unescaped != text:
        yield unescaped
    if re.search(r"%20[A-Za-z]", text):
        yield unquote(text)
    for count, match in enumerate(re.finditer(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/_-]{24,4096}={0,2}", text)):
        if count >= _MAX_DECODED:
            return
        reading = _decode_blob(match[0])
        if reading:
            yield reading


def _decode_blob(blob: str) -> str | None:
    """Return the readable text that a blob spells in hexadecimal or base64, or None."""
    plain = blob.rstrip("=").replace("-", "+").replace("_", "/")
    for decode, digits in ((bytes.fromhex, blob), (base64.b64decode, plain + "=" * (-len(plain) % 4))):
        try:
            text = decode(digits).decode()
        except ValueError:  # neither this encoding nor UTF-8
            continue
        if " " in text and text.isprintable():
            return text
    return None


def _scan_identity(name: str, foreign: OtherNames) -> Iterator[ScanFinding]:
    """Report a name that looks like another tool's, or that mixes alphabets."""
    folded = shadow(name)
    if not name.isascii() and folded in foreign:
        yield ScanFinding("shadowing", "/name", 0.8, f"{name[:_EXCERPT]} looks like another tool's name")
    elif not name.isascii() and folded.isascii():
        yield ScanFinding("shadowing", "/name", 0.5, f"{name[:_EXCERPT]} is written in look-alike letters")


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind}: {counts[kind]}" for kind in sorted(counts))


def _excerpt(match: re.Match[str]) -> str:
    words = re.sub(r"\s+", " ", match[0]).strip()
    return words if len(words) <= _EXCERPT else words[: _EXCERPT - 1] + "…"
