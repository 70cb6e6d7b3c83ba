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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
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
# Rules are tried in the windows that score highest: few in a result, which a client waits for.
MAX_SEARCHED: Final[Mapping[Place, int]] = {"definition": 40, "text": 2}
MAX_RULE_GAIN: Final = 8.0  # what the rules add to a score at most
_MAX_WORDS: Final = 1 << 16  # that are remembered with their features
_LONGEST_WORD: Final = 32
_EXCERPT: Final = 80

_MARKS: Final = r"\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e"  # vowels and accents that are not letters to `re`
_WORD: Final = re.compile(rf"[^\W\d_]+(?:[{_MARKS}]+[^\W\d_]*)*(?:['’][a-z]{{1,2}}\b)?|\d+|[<>\[\]{{}}#!*~|`]+")
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff]")
_SPACED_LETTERS: Final = re.compile(r"(?<![^\W_])(?:[^\W\d_][ .\-_*]{1,3}){5,}[^\W\d_](?![^\W_])")
_BLOB: Final = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/_-]{24,4096}={0,2}")
_LONG_RUN: Final = re.compile(r"[A-Za-z0-9+/_-]{24,}+={0,2}")
_SEPARATORS: Final = re.compile(r"[\s*`_]+")
_LEET: Final = str.maketrans("013457", "oieast")
_LETTERS: Final = re.compile(r"[a-z]+")
_OPENING_SIZES: Final = range(1, 6)
_OPENING: Final = re.compile(r"((?:[a-z](?![?*{])){1,5})(\\ |\\b)?")
_WORD_END: Final = "$"


# Rules


@dataclass(frozen=True)
class ScanRule:
    """Patterns for one purpose. `unless`: words in the match that make it harmless.

    `openings` are the letters that the matches of each pattern begin with; None where that is not known.
    """

    name: str
    kind: str
    patterns: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None
    openings: tuple[frozenset[str] | None, ...]

    def matches(self, words: str, starts: Collection[str]) -> list[re.Match[str] | None]:
        """Return the match of each pattern in folded text, or None. `starts` is what `find_starts` returns for it."""
        hits = (
            None if openings is not None and openings.isdisjoint(starts) else pattern.search(words)
            for pattern, openings in zip(self.patterns, self.openings, strict=True)
        )
        return [hit if hit and not (self.unless and self.unless.search(hit[0])) else None for hit in hits]


def find_starts(words: str) -> set[str]:
    """Return how the words of a folded text begin. By that, most patterns cannot match, and are not tried."""
    found = {*_LETTERS.findall(words)}
    return {word[:size] for word in found for size in _OPENING_SIZES} | {word + _WORD_END for word in found}


def read_openings(source: str) -> frozenset[str] | None:
    """Return the letters that every match of a pattern begins with, at the beginning of a word.

    Reads words and groups of words behind a boundary. None for a pattern that can begin in another way.
    """
    branches = [_read_branch(branch) for branch in _split(source)]
    return None if None in branches else frozenset().union(*(branch for branch in branches if branch))


def _read_branch(branch: str) -> frozenset[str] | None:
    return _read_word(branch.removeprefix(r"\b")) if branch.startswith(r"\b") else None


def _read_word(source: str) -> frozenset[str] | None:
    """Return the openings of what stands behind a boundary."""
    if not source.startswith("(?:"):
        word = _OPENING.match(source)
        return None if word is None else frozenset([word[1] + (_WORD_END if word[2] else "")])
    end = _find_end(source)
    words = [_read_word(word) for word in _split(source[3:end])]
    rest = source[end + 1 :]
    if rest[:1] in ("*", "{"):
        return None
    if rest[:1] == "?":  # what comes next can begin a match too
        words.append(_read_word(rest[1:]))
    return None if None in words else frozenset().union(*(word for word in words if word))


def _split(source: str) -> list[str]:
    """Return the alternatives of a pattern."""
    parts, start, place = [], 0, 0
    while place < len(source):
        if source[place] == "|":
            parts.append(source[start:place])
            start = place + 1
        place = _skip(source, place)
    return [*parts, source[start:]]


def _find_end(source: str) -> int:
    """Return where the group that opens a pattern is closed."""
    place = 1
    while source[place] != ")":
        place = _skip(source, place)
    return place


def _skip(source: str, place: int) -> int:
    """Return the place behind an escape, a class, a group or a character."""
    if source[place] == "\\":
        return place + 2
    if source[place] == "[":
        return source.index("]", place + 2) + 1
    if source[place] == "(":
        return place + _find_end(source[place:]) + 1
    return place + 1


