"""What the fuzz targets are fed with. In: nothing. Out: hypothesis strategies.

Pure noise is refused at the first byte and finds little: most inputs are sound ones with something changed in them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

ODD_TEXTS = (
    "", "\x00", "\u202e", "\ud800", "\ufeff", "a" * 5_000, "-0", "1e999", "NaN", "../..", "%00", "\r\n", "{}", "[]",
    "\U0001f469\u200d\U0001f680",
)  # fmt: skip
ODD_BYTES = (
    b"",
    b"\x00",
    b"\xff",
    b"\xc0\x80",
    b"[" * 3_000,
    b'{"a":' * 1_000,
    b"9" * 5_000,
    b'"\\ud800"',
    b"\xef\xbb\xbf",
)

texts = st.one_of(
    st.sampled_from(ODD_TEXTS), st.text(max_size=40), st.from_regex(r"[a-z0-9:@#/._-]{0,30}", fullmatch=True)
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), texts
)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)

id_lists = st.lists(st.integers(-2, 320) | scalars, max_size=8)


def objects_with(
    names: Sequence[str], values: st.SearchStrategy[Any] = json_values
) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that mostly have keys of these names."""
    return st.dictionaries(st.sampled_from(names) | texts, values, max_size=6)


@st.composite
def _changed(draw: st.DrawFn, sound: Sequence[bytes]) -> bytes:
    data = bytearray(draw(st.sampled_from(sound)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 8)))
        data[start:end] = draw(st.one_of(st.sampled_from(ODD_BYTES), st.binary(max_size=8), st.just(bytes(data[:64]))))
    return bytes(data)


def changed(*sound: bytes) -> st.SearchStrategy[bytes]:
    """Sound bytes with up to four places overwritten, cut out or repeated; sometimes noise."""
    return st.one_of(_changed(sound), _changed(sound), _changed(sound), st.sampled_from(sound), st.binary(max_size=80))


def changed_texts(*sound: str) -> st.SearchStrategy[str]:
    return changed(*(each.encode() for each in sound)).map(lambda data: data.decode("utf-8", "replace")) | texts


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()
