"""Texts as flow rules compare them: letters and digits alone, and what encodings in a text stand for.

Case, accents, spaces, punctuation and invisible characters are dropped, so that quoting, wrapping, a URL or the labels
of a host name change nothing; characters that look alike are one. Arguments are read in more ways than results: joined
over their fields and over calls, backward, and rotated by 13 letters. What no function here undoes (paraphrase,
translation, encryption) is not seen.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import codecs
import html
import json
import lzma
import re
import unicodedata
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote_plus

import numpy as np

BREAK: Final = "\0"  # between texts: nothing matches across it
MAX_TEXT: Final = 262_144  # letters and digits of one result that are followed
MAX_ARGUMENTS: Final = 1_048_576  # characters of the arguments of one call; a call with more cannot be checked
MAX_VALUES: Final = 100_000
MAX_DECODED: Final = MAX_ARGUMENTS  # characters that the encodings in one text may unfold to
MAX_LAYERS: Final = 3  # of encodings around each other
MAX_UNPACKING: Final = 16 * 1024 * 1024  # bytes of memory for unpacking xz
MAX_COMPACT: Final = 8_192  # characters of arguments that are read as one base64 text, whatever is between its parts
MAX_ENCODED: Final = 131_072  # characters of a text of a result in which encodings are searched for
SHORT: Final = 200  # characters of a value that is joined with those beside it: the fields of a record
MAX_TAIL: Final = 600  # characters of one field over calls
MAX_FIELDS: Final = 32
GROUP: Final = 8  # characters that a run of codes stands for at least

_NOT_WORD: Final = re.compile(r"[\W_]+")
_DROPPED_ASCII: Final = bytes(byte for byte in range(128) if not chr(byte).isalnum())
# Characters that stand for one another: digits for letters, and Cyrillic and Greek letters for Latin ones.
_ALIKE: Final = ("013457lавеікмнорстухјѕһԁӏαεικορτυχν", "oieastiabeikmhopctyxjshdiaeikoptyxv")
_TO_ASCII: Final = bytes.maketrans(b"013457l", b"oieasti")
_TO_LATIN: Final = str.maketrans(*_ALIKE)
# What servers pass around and says nothing by itself: UUIDs, times, the ids of commits, and the host of a URL.
_APART: Final = re.compile(
    "\0|"
    r"https?://[^\s/?#\"'<>]{1,255}|(?<![0-9A-Za-z])(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-f]{40}"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)(?![0-9A-Za-z])"
)
_ESCAPE: Final = re.compile(r"\\u([0-9a-fA-F]{4})|(?:\\x|=)([0-9a-fA-F]{2})|\\([0-7]{3})|\\[nrtbf]|<[^<>]{1,64}>")
_PARAMETER: Final = re.compile(r"[?&;][\w.\[\]-]{1,32}=")  # the name of one
_WORD: Final = re.compile(r"\S+")
_ROT47: Final = str.maketrans({33 + at: 33 + (at + 47) % 94 for at in range(94)})
_NUMBER: Final = re.compile(r"\d{40,4000}")
_BITS: Final = re.compile(r"[01\s,]{64,}")
# Characters that are not shown: tags stand for ASCII, variation selectors for bytes.
_UNSEEN: Final = re.compile("[\ufe00-\ufe0f\U000e0000-\U000e01ef]{8,}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}")
_BASE32: Final = re.compile(r"[A-Za-z0-9.-]{16,}")
_BASE85: Final = re.compile(r"(?<![!-~])[!-~]{20,8192}(?![!-~])")
_HEX: Final = re.compile(r"[0-9A-Fa-f\s:.,_-]{16,}")
_HEX_PREFIX: Final = re.compile(r"(?:0|\\)x(?=[0-9A-Fa-f]{2})")
_CODES: Final = re.compile(r"[\d\s,;.]{16,}")
_URLSAFE: Final = str.maketrans("-_", "+/")
# What may stand between the parts of one base64 text: nothing of its alphabet; hyphens and underscores; slashes too.
_BETWEEN: Final = tuple(re.compile(pattern) for pattern in (r"[^A-Za-z0-9+/_-]", r"[^A-Za-z0-9+/]", r"[^A-Za-z0-9]"))
_BYTES_KEYS: Final = ("data", "blob")


def fold(text: str) -> str:
    """Return the letters and digits of a text, without case and accents."""
    if text.isascii():
        return text.lower().encode().translate(_TO_ASCII, _DROPPED_ASCII).decode()
    plain = unicodedata.normalize("NFKD", text)[: 4 * len(text)].casefold().translate(_TO_LATIN)
    return _double_wide(_NOT_WORD.sub("", plain))


def _double_wide(text: str) -> str:
    """Write Chinese and Japanese characters twice: each says what takes two or three letters elsewhere."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    is_wide = ((points >= 0x2E80) & (points <= 0x9FFF)) | (points >= 0x20000)
    return np.repeat(points, 1 + is_wide).tobytes().decode("utf-32-le", "surrogatepass") if is_wide.any() else text