def _load_rules(entries: Iterable[Mapping[str, Any]], fragments: Mapping[str, str]) -> Iterator[ScanRule]:
    types = {"name": str, "kind": str, "patterns": list, "unless": str}
    for entry in entries:
        check_types("scan_rules.toml", entry, types)
        patterns = tuple(re.compile(expand(pattern, fragments), re.VERBOSE) for pattern in entry["patterns"])
        unless = re.compile(entry["unless"], re.VERBOSE) if "unless" in entry else None
        openings = tuple(read_openings(pattern.pattern) for pattern in patterns)
        yield ScanRule(entry["name"], entry["kind"], patterns, unless, openings)


TABLE: Final = load_table("scan_rules", {"fragments": dict, "rules": list, "wordings": dict})
RULES: Final = tuple(_load_rules(TABLE["rules"], TABLE["fragments"]))
PATTERN_COUNT: Final = sum(len(rule.patterns) for rule in RULES)


def find_patterns(text: str) -> NDArray[np.float32]:
    """Return 1 for each pattern of the rules that the text matches, and 0 for the others."""
    words = fold(text)
    starts = find_starts(words)
    return np.array([match is not None for rule in RULES for match in rule.matches(words, starts)], np.float32)


def fold(text: str) -> str:
    """Return what the rules read: one case, one width, single spaces, spaced letters joined, digits as letters."""
    words = shadow(text) if not text.isascii() else text.lower()
    words = _SPACED_LETTERS.sub(_join_letters, words)
    # Whole words, also those without a digit: a pattern that looks for the digit takes quadratic time on a long word.
    words = re.sub(r"[a-z0-9]+", _unleet, words)
    return _SEPARATORS.sub(" ", words) + "\n" + (re.sub(r"\s+", " ", text.lower()) if not text.isascii() else "")


def _join_letters(match: re.Match[str]) -> str:
    words = re.split(r"[ .\-_*]{2,}", match[0])
    return " ".join(re.sub(r"[ .\-_*]", "", word) for word in words)


def _unleet(match: re.Match[str]) -> str:
    word = match[0]
    if word.isalpha():
        return word
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
    """The features of one word: hashes that form pairs with their neighbours, hashes that do not, and its vector."""

    hashes: tuple[int, ...]
    others: tuple[int, ...] = ()
    pieces: tuple[int, ...] = ()


def read_word(word: str, embedder: StaticEmbedder | None) -> Unit:
    """Return the features of a word."""
    if word[0].isdigit():
        return Unit((_hash("0"),))
    if not word[0].isalpha():
        return Unit((_hash(word[:3]),))
    plain = word.lower() if word.isascii() else _fold_word(word)
    if not plain or (len(plain) > _LONGEST_WORD and plain.isascii()):
        return Unit((_hash("^long"),))
    if _UNSPACED.search(plain):
        pairs = [plain[at : at + 2] for at in range(len(plain) - 1)] or [plain]
        return Unit(tuple(map(_hash, pairs)), tuple(map(_hash, plain)))
    others = [_hash("^" + plain[:5])] if len(plain) > 6 else []
    others += [_hash("^CAPITALS")] if len(word) > 2 and word.isupper() else []
    letters = plain.partition("'")[0]
    has_pieces = embedder is not None and letters.isascii() and letters.isalpha()
    pieces = embedder.pieces.split_word(letters) if embedder is not None and has_pieces else ()
    return Unit((_hash(plain),), tuple(others), pieces)


