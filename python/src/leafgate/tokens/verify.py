"""Verification of foreign ids against a text (spec 5.7).

Cheap checks come first, and only a rejection pays for finding its reason.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from leafgate.model.errors import IdsError, TextError
from leafgate.model.leaf import ACCEPTED, Level, Reason, Verdict, is_digest, parse_digest
from leafgate.tokens.encoder import Encoder, classify_ids, encode_array
from leafgate.tokens.ids import TokenIds
from leafgate.tokens.normalize import normalize

# Ids per call into C: one call on a list of millions would block every thread of the process.
_AT_ONCE: Final = 1 << 16


def check(encoder: Encoder, text: str, ids: Sequence[Any], *, level: Level, map_id: object = None) -> Verdict:
    """Return whether these ids represent this text. `map_id` is the payload's claim, None if it has none."""
    reason = _find_reason(encoder, text, ids, level, map_id)
    return ACCEPTED if reason is None else Verdict(reason)


def _find_reason(  # noqa: PLR0911  one exit per reason of spec 5.7, in its order
    encoder: Encoder, text: str, ids: Sequence[Any], level: Level, map_id: object
) -> Reason | None:
    if map_id is not None and map_id != encoder.map.digest and not _spells(map_id, encoder.map.digest):
        if not is_digest(map_id) or parse_digest(map_id) not in encoder.map.equal_digests:
            return "foreign-map"
        # The ids are equal only for texts that the normalizers of both maps leave as they are: decoding tells.
        level = "decode" if level == "trust" else level
    if not text:
        return "empty-text"
    try:
        raw = normalize(encoder.map, text).encode()
    except (UnicodeEncodeError, TextError):
        return "bad-text"
    if len(ids) > len(raw) + encoder.map.has_prefix:
        return "too-many-ids"
    if isinstance(ids, TokenIds):
        return _find_reason_in_array(encoder, text, raw, ids, level)
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


def _find_reason_in_array(encoder: Encoder, text: str, raw: bytes, ids: TokenIds, level: Level) -> Reason | None:
    """The same for ids in an array, without a list of them, as long as nothing is wrong."""
    table = encoder.map.table if encoder.map.kind == "byte_level" else None
    if table is None:
        return _find_reason(encoder, text, ids.as_list(), level, None)
    is_right = table.holds(ids.array) if level == "trust" else table.spells(ids.array, raw)
    if not is_right:
        return classify_ids(encoder.map, ids.as_list()) or "text-mismatch"
    if level == "canonical" and not _is_canonical_array(encoder, text, ids):
        return "non-canonical"
    return None


def _wrong_element(encoder: Encoder, ids: Sequence[Any]) -> Reason | None:
    """Return the reason of the first wrong element, or None. A set is built fast and much smaller than the ids."""
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
    """Is one of the ids a boolean? True decodes like 1 and False like 0, so only texts with these tokens need it."""
    tokens = encoder.map.token_of_id
    for id in (0, 1):
        token = tokens.get(id)
        if token is not None and token in raw and any(_boolean_among(part, id) for part in _parts(ids)):
            return True
    return False


def _boolean_among(ids: Sequence[Any], id: int) -> bool:
    """Is an element that equals this id a boolean? `index` costs half of checking the type of every element."""
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
        canonical = encoder.encode(text)
    except TextError:
        return False
    pairs = zip(_parts(canonical), _parts(ids), strict=False)
    return len(canonical) == len(ids) and all(ours == list(theirs) for ours, theirs in pairs)


def _is_canonical_array(encoder: Encoder, text: str, ids: TokenIds) -> bool:
    try:
        return np.array_equal(encode_array(encoder, text), ids.array)
    except TextError:
        return False


def _parts(ids: Sequence[Any]) -> Iterator[Sequence[Any]]:
    if len(ids) <= _AT_ONCE:
        yield ids
        return
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
