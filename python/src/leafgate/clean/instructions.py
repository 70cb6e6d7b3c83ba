"""Whether a foreign text instructs the model that reads it: a small trained classifier over words, meaning and rules.

A text is read in windows of 20 words that overlap by half. A window has three kinds of features: hashed words and pairs
of words (pairs of characters where a script has no spaces), the vector of the bundled static model, and the rules of
`scan_rules.toml`. The score of a window is a weighted sum, that of a text is its highest window. Time is linear in the
text, and bounded. The weights are in `data/instructions/model.npz`; `python/research/instructions` is their recipe.
"""

from __future__ import annotations

import base64
import html
import math
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from leafgate.clean.markers import shadow
from leafgate.data import check_types, expand, load_table
from leafgate.meaning import Floats, StaticEmbedder, bundled_embedder

# Where a text comes from: the definition of a tool, or anything else that a server sends. Each has its threshold.
Place = Literal["definition", "text"]

MODEL: Final = Path(__file__).parent.parent / "data" / "instructions" / "model.npz"
BUCKETS: Final = 1 << 17
STRIDE: Final = 10  # words; a window has two strides
MAX_CHARACTERS: Final = 131_072  # of a longer text, the beginning and the end are read
MAX_DECODED: Final = 20
MAX_RULE_GAIN: Final = 8.0  # what the rules add to a score at most
SEARCH_FROM: Final = 5.0  # below the threshold: rules are tried in windows that score so much by words and meaning
_MAX_WORDS: Final = 1 << 16  # that are remembered with their features
_LONGEST_WORD: Final = 32
_HASHES: Final = 0xFFFFFFFF
_EXCERPT: Final = 80

_WORD: Final = re.compile(
    r"(?:[^\W\d_]|[\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e])+(?:['’][a-z]{1,2}\b)?|\d+|[<>\[\]{}#!*~|`]+"
)
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff]")
_SPACED_LETTERS: Final = re.compile(r"(?<![^\W_])(?:[^\W\d_][ .\-_*]{1,3}){5,}[^\W\d_](?![^\W_])")
_BLOB: Final = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/_-]{24,4096}={0,2}")
_SEPARATORS: Final = re.compile(r"[\s*`_]+")
_LEET: Final = str.maketrans("013457", "oieast")


# Rules


@dataclass(frozen=True)
class ScanRule:
    """Patterns for one purpose. `unless`: words in the match that make it harmless."""

    name: str
    kind: str
    patterns: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None

    def matches(self, words: str) -> list[re.Match[str] | None]:
        """Return the match of each pattern in folded text, or None."""
        hits = (pattern.search(words) for pattern in self.patterns)
        return [hit if hit and not (self.unless and self.unless.search(hit[0])) else None for hit in hits]


def _load_rules(entries: Iterable[Mapping[str, Any]], fragments: Mapping[str, str]) -> Iterator[ScanRule]:
    types = {"name": str, "kind": str, "patterns": list, "unless": str}
    for entry in entries:
        check_types("scan_rules.toml", entry, types)
        patterns = tuple(re.compile(expand(pattern, fragments), re.VERBOSE) for pattern in entry["patterns"])
        unless = re.compile(entry["unless"], re.VERBOSE) if "unless" in entry else None
        yield ScanRule(entry["name"], entry["kind"], patterns, unless)


TABLE: Final = load_table("scan_rules", {"fragments": dict, "rules": list, "wordings": dict})
RULES: Final = tuple(_load_rules(TABLE["rules"], TABLE["fragments"]))
PATTERN_COUNT: Final = sum(len(rule.patterns) for rule in RULES)


def find_patterns(text: str) -> NDArray[np.float32]:
    """Return 1 for each pattern of the rules that the text matches, and 0 for the others."""
    words = fold(text)
    return np.array([match is not None for rule in RULES for match in rule.matches(words)], np.float32)


def fold(text: str) -> str:
    """Return what the rules read: one case, one width, single spaces, spaced letters joined, digits as letters."""
    words = shadow(text) if not text.isascii() else text.lower()
    words = _SPACED_LETTERS.sub(_join_letters, words)
    words = re.sub(r"[a-z0-9]*[0-9][a-z0-9]*", _unleet, words)
    return _SEPARATORS.sub(" ", words) + "\n" + (re.sub(r"\s+", " ", text.lower()) if not text.isascii() else "")


def _join_letters(match: re.Match[str]) -> str:
    words = re.split(r"[ .\-_*]{2,}", match[0])
    return " ".join(re.sub(r"[ .\-_*]", "", word) for word in words)


def _unleet(match: re.Match[str]) -> str:
    word = match[0]
    return word.translate(_LEET) if len(word) > 3 and sum(map(str.isalpha, word)) >= 2 else word


