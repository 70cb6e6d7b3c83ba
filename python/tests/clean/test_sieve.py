"""The sieve: never a miss, and the same answer wherever a needle stands."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from leafgate.clean import markers, sanitize
from leafgate.clean.sanitize import DEFAULT, sanitize_json, sanitize_text
from leafgate.clean.sieve import Expression, Places, Sieve, either, make_needle, one_of, rest, sequence, utf8, words

SIEVE = Sieve(
    {
        "word": [make_needle("pass", any_case=True), make_needle("key")],
        "pair": [make_needle("<|")],
        "byte": [(b"\x00\x7f",)],
    }
)


@given(
    st.binary(max_size=20), st.sampled_from([b"pass", b"PaSs", b"key", b"<|", b"\x00", b"\x7f"]), st.binary(max_size=20)
)
def test_a_needle_is_always_found(before: bytes, needle: bytes, after: bytes) -> None:
    assert len(before) in SIEVE.places(before + needle + after)


def test_families() -> None:
    assert SIEVE.families(b"nothing here") == SIEVE.families(b"") == {}
    assert SIEVE.families(b"a <| b") == {"pair": None}
    assert SIEVE.families(b"my Password\x7f") == {"word": None, "byte": None}
    long = SIEVE.families(b"my Password <|" + b"-" * 100_000 + b"<|")
    assert {family: places.tolist() for family, places in long.items() if places is not None} == {
        "word": [3],
        "pair": [12, 100_014],
    }


@given(st.lists(st.sampled_from([b"pass", b"KEY", b"key", b"<|", b"-" * 99]), max_size=60))
def test_few_places_are_found_as_many_are(parts: list[bytes]) -> None:
    data = b"".join(parts)
    few = list(SIEVE.places(data))
    many = list(SIEVE.places(b"key" * 30_000 + data))[30_000:]
    assert many == [place + 90_000 for place in few]


@given(st.lists(st.sampled_from(["", "a", "é", "漢字", "pass", "xkey", "<|é", "\x7f", "plain words"]), max_size=8))
def test_dirty_strings_are_told_apart(strings: list[str]) -> None:
    expected = {item for item in strings if any(word in item for word in ("pass", "key", "<|", "\x7f"))}
    assert SIEVE.find_texts(strings) == expected


# The patterns of sanitizing, and the needles that are read from them

PATTERNS: dict[str, Expression] = {
    "marked": markers._PATTERN,
    "escaped": markers._ESCAPE,
    "linked": either(*sanitize._LINKS),
}
WORDS = "plain words. " * 40
LONG = WORDS * 16
EVERYTHING: dict[str, Places | None] = dict.fromkeys(("unprinted", "linked", "marked", "escaped"))
_LETTERS = "".join(chr(point) for point in range(0x1D41A, 0x1D434))  # 𝐚 to 𝐳, which fold to a to z


def _widen(text: str, places: set[int]) -> str:
    """Some characters of the text in another form that is read alike."""
    wide = {
        **{chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)},
        **dict(zip("abcdefghijklmnopqrstuvwxyz", _LETTERS, strict=True)),
    }
    return "".join(wide.get(char, char) if at in places else char for at, char in enumerate(text))


@st.composite
def matches(draw: st.DrawFn, family: str) -> str:
    text = draw(st.from_regex(re.compile(re.sub(r"\(\?P<url>", "(?:", PATTERNS[family].regex)), fullmatch=True))
    text = draw(st.sampled_from([str, str.upper, str.title]))(text)
    return _widen(text, draw(st.sets(st.integers(0, 6), max_size=3))) if family == "marked" else text


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(["", "x", "<", "é", "\n"]))
def test_a_sieve_finds_whatever_its_pattern_matches(data: st.DataObject, before: str) -> None:
    for family in PATTERNS:
        text = before + data.draw(matches(family))
        assert family in sanitize._SIEVE.families(utf8(WORDS + text)), text
        assert family in sanitize._SIEVE.families(utf8(LONG + text)), text


@settings(max_examples=300, deadline=None)
@example("<turn|>")
@example("<channel|>")
@example("<user|>")
@given(st.one_of(matches("marked"), matches("escaped"), st.text(max_size=12), st.sampled_from(["\u200b", "\x1b[0m"])))
def test_texts_are_cleaned_as_if_every_stage_ran(text: str) -> None:
    """Of long texts, the stages read only what is near a needle; they must find what they find in all of it."""
    for long in (text, f"{WORDS}\n{text}\n{WORDS}", f"{LONG}\n{text} {text}é\n{LONG}{text}"):
        whole = sanitize._sanitize(long, DEFAULT, EVERYTHING)
        assert sanitize_text(long) == whole
        cleaned: Any = sanitize_json({"text": [long]}).value
        assert cleaned == {"text": [whole.value]}


def test_every_character_that_reads_as_the_first_of_a_marker_is_a_needle() -> None:
    firsts = {char for places, _ in PATTERNS["marked"].beginnings for char in places[0]}
    folded = (chr(point) for point in range(0x80, 0x30000) if not 0xD800 <= point <= 0xDFFF)
    others = {char for char in folded if markers._fold(char)[:1] in firsts}
    assert others
    missed = {char for char in others if "marked" not in sanitize._SIEVE.families(utf8(char))}
    assert missed == set(), {unicodedata.name(char, "?") for char in missed}


def test_an_expression_knows_what_its_matches_begin_with() -> None:
    kinds = {"{N}": one_of("01", 3)}
    part = sequence(one_of("<"), either(words(["ab{N}".partition("{N}")[0], "ac"], kinds), sequence()), rest(".*"))
    assert re.fullmatch(part.regex, "<ac...")
    assert {tuple("".join(sorted(chars)) for chars in places) for places, _ in part.beginnings} == {
        ("<", "a", "b"),
        ("<", "a", "c"),
        ("<",),
    }
