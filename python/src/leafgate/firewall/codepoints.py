"""Ranges of code points that the firewall's rules name. In: nothing. Out: constants. May touch: nothing.

Ranges are written down, not asked of the interpreter: the same text is then cleaned alike under every Python version.
Whole blocks are used where a finer property would only add a dependence on the year of the Unicode tables.
"""

from __future__ import annotations

from typing import Final

Ranges = tuple[tuple[int, int], ...]

# C0 without TAB LF CR, DEL, C1
CONTROLS: Final[Ranges] = ((0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F), (0x7F, 0x9F))

SURROGATES: Final[Ranges] = ((0xD800, 0xDFFF),)

# Where ZWJ and ZWNJ shape letters: Hebrew to Arabic Extended, Brahmic scripts, Tibetan, Myanmar, Khmer, Mongolian, ...
JOINING: Final[Ranges] = (
    (0x0590, 0x08FF),
    (0x0900, 0x0DFF),
    (0x0F00, 0x109F),
    (0x1700, 0x18AF),
    (0x1900, 0x1AAF),
    (0x1B00, 0x1C4F),
    (0x1CD0, 0x1CFF),
    (0xA800, 0xA8FF),
    (0xA930, 0xA95F),
    (0xA980, 0xA9FF),
    (0xAA00, 0xAADF),
    (0xABC0, 0xABFF),
    (0xFB1D, 0xFDCF),
    (0xFDF0, 0xFDFF),
    (0xFE70, 0xFEFE),
    (0x10A00, 0x10FFF),
    (0x11000, 0x11FFF),
    (0x1E900, 0x1E95F),
)

# Scripts written without spaces, where ZWSP marks a word border: Thai, Lao, Tibetan, Myanmar, Khmer, Tai, Javanese, ...
UNSPACED: Final[Ranges] = (
    (0x0E00, 0x109F),
    (0x1780, 0x17FF),
    (0x1950, 0x19FF),
    (0x1A20, 0x1AAF),
    (0x1B00, 0x1B7F),
    (0xA980, 0xA9FF),
    (0xAA00, 0xAADF),
)

RIGHT_TO_LEFT: Final[Ranges] = (
    (0x0590, 0x08FF),
    (0xFB1D, 0xFDCF),
    (0xFDF0, 0xFDFF),
    (0xFE70, 0xFEFE),
    (0x10800, 0x10FFF),
    (0x1E800, 0x1EFFF),
)

# What an emoji ZWJ sequence may join
PICTOGRAPHS: Final[Ranges] = (
    (0x2190, 0x21FF),
    (0x2300, 0x23FF),
    (0x2600, 0x27BF),
    (0x2B00, 0x2BFF),
    (0x1F000, 0x1FAFF),
)

# What takes a text or emoji presentation selector (VS15, VS16); digits, # and * take one only before U+20E3
PRESENTABLE: Final[Ranges] = (
    *PICTOGRAPHS,
    (0xA9, 0xA9),
    (0xAE, 0xAE),
    (0x203C, 0x203C),
    (0x2049, 0x2049),
    (0x2122, 0x2122),
    (0x2139, 0x2139),
    (0x2460, 0x24FF),
    (0x25A0, 0x25FF),
    (0x2900, 0x297F),
    (0x3030, 0x3030),
    (0x303D, 0x303D),
    (0x3200, 0x32FF),
)

IDEOGRAPHS: Final[Ranges] = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFD),
)

# What takes VS1..VS7 by the standard's list: mathematics, Myanmar, Phags-pa, East Asian punctuation, hieroglyphs, ...
STANDARD_VARIANTS: Final[Ranges] = (
    *IDEOGRAPHS,
    (0x1000, 0x109F),
    (0xAA60, 0xAA7F),
    (0xA840, 0xA87F),
    (0x2200, 0x22FF),
    (0x2A00, 0x2AFF),
    (0x2010, 0x203A),
    (0x3001, 0x30FF),
    (0xFF01, 0xFF1F),
    (0x10AC0, 0x10AFF),
    (0x13000, 0x143FF),
)

MONGOLIAN: Final[Ranges] = ((0x1800, 0x180A), (0x1810, 0x18AA), (0x11660, 0x1166C))
KHMER: Final[Ranges] = ((0x1780, 0x17B3), (0x17B6, 0x17FF))
HANGUL_LEADING: Final[Ranges] = ((0x1100, 0x115E), (0xA960, 0xA97C))
HANGUL_VOWEL: Final[Ranges] = ((0x1161, 0x11A7), (0xD7B0, 0xD7C6))
SHORTHAND: Final[Ranges] = ((0x1BC00, 0x1BC9F),)
MUSICAL: Final[Ranges] = ((0x1D100, 0x1D172), (0x1D17B, 0x1D1FF))
COMBINING: Final[Ranges] = (
    (0x0300, 0x034E),
    (0x0350, 0x036F),
    (0x0483, 0x0489),
    (0x0591, 0x05BD),
    (0x05BF, 0x05C7),
    (0x0610, 0x061A),
    (0x064B, 0x065F),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20FF),
    (0xFE20, 0xFE2F),
)

NONCHARACTERS: Final[Ranges] = (
    (0xFDD0, 0xFDEF),
    *((plane * 0x10000 + 0xFFFE, plane * 0x10000 + 0xFFFF) for plane in range(17)),
)


def without(ranges: Ranges, points: set[int]) -> Ranges:
    """The ranges with some points taken out."""
    left: list[tuple[int, int]] = []
    for low, high in ranges:
        start = low
        for point in sorted(point for point in points if low <= point <= high):
            if start < point:
                left.append((start, point - 1))
            start = point + 1
        if start <= high:
            left.append((start, high))
    return tuple(left)


def char_class(*groups: Ranges) -> str:
    """The inside of a regular expression's [...] for these ranges."""
    return "".join(
        f"\\U{low:08x}" if low == high else f"\\U{low:08x}-\\U{high:08x}" for group in groups for low, high in group
    )
