"""Normalization of texts, as a map asks for it (spec 5.4).

A model's own tokenizer normalizes before it splits, so the ids of a text are those of its normalized form, and decode
to that. Engines differ in their version of Unicode: Hugging Face's tables are of Unicode 9, those of Python 3.11 of 14,
those of Node 20 of 17. A text with a character that they normalize differently has no tokenization.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from leafgate.model.errors import TextError
from leafgate.tokens.token_map import TokenMap

# Code points whose normalization changed between Unicode 9 and 17, with those that they are composed of.
_UNSETTLED_RANGES: Final = """
    7FD 897-89F 8CA-8D3 9FE C3C D3B-D3C EBA 1715 1ABF-1ADD 1AE0-1AEB 1DF6-1DFA 32FF A7F1-A7F4 A82C AB69 105C9 105D2
    105DA 105E4 10781-10785 10787-107B0 107B2-107BA 10D24-10D27 10D69-10D6D 10EAB-10EAC 10EFA-10EFB 10EFD-10EFF
    10F46-10F50 10F82-10F85 11070 1133B 11382-11385 1138B 1138E 11390-11391 113B8 113BB 113C2 113C5 113C7-113C9
    113CE-113D0 1145E 11839-1183A 11938 1193D-1193E 11943 119E0 11A34 11A47 11A99 11D42 11D44-11D45 11D97 11F41-11F42
    1611E-16129 1612F 16D63 16D67-16D6A 16FF0-16FF1 1CCD6-1CCF9 1E030-1E06D 1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF
    1E4EC-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1F16C 1FBF0-1FBF9
"""


def _character_class(ranges: str) -> str:
    bounds = (each.partition("-") for each in ranges.split())
    return "".join(f"{chr(int(first, 16))}-{chr(int(last or first, 16))}" for first, _, last in bounds)


_UNSETTLED: Final = re.compile(f"[{_character_class(_UNSETTLED_RANGES)}]")


def normalize(token_map: TokenMap, text: str) -> str:
    """Return the text as the map's tokenizer reads it, or raise TextError if engines differ on it."""
    if token_map.normalizer is None or text.isascii():
        return text
    unsettled = _UNSETTLED.search(text)
    if unsettled is not None:
        code = f"U+{ord(unsettled[0]):04X}"
        raise TextError(f"the text holds {code}, which versions of Unicode normalize differently")
    return unicodedata.normalize("NFC" if token_map.normalizer == "nfc" else "NFKC", text)


def is_normalized(token_map: TokenMap, text: str) -> bool:
    """Does the map's tokenizer read the text as it is?"""
    try:
        return normalize(token_map, text) == text
    except TextError:
        return False
