"""The scan of tool definitions for hidden instructions, before a model reads them.

Every string of a definition is examined: names, descriptions, schemas down to enum values. The classifier of
`clean.instructions` judges what a string says; the rules that match explain it. Characters, names and the mention of
other servers' tools have weights of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from leafgate.catalog.tool_names import OtherNames, ToolNames
from leafgate.clean.instructions import decode_parts, judge_text
from leafgate.clean.invisibles import strip_invisibles
from leafgate.clean.markers import neutralise_markers, neutralise_turns, shadow
from leafgate.clean.result import MAX_DEPTH
from leafgate.clean.rules import RULES, TABLE, fold
from leafgate.clean.sanitize import check_links, strip_escapes

FLAG_AT: Final = 0.5  # a definition with this risk should be reviewed by a person
INSTRUCTIONS: Final = "instructions"  # the kind of what the classifier finds
_LEAST_RISK: Final = 0.1  # of a string that is reported
_MAX_STRINGS: Final = 5_000
_MAX_CHARACTERS: Final = 400_000  # of all strings; more than any schema that intake accepts
_MAX_TEXT: Final = 20_000  # characters of one string that rules read; a longer string is itself a finding
_EXCERPT: Final = 80
# Both begin where a blank begins: a search from each place in it would take quadratic time.
_LONG_BLANK: Final = re.compile(
    r"(?<![ \t\u00a0\u2800\u3000])[ \t\u00a0\u2800\u3000]{120,}+\S|(?<!\s)[ \t\r]*+\n(?:[ \t\r]*+\n){14,}+[ \t]*+\S"
)


_STEERING, _MENTION, _OTHER_TOOLS, _REVEALING_NAME = (
    re.compile("|".join(TABLE["wordings"][name]), re.VERBOSE)
    for name in ("steering", "mention", "other_tools", "revealing_name")
)


@dataclass(frozen=True)
class ScanFinding:
    """One reason for distrust: its kind, the place (JSON Pointer), the weight (0-1), and the words.

    A weight of 0 explains the finding of the kind `instructions` at the same place.
    """

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
    # A parameter is judged with its name, which often says what it asks for.
    owner, _, last = where.rpartition("/")
    name = owner.rpartition("/")[2] if last == "description" and "/properties/" in where else ""
    suspicion = judge_text(f"{name}: {text}" if name else text, "definition")
    if suspicion.risk >= _LEAST_RISK:
        yield ScanFinding(INSTRUCTIONS, where, round(suspicion.risk, 3), suspicion.excerpt)
    for reading in (text, *decode_parts(text)):
        words = fold(reading)
        if suspicion.risk >= _LEAST_RISK:
            yield from _explain(where, words)
        yield from _scan_mentions(where, reading, words, foreign)


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


def _explain(where: str, words: str) -> Iterator[ScanFinding]:
    """Report the rules that match a text which the classifier suspects."""
    for rule in RULES:
        match = next(filter(None, rule.matches(words)), None)
        if match is not None:
            yield ScanFinding(rule.kind, where, 0.0, _excerpt(match))


def _scan_mentions(where: str, text: str, words: str, foreign: OtherNames) -> Iterator[ScanFinding]:
    steering = _STEERING.search(words)
    mention = steering or _MENTION.search(words)
    name = None if mention is None else foreign.find(shadow(text))
    if mention is not None and name is not None:
        excerpt = f"{name[:_EXCERPT]}: {_excerpt(mention)}"
        yield ScanFinding("shadowing", where, 0.6 if steering else 0.5, excerpt)
    others = _OTHER_TOOLS.search(words)
    if others:
        yield ScanFinding("shadowing", where, 0.5, _excerpt(others))


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
