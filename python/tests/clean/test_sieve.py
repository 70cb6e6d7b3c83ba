"""The sieve: never a miss, and the same answer wherever a needle stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leafgate.clean.sieve import Sieve, make_needle

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
    assert SIEVE.families(b"nothing here") == set()
    assert SIEVE.families(b"a <| b") == {"pair"}
    assert SIEVE.families(b"my Password\x7f") == {"word", "byte"}
    assert SIEVE.families(b"") == set()


@given(st.lists(st.sampled_from(["", "a", "é", "漢字", "pass", "xkey", "<|é", "\x7f", "plain words"]), max_size=8))
def test_dirty_strings_are_told_apart(strings: list[str]) -> None:
    expected = {item for item in strings if any(word in item for word in ("pass", "key", "<|", "\x7f"))}
    assert SIEVE.find_texts(strings) == expected