def fold_result(value: Any) -> str:
    """Return what a result says, with the decoded forms of encodings in it: at most MAX_TEXT letters and digits."""
    parts: list[str] = []
    size = 0
    for text in _read_result(value):
        if size >= MAX_TEXT:
            break
        parts.append(BREAK.join(fold(piece) for piece in _APART.split(text[: 2 * (MAX_TEXT - size)])))
        size += len(parts[-1])
    return BREAK.join(parts)[:MAX_TEXT]


def _read_result(value: Any) -> Iterator[str]:
    """Yield the texts of a result, what their encodings stand for, and the fields of records one after another."""
    for text, name in walk_strings(value):
        if name not in _BYTES_KEYS or len(text) < SHORT:
            yield text
        if text[:1] in ("{", "[") and len(text) <= 2 * MAX_TEXT:
            with suppress(ValueError, RecursionError):
                yield _join_fields(json.loads(text))
        yield from decode(text[:MAX_ENCODED], layers=1)
    yield _join_fields(value)


def _join_fields(value: Any) -> str:
    """The short values of a record or a list of records: one after another, and those with one name together."""
    texts: list[str] = []
    by_name: dict[str, list[str]] = {}
    for text, name in islice(walk_strings(value, with_numbers=True), MAX_VALUES):
        if len(text) <= SHORT:
            texts.append(text)
            by_name.setdefault(name, []).append(text)
    columns = [" ".join(column) for column in by_name.values() if 1 < len(column) < len(texts)]
    return BREAK.join((" ".join(texts), *columns))


def fold_arguments(value: Any) -> str | None:
    """Return arguments in every form in which a text may be hidden in them; None if they are too large to check."""
    values: list[str] = []
    names: dict[str, None] = {}
    for text, name in walk_strings(value, with_numbers=True):
        values.append(text)
        names[name] = None
        if len(values) > MAX_VALUES:
            return None
    whole = "".join(values)
    if len(whole) + sum(map(len, names)) > MAX_ARGUMENTS:
        return None
    forward, several = fold(whole), len(values) > 1
    forms = [forward, forward[::-1], fold(codecs.encode(whole, "rot13")), fold("".join(names))]
    forms.append(fold("".join(reversed(" ".join(values).split()))))
    forms.append(fold(re.sub(r"\d+", "", whole)))  # numbers between parts
    forms.append(fold(_PARAMETER.sub(" ", whole)))  # names between parts
    forms.append(fold(_WORD.sub(lambda word: word[0][::-1], whole)))
    if sum(map(str.islower, whole)) < 0.2 * len(whole):  # it turns small letters into other signs
        forms.append(fold(whole.translate(_ROT47)))
    if several:
        forms += [fold("".join(reversed(values))), fold("".join(each[::-1] for each in values))]
    # Encodings over several arguments, and backward ones, are searched for only where that does not take long.
    joined = (*((whole,) if several else ()), whole[::-1]) if len(whole) <= MAX_ENCODED else ()
    decoded = [each for text in (*values, *joined) for each in decode(text)]
    for text in dict.fromkeys(decoded):
        folded = fold(text)
        forms += [folded, folded[::-1]]
    forms += map(fold, _decode_compact(whole))
    return BREAK.join(dict.fromkeys(forms))


