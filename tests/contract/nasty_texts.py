"""Texts that tokenizers disagree on. In: a seed. Out: as many as asked, the same for the same seed. Touches nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_WRITTEN = """
the cat sat on a mat while HTTPServer returned getUserName of naïve café résumé über straße I'm you're they'll
THEY'LL IT'S it'ſ o'clock rock'n'roll constructor __proto__ toString null undefined self.assertEqual lambda
Привет мир Ελληνικά Σίσυφος שלום مرحبا بالعالم नमस्ते ภาษาไทย 今天天气 東京タワー 안녕하세요 Ⅷ ½ ²³ ١٢٣
<|im_start|> <|endoftext|> <|stop|> <s> </s> <0x41> [INST] https://example.org/a?b=c&d=%20 user@example.org
"""
WORDS = _WRITTEN.split()
MARKS = "!?.,;:-_=+*/\\|&^%$#@~`'\"()[]{}<>§°¿¡…—–«»„“”‚‘’•™€£¥"
EMOJI = ("😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "1️⃣", "❤️", "\u200d", "🫠", "\ufe0f")
CONTROLS = [chr(c) for c in [*range(0x20), *range(0x7F, 0xA0)]]
ODD = (
    "\ufeff\u200b\u180e\u2060\u00ad\u202e\u2066\ufffd\ufffe\ue000\U000e0041\U0010ffff"
    "\u212a\u0130\u0131\u017f\u1e9e\u01c5\u0301\u0e33\u1c89\ua7cb\U00010d50"
)
CONTRACTIONS = ("s", "t", "re", "ve", "m", "ll", "d", "ſ", "x", "rE", "Ll")
RANGES = (
    (0x20, 0x7E),
    (0xA0, 0x24F),
    (0x370, 0x52F),
    (0x590, 0x6FF),
    (0x900, 0xD7F),
    (0xE00, 0x1FFF),
    (0x2000, 0x2BFF),
    (0x3000, 0x9FFF),
    (0xA000, 0xD7FF),
    (0xE000, 0xFFFF),
    (0x10000, 0x1FFFF),
    (0x20000, 0x323AF),
    (0xE0000, 0xE01EF),
)


def _word(r: random.Random) -> str:
    word = r.choice(WORDS)
    return r.choice((word, word, word.upper(), word.title(), word[: r.randint(1, len(word))]))


def _prose(r: random.Random) -> str:
    return "".join(r.choice((" ", " ", " ", ", ", "\n", "  ", ". ")) + _word(r) for _ in range(r.randint(1, 25)))


def _blanks(r: random.Random) -> str:
    return "".join(r.choice(WHITE_SPACE) * r.choice((1, 1, 2, 3, 7)) for _ in range(r.randint(1, 5)))


def _digits(r: random.Random) -> str:
    zero = r.choice((0x30, 0x30, 0x30, 0x660, 0x966, 0xFF10))
    return "".join(chr(zero + r.randint(0, 9)) for _ in range(r.randint(1, 14)))


def _contraction(r: random.Random) -> str:
    ending = "".join(r.choice((c, c.upper())) for c in r.choice(CONTRACTIONS))
    return r.choice(("", "I", "it", "1", " ", "é", "'")) + r.choice("''’") + ending + r.choice(("", "x", " ", "'"))


def _code(r: random.Random) -> str:
    lines = (
        "def f(x: int) -> None:",
        "    return {k: v for k, v in x.items() if v != 0}",
        "\tif (!a && b?.c) { i++; } // done",
        "SELECT * FROM t WHERE id = 'x' -- y",
        "#include <stdio.h>",
        "</div>\r",
        "        ",
        "x = `${a}_${b}`;",
    )
    return "".join(r.choice(lines) + r.choice(("\n", "\n", "\r\n", "\n\n", "\n    ")) for _ in range(r.randint(1, 6)))


def _json(r: random.Random) -> str:
    values = (r.random(), r.randint(-(10**9), 10**9), _word(r), None, [True, _word(r)])
    value = {_word(r): r.choice(values) for _ in range(4)}
    return json.dumps(value, ensure_ascii=r.random() < 0.5, indent=r.choice((None, 2, 4)))


def _characters(r: random.Random) -> str:
    low, high = r.choice(RANGES)
    return "".join(chr(r.randint(low, high)) for _ in range(r.randint(1, 12)))


def _run(r: random.Random) -> str:
    unit = r.choice((r.choice("aAzé的1!./-_=\x00"), r.choice(WHITE_SPACE), r.choice(EMOJI), _word(r)))
    return unit * r.choice((2, 5, 17, 40, 100))


def _odd(r: random.Random) -> str:
    return "".join(r.choice((r.choice(CONTROLS), r.choice(ODD), r.choice(MARKS))) for _ in range(r.randint(1, 8)))


PARTS: tuple[Callable[[random.Random], str], ...] = (
    _prose,
    _word,
    _blanks,
    _digits,
    _contraction,
    _code,
    _json,
    _characters,
    _run,
    _odd,
    lambda r: r.choice(EMOJI) * r.randint(1, 3),
    lambda r: "".join(r.choice(MARKS) for _ in range(r.randint(1, 6))),
    lambda r: r.choice(WHITE_SPACE),
)


def nasty_texts(seed: int, count: int) -> list[str]:
    """Mixtures of one to seven parts; none with surrogates, none with U+2581 but by chance."""
    r = random.Random(seed)
    return ["".join(r.choice(PARTS)(r) for _ in range(r.randint(1, 7))) for _ in range(count)]


def very_long_texts() -> list[str]:
    """Texts that are one piece, or nearly, and longer than any buffer somebody may have had in mind."""
    runs = ["a", " ", "\n", "7", "!", "的", "\u3000", " \t", "A", "\r\n"]
    texts = [unit * 20000 for unit in runs]
    texts += [f"x{' ' * n}y" for n in (8190, 8191, 8192, 8193, 16384)]
    texts += [f"{' ' * n}\n{' ' * n}1" for n in (8191, 8192, 20000)]
    return [*texts, " " * 30000 + "\n", "\n" + " " * 30000, "\u00a0" * 9000 + "é", " " * 9000 + "\u2028" * 9000 + "x"]