def decode_parts(text: str) -> Iterator[str]:
    """Yield the texts that are encoded in the text."""
    unescaped = html.unescape(text) if "&" in text else text
    if unescaped != text:
        yield unescaped
    if "%20" in text and re.search(r"%20[A-Za-z]", text):
        yield unquote(text)
    for count, match in enumerate(_BLOB.finditer(text)):
        if count >= MAX_DECODED:
            return
        reading = _decode_blob(match[0])
        if reading:
            yield reading


def _decode_blob(blob: str) -> str | None:
    """Return the readable text that a blob spells in hexadecimal or base64, or None."""
    plain = blob.rstrip("=").replace("-", "+").replace("_", "/")
    for decode, digits in ((bytes.fromhex, blob), (base64.b64decode, plain + "=" * (-len(plain) % 4))):
        try:
            text = decode(digits).decode()
        except ValueError:  # neither this encoding nor UTF-8
            continue
        if " " in text and text.isprintable():
            return text
    return None


# Features


class Unit(NamedTuple):
    """The features of one word: hashes that form pairs with their neighbours, hashes that do not, and word pieces."""

    hashes: tuple[int, ...]
    others: tuple[int, ...]
    pieces: tuple[int, ...]


class Windows(NamedTuple):
    """The features of the windows of a text: hash buckets with the half window each belongs to, and vectors."""

    buckets: NDArray[np.int64]
    halves: NDArray[np.int64]
    sizes: NDArray[np.float32]  # number of buckets per half window
    vectors: Floats  # sum per half window


class FeatureReader:
    """Turns texts into features. Remembers words that it has seen, up to a limit."""

    def __init__(self, embedder: StaticEmbedder | None) -> None:
        self._embedder = embedder
        self._units: dict[str, Unit] = {}

    def read(self, text: str) -> Windows | None:
        """Return the features of the windows, or None for a text without words."""
        units = [self._units.get(word) or self._read_word(word) for word in _WORD.findall(text)]
        if not units:
            return None
        hashes = np.fromiter(chain.from_iterable(unit.hashes for unit in units), np.uint64)
        places = np.repeat(np.arange(len(units)), [len(unit.hashes) for unit in units])
        others = np.fromiter(chain.from_iterable(unit.others for unit in units), np.uint64)
        other_places = np.repeat(np.arange(len(units)), [len(unit.others) for unit in units])
        buckets = np.concatenate((hashes, _pair(hashes[:-1], hashes[1:], 1), _pair(hashes[:-2], hashes[2:], 2), others))
        where = np.concatenate((places, places[:-1], places[:-2], other_places)) // STRIDE
        count = -(-len(units) // STRIDE)
        sizes = np.bincount(where, minlength=count).astype(np.float32)
        return Windows((buckets % BUCKETS).astype(np.int64), where, sizes, self._sum_vectors(units, count))

    def _sum_vectors(self, units: list[Unit], count: int) -> Floats:
        if self._embedder is None:
            return np.zeros((count, 1), np.float32)
        rows, scale = self._embedder.rows, self._embedder.scale
        vectors = np.zeros((count, rows.shape[1]), np.float32)
        for half in range(count):
            pieces = [piece for unit in units[half * STRIDE : (half + 1) * STRIDE] for piece in unit.pieces]
            if pieces:
                vectors[half] = scale[pieces] @ rows[pieces]
        return vectors

    def _read_word(self, word: str) -> Unit:
        unit = self._make_unit(word)
        if len(self._units) < _MAX_WORDS:
            self._units[word] = unit
        return unit

    def _make_unit(self, word: str) -> Unit:
        if word[0].isdigit():
            return Unit((_hash("0"),), (), ())
        if not word[0].isalpha():
            return Unit((_hash(word[:3]),), (), ())
        plain = word.lower() if word.isascii() else _fold_word(word)
        if not plain or (len(plain) > _LONGEST_WORD and plain.isascii()):
            return Unit((_hash("^long"),), (), ())
        if _UNSPACED.search(plain):
            pairs = [plain[at : at + 2] for at in range(len(plain) - 1)] or [plain]
            return Unit(tuple(map(_hash, pairs)), tuple(map(_hash, plain)), ())
        others = [_hash("^" + plain[:5])] if len(plain) > 6 else []
        others += [_hash("^CAPITALS")] if len(word) > 2 and word.isupper() else []
        letters = plain.partition("'")[0]
        is_word = self._embedder is not None and letters.isascii() and letters.isalpha()
        return Unit(
            (_hash(plain),),
            tuple(others),
            self._embedder.pieces.split_word(letters) if is_word and self._embedder is not None else (),
        )


def _fold_word(word: str) -> str:
    """Return the word in one case and width, without accents on Latin letters, and look-alikes as Latin letters."""
    plain = unicodedata.normalize("NFKC", word).casefold().replace("’", "'")
    bare = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    if bare.isascii():
        return bare
    is_mixed = any(c.isascii() and c.isalpha() for c in bare)
    return shadow(plain) if is_mixed else plain


def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "replace"))