def walk_strings(value: Any, *, with_numbers: bool = False) -> Iterator[tuple[str, str]]:
    """Yield each string of a value in order, with the name of the member that holds it.

    With numbers: those too, and a list of character codes as the text that it spells.
    """
    stack: list[tuple[Any, str]] = [(value, "")]
    while stack:
        item, name = stack.pop()
        if isinstance(item, str):
            yield item, name
        elif isinstance(item, Mapping):
            stack.extend((each, str(key)) for key, each in reversed([*item.items()]))
        elif isinstance(item, list | tuple):
            if with_numbers and len(item) >= 8 and all(type(each) is int and 0 <= each < 0x110000 for each in item):
                yield "".join(map(chr, item)), name
            stack.extend((each, name) for each in reversed(item))
        elif with_numbers and isinstance(item, int | float) and not isinstance(item, bool):
            yield str(item), name


# One field over several calls


@dataclass(frozen=True)
class Tail:
    """The last value of a field, and the end of what it carried over calls."""

    last: str
    carried: str


def continue_fields(tails: Mapping[str, Tail], value: Any) -> dict[str, Tail]:
    """Return the fields of earlier calls, by name, with what another call adds to them; under "" all fields together.

    What a value has in common with the one before, such as the address around a query, is not repeated.
    """
    result = {"": Tail("", ""), **tails}
    added = ""
    for text, name in islice(walk_strings(value, with_numbers=True), MAX_FIELDS):
        before = result.get(name or "-", Tail("", ""))
        new = _find_new_part(before.last, text[: 2 * MAX_TAIL])
        result[name or "-"] = Tail(text[: 2 * MAX_TAIL], (before.carried + new)[-2 * MAX_TAIL :])
        added += new
    result[""] = Tail(added[:MAX_TAIL], (result[""].carried + added)[-2 * MAX_TAIL :])
    return dict(islice(result.items(), MAX_FIELDS))


def _find_new_part(last: str, text: str) -> str:
    """What a value has that the last one of the same field had not: of a URL its new parts but for small numbers, of
    another text what is after the words that both begin with."""
    if "://" in text:
        parts, known = re.split(r"[/?#&=:.]+", text), {*re.split(r"[/?#&=:.]+", last)}
        return " ".join(part for part in parts if part not in known and not re.fullmatch(r"\d{1,3}", part))
    length = next((place for place, (a, b) in enumerate(zip(last, text, strict=False)) if a != b), len(last))
    while length and text[min(length, len(text)) - 1 : length].isalnum():
        length -= 1
    return text[length:]


# Encodings


def decode(text: str, layers: int = MAX_LAYERS) -> list[str]:
    """Return what the encodings in a text stand for, layer by layer: escapes, base64, base32, hex, character codes."""
    results: dict[str, None] = {}
    level, room = [text], MAX_DECODED
    for _ in range(layers):
        found = [each for source in level for each in _decode_layer(source) if each not in results]
        level = []
        for each in found:
            if len(each) <= room and each not in results:
                room -= len(each)
                results[each] = None
                level.append(each)
    return [*results]