def pair_buckets(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the buckets of neighbours, and of neighbours but one: each at the place of its first hash."""
    return _pair(hashes[:-1], hashes[1:], 1), _pair(hashes[:-2], hashes[2:], 2)


def _pair(first: NDArray[np.uint64], second: NDArray[np.uint64], distance: int) -> NDArray[np.int64]:
    mixed = first * np.uint64(0x9E3779B1) + second * np.uint64(0x85EBCA77) + np.uint64(distance * 0x27D4EB2F)
    mixed &= np.uint64(0xFFFFFFFF)
    return ((mixed ^ (mixed >> np.uint64(15))) % np.uint64(BUCKETS)).astype(np.int64)


def find_words(text: str) -> list[str]:
    """Return the words of a text, with the signs that separate its parts."""
    return _WORD.findall(text)


def window_texts(text: str, numbers: Sequence[int]) -> list[str]:
    """Return the texts of some windows."""
    spans = [match.span() for match in islice(_WORD.finditer(text), (max(numbers, default=0) + 2) * STRIDE)]
    ends = [min(len(spans), (number + 2) * STRIDE) - 1 for number in numbers]
    return [text[spans[number * STRIDE][0] : spans[end][1]] for number, end in zip(numbers, ends, strict=True)]


def join_halves(halves: NDArray[Any]) -> NDArray[Any]:
    """Return the sums of neighbours: windows from half windows. A single half is a window."""
    return halves if len(halves) == 1 else halves[:-1] + halves[1:]


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


class _Weighed(NamedTuple):
    """A word with its weights: what it adds to a score, apart from its pairs."""

    hashes: tuple[int, ...]
    word: float
    size: int  # number of its hashes, with those of its pairs
    meaning: float


@dataclass(frozen=True)
class InstructionModel:
    """The weights: of hash buckets, of the vector, of the patterns; and the threshold of each place.

    Without pairs and rules, a score is a sum over words, each of which is weighed once.
    """

    words: NDArray[np.float32] = field(repr=False)
    meaning: Floats = field(repr=False)
    patterns: Floats = field(repr=False)
    bias: float
    thresholds: Mapping[str, float]
    embedder: StaticEmbedder | None = field(repr=False, default=None)
    _weighed: dict[str, _Weighed] = field(repr=False, default_factory=dict)

    def judge(self, text: str, place: Place) -> Suspicion:
        """Return the suspicion of a text and of what is encoded in it."""
        if len(text) > MAX_CHARACTERS:
            text = text[: MAX_CHARACTERS * 3 // 4] + "\n" + text[-MAX_CHARACTERS // 4 :]
        readings = (_LONG_RUN.sub(_blank_random, text), *_other_readings(text))
        worst = max((self._judge_reading(reading, place) for reading in readings), default=None)
        if worst is None or worst[0] == -math.inf:
            return UNSUSPICIOUS
        return Suspicion(1 / (1 + math.exp(min(50.0, self.thresholds[place] - worst[0]))), worst[1])

    def _judge_reading(self, text: str, place: Place) -> tuple[float, str]:
        words = find_words(text)
        if not words:
            return -math.inf, ""
        scores = self.score(words)
        worst, excerpt = float(scores.max()), ""
        near = np.flatnonzero(scores >= self.thresholds[place] - MAX_RULE_GAIN)  # the rules cannot lift others so far
        numbers = near[np.argsort(-scores[near], kind="stable")][: MAX_SEARCHED[place]].tolist()
        for number, window in zip(numbers, window_texts(text, numbers) if numbers else (), strict=True):
            score = float(scores[number]) + self.weigh_patterns(find_patterns(window))
            if score > worst or not excerpt:
                worst, excerpt = max(worst, score), window
        return worst, " ".join(excerpt.split())[:_EXCERPT]

    def score(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the score of each window, without the rules."""
        weighed = [self._weighed.get(word) or self._weigh(word) for word in words]
        starts = np.arange(0, len(weighed), STRIDE)
        hashes = np.fromiter(chain.from_iterable(each.hashes for each in weighed), np.uint64)
        count = len(weighed)
        places = (
            np.arange(count) if len(hashes) == count else np.repeat(np.arange(count), [len(e.hashes) for e in weighed])
        )
        sums = np.add.reduceat(np.fromiter((each.word for each in weighed), np.float64, count), starts)
        for distance, buckets in enumerate(pair_buckets(hashes), 1):
            sums += np.bincount(places[: len(hashes) - distance] // STRIDE, self.words[buckets], len(starts))
        sizes = np.add.reduceat(np.fromiter((each.size for each in weighed), np.float64, count), starts)
        meaning = np.add.reduceat(np.fromiter((each.meaning for each in weighed), np.float64, count), starts)
        lengths = np.diff(starts, append=count)
        by_words = join_halves(sums) / np.sqrt(join_halves(sizes))
        by_meaning = join_halves(meaning) / np.sqrt(join_halves(lengths))
        scores: NDArray[np.float32] = by_words + by_meaning + self.bias
        return scores

    def _weigh(self, word: str) -> _Weighed:
        unit = read_word(word, self.embedder)
        buckets = [each % BUCKETS for each in (*unit.hashes, *unit.others)]
        pieces = list(unit.pieces)
        meaning = 0.0
        if pieces and self.embedder is not None:
            meaning = float(self.embedder.scale[pieces] @ self.embedder.rows[pieces] @ self.meaning)
        size = 3 * len(unit.hashes) + len(unit.others)
        weighed = _Weighed(unit.hashes, float(self.words[buckets].sum()), size, meaning)
        if len(self._weighed) < _MAX_WORDS:
            self._weighed[word] = weighed
        return weighed

    def weigh_patterns(self, patterns: NDArray[np.float32]) -> float:
        """Return what the rules add to the score of a window."""
        return min(MAX_RULE_GAIN, float(patterns @ self.patterns))


def _blank_random(run: re.Match[str]) -> str:
    """Return a blank for bytes in base64, keys and hashes: they have no words, and what they spell is read decoded."""
    found = run[0]
    is_random = any(map(str.isdigit, found)) and not found.islower() and not found.isupper()
    return " " if is_random else found


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
        weights = (words, file["meaning"], file["patterns"], float(file["bias"]))
        return InstructionModel(*weights, thresholds, bundled_embedder())


def judge_text(text: str, place: Place = "text") -> Suspicion:
    """Return how much a foreign text reads like instructions to the model that reads it."""
    return bundled_model().judge(text, place)