def _pair(first: NDArray[np.uint64], second: NDArray[np.uint64], distance: int) -> NDArray[np.uint64]:
    mixed = (
        first * np.uint64(0x9E3779B1) + second * np.uint64(0x85EBCA77) + np.uint64(distance * 0x27D4EB2F)
    ) & np.uint64(_HASHES)
    return mixed ^ (mixed >> np.uint64(15))


# The classifier


@dataclass(frozen=True)
class Suspicion:
    """How much a text reads like instructions: `risk` is 0.5 at the threshold, `excerpt` shows the worst window."""

    risk: float
    excerpt: str = ""

    @property
    def is_flagged(self) -> bool:
        return self.risk >= 0.5


UNSUSPICIOUS: Final = Suspicion(0.0)


@dataclass(frozen=True)
class InstructionModel:
    """The weights: of hash buckets, of the vector, of the patterns; and the threshold of each place."""

    words: NDArray[np.float32] = field(repr=False)
    meaning: Floats = field(repr=False)
    patterns: Floats = field(repr=False)
    bias: float
    thresholds: Mapping[str, float]

    @cached_property
    def reader(self) -> FeatureReader:
        return FeatureReader(bundled_embedder())

    def judge(self, text: str, place: Place) -> Suspicion:
        """Return the suspicion of a text and of what is encoded in it."""
        if len(text) > MAX_CHARACTERS:
            text = text[: MAX_CHARACTERS * 3 // 4] + "\n" + text[-MAX_CHARACTERS // 4 :]
        threshold = self.thresholds[place]
        worst, excerpt = -math.inf, ""
        for reading in (text, *_other_readings(text)):
            score, window = self._judge_reading(reading, threshold)
            if score > worst:
                worst, excerpt = score, window
        if worst == -math.inf:
            return UNSUSPICIOUS
        return Suspicion(1 / (1 + math.exp(min(50.0, threshold - worst))), excerpt)

    def _judge_reading(self, text: str, threshold: float) -> tuple[float, str]:
        windows = self.reader.read(text)
        if windows is None:
            return -math.inf, ""
        scores = self.score(windows)
        worst, excerpt = float(scores.max()), ""
        near = np.flatnonzero(scores >= threshold - SEARCH_FROM)
        if len(near):
            spans = [match.span() for match in _WORD.finditer(text)]
            for number in map(int, near):
                window = text[spans[number * STRIDE][0] : spans[min(len(spans), (number + 2) * STRIDE) - 1][1]]
                score = float(scores[number]) + self.weigh_patterns(find_patterns(window))
                if score > worst or not excerpt:
                    worst, excerpt = max(worst, score), window
        return worst, " ".join(excerpt.split())[:_EXCERPT]

    def score(self, windows: Windows) -> NDArray[np.float32]:
        """Return the score of each window, without the rules."""
        sums = np.bincount(windows.halves, self.words[windows.buckets], len(windows.sizes))
        sums, sizes, vectors = join_halves(sums), join_halves(windows.sizes), join_halves(windows.vectors)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        lengths[lengths == 0] = 1
        meaning = vectors @ self.meaning / lengths if vectors.shape[1] == len(self.meaning) else 0.0
        scores: NDArray[np.float32] = sums / np.sqrt(sizes) + meaning + self.bias
        return scores

    def weigh_patterns(self, patterns: NDArray[np.float32]) -> float:
        """Return what the rules add to the score of a window."""
        return min(MAX_RULE_GAIN, float(patterns @ self.patterns))


def join_halves(halves: NDArray[Any]) -> NDArray[Any]:
    """Return the sums of neighbours: windows from half windows. A single half is a window."""
    return halves if len(halves) == 1 else halves[:-1] + halves[1:]


def _other_readings(text: str) -> Iterator[str]:
    yield from decode_parts(text)
    if _SPACED_LETTERS.search(text):
        yield _SPACED_LETTERS.sub(_join_letters, text)


@lru_cache(maxsize=1)
def bundled_model() -> InstructionModel:
    """Return the model that comes with the package."""
    with np.load(MODEL, allow_pickle=False) as file:
        words = file["words"].astype(np.float32) * file["words_scale"]
        thresholds = {"definition": float(file["thresholds"][0]), "text": float(file["thresholds"][1])}
        return InstructionModel(words, file["meaning"], file["patterns"], float(file["bias"]), thresholds)


def judge_text(text: str, place: Place = "text") -> Suspicion:
    """Return how much a foreign text reads like instructions to the model that reads it."""
    return bundled_model().judge(text, place)