def _decode_layer(text: str) -> Iterator[str]:
    """Yield what the encodings in a text stand for, without those inside others."""
    plain = _ESCAPE.sub(_unescape, html.unescape(unquote_plus(text)))
    if plain != text:
        yield plain
    for match in _BASE64.finditer(text):
        run = match[0].translate(_URLSAFE)
        yield from _as_text(_from_base64(run))
    for match in _HEX.finditer(_HEX_PREFIX.sub("", text)):
        digits = re.sub(r"[^0-9A-Fa-f]", "", match[0])
        for start in (0, 1) if len(digits) >= 2 * GROUP else ():
            yield from _as_text(bytes.fromhex(digits[start : start + (len(digits) - start) // 2 * 2]))
    for match in _BASE32.finditer(text):
        letters = re.sub(r"[.-]", "", match[0]).upper()
        padded = letters + "=" * (-len(letters) % 8)
        for decode_run in (base64.b32decode, base64.b32hexdecode):
            for run in (padded, letters[: len(letters) // 8 * 8]):  # some lengths cannot be padded
                try:
                    yield from _as_text(decode_run(run))
                    break
                except binascii.Error:
                    continue
    yield from _decode_codes(text)


def _decode_codes(text: str) -> Iterator[str]:
    """Yield what rarer codes in a text stand for: bits, invisible characters, base85, character codes."""
    for match in _BITS.finditer(text):
        bits = re.sub("[^01]", "", match[0])
        yield from _as_text(bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)))
    for match in _UNSEEN.finditer(text):
        yield _read_unseen(match[0])
    for match in _BASE85.finditer(text):
        for decode_run in (base64.b85decode, base64.a85decode):
            try:
                yield from _as_text(decode_run(match[0]))
            except ValueError:
                continue
    for match in _NUMBER.finditer(text):  # the bytes of a text as one number
        number = int(match[0])
        yield from _as_text(number.to_bytes((number.bit_length() + 7) // 8))
    for match in _CODES.finditer(text):
        codes = re.findall(r"\d{2,4}", match[0])
        if len(codes) >= GROUP:
            yield "".join(chr(int(code)) for code in codes)


def _unescape(match: re.Match[str]) -> str:
    digits = match[1] or match[2]
    is_tag = match[0].startswith("<")
    return chr(int(digits, 16)) if digits else chr(int(match[3], 8)) if match[3] else "" if is_tag else " "


def _read_unseen(run: str) -> str:
    """The text that invisible characters spell."""
    points = [ord(char) for char in run]
    if all(0xE0000 <= point < 0xE0080 for point in points):
        return "".join(chr(point - 0xE0000) for point in points)
    numbers = (point - 0xFE00 if point < 0xE0000 else max(0, point - 0xE0100) + 16 for point in points)
    return bytes(number % 256 for number in numbers).decode("utf-8", "ignore")


def _from_base64(run: str) -> bytes:
    """Return the bytes of a run of base64 without padding; characters that are too many at its end are dropped."""
    run = run[: len(run) - 1] if len(run) % 4 == 1 else run
    return binascii.a2b_base64(run + "=" * (-len(run) % 4))


def _as_text(data: bytes) -> Iterator[str]:
    """Yield the text that these bytes are, unpacked if they are compressed; nothing if they are not a text."""
    zeros = b"\0\0\0\0"
    is_wide = "utf-16-le" if data[1:8:2] == zeros else "utf-16-be" if data[0:8:2] == zeros else ""
    for each in (data,) if is_wide else (_unpack(data), data):
        text = each.decode(is_wide or "utf-8", "ignore")
        printable = sum(char.isprintable() or char.isspace() for char in text[:256])
        if text and printable >= 0.8 * min(len(text), 256) and len(text) * 2 >= min(len(each), 256):
            yield text


def _unpack(data: bytes) -> bytes:
    """The bytes that compressed ones stand for: gzip, zlib, bare deflate, the first file of a zip, bzip2, xz."""
    with suppress(zlib.error, OSError, EOFError, ValueError, lzma.LZMAError):
        if data[:3] == b"BZh":
            return bz2.BZ2Decompressor().decompress(data, MAX_DECODED)
        if data[:6] == b"\xfd7zXZ\0":
            return lzma.LZMADecompressor(memlimit=MAX_UNPACKING).decompress(data, MAX_DECODED)
        if data[:2] == b"\x1f\x8b" or (data[:1] == b"\x78" and len(data) > 1 and int.from_bytes(data[:2]) % 31 == 0):
            return zlib.decompressobj(wbits=47).decompress(data, MAX_DECODED)
        if data[:4] == b"PK\3\4":
            data = data[30 + int.from_bytes(data[26:28], "little") + int.from_bytes(data[28:30], "little") :]
        return zlib.decompressobj(wbits=-15).decompress(data, MAX_DECODED)
    return b""


def _decode_compact(text: str) -> Iterator[str]:
    """Yield readings of arguments as one base64 text in parts, as in the labels of a host or the values of a query.

    Where it begins is unknown: each of the four positions is tried, and what is around it becomes noise that matches
    nothing.
    """
    readings = (between.sub("", text[:MAX_COMPACT]).translate(_URLSAFE) for between in _BETWEEN)
    for letters in dict.fromkeys(readings):
        for start in range(4) if len(letters) >= 32 and not letters.islower() else ():
            yield _from_base64(letters[start:]).decode("utf-8", "ignore")
