"""The texts that a map is compared on: curated ones and generated ones, the same on every machine.

They aim at what tokenizers do differently: classes of characters, white space, digits, contractions, combining marks,
texts that are not normalized, controls, names of special tokens, long words. Random characters are those of Unicode
3.2, which every Python has, so that neither the texts nor the classes of their characters depend on a version.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal

from leafgate.data import load_table
from leafgate.maps.accelerator import trial_texts

_TABLE: Final = load_table("corpus", {"texts": list, "words": list, "code": list, "look_alikes": list, "marks": str})
_SPACES: Final = (
    *map(" ".__mul__, (1, 2, 3, 4)),
    *["\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r\n", "\r"],
    " \n",
    "\n ",
    "\xa0",
    "\u3000",
)
_PER_KIND: Final = 220
_SEED: Final = 5_900


@cache
def corpus() -> tuple[str, ...]:
    """Return the texts, without repetitions: more than 2,000."""
    return tuple(dict.fromkeys([*_TABLE["texts"], *_runs(), *trial_texts(), *_generated()]))


def _runs() -> Iterator[str]:
    """Runs of every length up to 40, and some longer ones, alone and between words."""
    lengths = (*range(1, 41), 63, 64, 65, 127, 128, 129, 200, 300)
    for run in (" ", "\n", "\t", "-", "=", "a", "0", "漢"):
        for length in lengths:
            yield run * length if length % 2 else f"x{run * length}y"


def _generated() -> Iterator[str]:
    chance = random.Random(_SEED)
    alphabet = _old_characters()
    for _ in range(_PER_KIND):
        yield _prose(chance)
        yield _code(chance)
        yield _numbers(chance)
        yield "".join(chance.choices(alphabet, k=chance.randint(1, 40)))
        yield _decomposed(chance)
        yield _between_spaces(chance)
        yield _look_alike(chance)


def _old_characters() -> str:
    """Every character that was assigned in Unicode 3.2, without private ones and surrogates."""
    old = unicodedata.ucd_3_2_0
    characters = (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    return "".join(char for char in characters if old.category(char) not in ("Cn", "Co", "Cs"))


def _prose(chance: random.Random) -> str:
    words = [chance.choice(_TABLE["words"]) for _ in range(chance.randint(2, 25))]
    cased = [chance.choice((str.lower, str.upper, str.title, str))(word) for word in words]
    return "".join(word + chance.choice((" ", " ", " ", ", ", ". ", "'s ", "-", "\n", "…", "! ")) for word in cased)


def _code(chance: random.Random) -> str:
    lines = [chance.choice(_TABLE["code"]) for _ in range(chance.randint(1, 8))]
    indents = [chance.choice(("", "    ", "\t", "        ", "  ")) for _ in lines]
    return chance.choice(("\n", "\r\n", "\n\n")).join(map("".join, zip(indents, lines, strict=True)))


def _numbers(chance: random.Random) -> str:
    forms = ("{}", "-{}", "{}.{}", "${},{}", "0x{:x}", "{}e-{}", "{:02d}:{:02d}", "v{}.{}", "{}%", "٣{}", "½{}", "{}²")
    pieces = [chance.choice(forms).format(chance.randint(0, 10 ** chance.randint(1, 12)), 7) for _ in range(6)]
    return chance.choice((" ", "", ", ", "\n")).join(pieces)


def _decomposed(chance: random.Random) -> str:
    """Words in another normalization form, and marks in an order of their own."""
    words = [chance.choice(_TABLE["words"]) for _ in range(chance.randint(1, 8))]
    forms: tuple[Literal["NFD", "NFKD", "NFKC"], ...] = ("NFD", "NFKD", "NFKC")
    changed = unicodedata.normalize(chance.choice(forms), " ".join(words))
    marks = "".join(chance.choices(_TABLE["marks"], k=chance.randint(1, 4)))
    return f"{changed}{marks}{chance.choice(words)}"


def _between_spaces(chance: random.Random) -> str:
    words = [chance.choice(_TABLE["words"]) for _ in range(chance.randint(1, 6))]
    return "".join(chance.choice(_SPACES) + word for word in words) + chance.choice(_SPACES)


def _look_alike(chance: random.Random) -> str:
    names = [chance.choice(_TABLE["look_alikes"]) for _ in range(chance.randint(1, 4))]
    return chance.choice(("", " ", "a", "\n")).join([*names, chance.choice(_TABLE["words"])])
