"""Judges ids against a text. In: an Encoder, a text, ids that nobody has checked. Out: a Verdict (spec 5.7).

Touches nothing. The cheap questions come first, and only a refusal pays for finding out which reason it has.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

from leafgate.model.errors import IdsError, TextError
from leafgate.model.leaf import ACCEPTED, Level, Reason, Verdict, is_digest, parse_digest
from leafgate.tokens.encoder import Encoder, classify_ids

# Of ids: one call into C on a list of millions would hold every thread of the process for as long as it takes.
_AT_ONCE: Final = 1 << 16


def check(encoder: Encoder, text: str, ids: Sequence[Any], *, level: Level, map_id: object = None) -> Verdict:
    """Whether these ids may stand for this text. `map_id` is what the payload claims, None where it claims nothing."""
    reason = _judge(encoder, text, ids, level, map_id)
    return ACCEPTED if reason is None else Verdict(reason)


def _judge(  # noqa: PLR0911  one exit per reason of spec 5.7, in its order
    encoder: Encoder, text: str, ids: Sequence[Any], level: Level, map_id: object
) -> Reason | None:
    if map_id is not None and map_id != encoder.map.digest and not _spells(map_id, encoder.map.digest):
        return "foreign-map"
    if not text:
        return "empty-text"
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        return "bad-text"
    if len(ids) > len(raw) + (encoder.map.kind == "metaspace"):
        return "too-many-ids"
    if level == "trust":
        return next(filter(None, (_wrong_element(encoder, part) for part in _parts(ids))), None)
    try:
        decoded = encoder.decode_bytes(ids)
    except IdsError:
        return classify_ids(encoder.map, ids) or "unknown-id"
    if decoded != raw:
        return classify_ids(encoder.map, ids) or "text-mismatch"
    if _holds_boolean(encoder, raw, ids):
        return "not-integer"
    if level == "canonical" and not _is_canonical(encoder, text, ids):
        return "non-canonical"
    return None


def _wrong_element(encoder: Encoder, ids: Sequence[Any]) -> Reason | None:
    """The reason of the first wrong element. A set of the ids is soon made, and is much smaller than the ids are."""
    specials, tokens = encoder.map.special_ids, encoder.map.token_of_id
    try:
        distinct = set(ids)
    except TypeError:
        return classify_ids(encoder.map, ids)
    whole = operator.countOf(map(type, ids), int) == len(ids)
    if whole and distinct <= tokens.keys() and distinct.isdisjoint(specials):
        return None
    return classify_ids(encoder.map, ids)


def _spells(map_id: object, digest: str) -> bool:
    return is_digest(map_id) and parse_digest(map_id) == digest


def _holds_boolean(encoder: Encoder, raw: bytes, ids: Sequence[Any]) -> bool:
    """True decodes like 1 and False like 0. Only where the text holds such a token can one hide, and they are few."""
    tokens = encoder.map.token_of_id
    for id in (0, 1):
        token = tokens.get(id)
        if token is not None and token in raw and any(_boolean_among(part, id) for part in _parts(ids)):
            return True
    return False


def _boolean_among(ids: Sequence[Any], id: int) -> bool:
    """Going from one element that equals this id to the next costs half of looking at every element's type."""
    at = -1
    try:
        while True:
            at = ids.index(id, at + 1)
            if type(ids[at]) is not int:
                return True
    except ValueError:  # no more of them
        return False


def _is_canonical(encoder: Encoder, text: str, ids: Sequence[Any]) -> bool:
    try:
        made = encoder.encode(text)
    except TextError:
        return False
    pairs = zip(_parts(made), _parts(ids), strict=False)
    return len(made) == len(ids) and all(mine == list(theirs) for mine, theirs in pairs)


def _parts(ids: Sequence[Any]) -> Iterator[Sequence[Any]]:
    if len(ids) <= _AT_ONCE:
        yield ids
        return
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
