"""Whether a foreign text instructs the model that reads it: a small trained classifier.

A text is read in windows of 20 words that overlap by half. The score of a window is the sum of three parts: its words
and pairs of words (hashed), their meaning (the bundled static model), and its subjects with all pairs of them. A
subject is a list of words in many languages, such as those for secrets, for sending and for hiding; the lists are in
`data/instructions/words.toml`. So a demand in new words, or in another language, resembles those that were seen. The
score of a text is that of its highest window and a share for the subjects of the whole text: where it is about tests,
incidents or the work of people, an order is less likely to be meant for a model. In definitions of tools, which are
read once and outside the path of requests, the patterns of `clean.rules` add to it; in texts, only those for "ignore
your instructions" do. Time is linear in the text, and bounded. The weights are in `data/instructions/model.npz`;
`python/research/instructions` is their recipe.
"""

from __future__ import annotations

import base64
import html
import math
import re
import threading
import tomllib
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from leafgate.clean.markers import shadow
from leafgate.clean.rules import find_patterns, has_override, join_spaced_letters
from leafgate.meaning import Floats, StaticEmbedder, bundled_embedder

# Where a text comes from: the definition of a tool, or anything else that a server sends. Each has its threshold.
Place = Literal["definition", "text"]

FOLDER: Final = Path(__file__).parent.parent / "data" / "instructions"
MODEL: Final = FOLDER / "model.npz"
BUCKETS: Final = 1 << 17
STRIDE: Final = 10  # words; a window has two strides
MAX_CHARACTERS: Final = 131_072  # of a longer text, the beginning and the end are read
MAX_DECODED: Final = 20
_MAX_WORDS: Final = 1 << 15  # that are remembered with their features
_LONGEST_WORD: Final = 32
MAX_SEARCHED: Final = 40  # windows of a definition that rules are tried in: those that score highest
MAX_RULE_GAIN: Final = 6.0  # what the rules add to a score at most
MAX_CONTEXT: Final = 3.0  # what the subjects of the whole text change a score by at most: an attacker may add words
LEAST_CONTEXT: Final = 20  # words; a shorter text counts as one of so many
OVERRIDE_GAIN: Final = 0.5  # what "ignore your instructions" and the like add to the score of a text
LEAST_NEW: Final = 0.7  # of the words of a text, so that its repetitions are read
MAX_OVERRIDES: Final = 2  # windows of a text in which they are looked for
_SPACED: Final = 6  # single letters in a window that may be one word
_EXCERPT: Final = 80
_LEAST_EXCERPT: Final = {"definition": 0.1, "text": 0.5}  # risk from which on an excerpt is taken, by place

_UNSPACED: Final = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff"  # scripts without spaces
_LONG_RUN: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,}+={0,2}")
_MAX_BLOB: Final = 4_096
_ARABIC_PREFIX: Final = re.compile(r"^[وف]?(?:بال|كال|ال|لل|ب|ل)?(?=..)|^[وف](?=..)")
_LETTERS: Final = str.maketrans("ıłđøæœ", "ildoao")


# Words and subjects


class Word(NamedTuple):
    """The features of one word. Only `hash` forms pairs with neighbours. `subjects` are bits."""

    hash: int
    others: tuple[int, ...] = ()
    subjects: int = 0
    pieces: tuple[int, ...] = ()


class Subjects:
    """Which subjects a word belongs to. A word of the table that ends with a star stands for all its endings."""

    def __init__(self, table: Mapping[str, Mapping[str, str]]) -> None:
        self.names = tuple(table)
        self._whole: dict[str, int] = {}
        self._stems: dict[str, int] = {}
        unspaced = re.compile(f"[{_UNSPACED}]")
        terms: set[str] = set()
        for bit, scripts in enumerate(table.values()):
            for word in " ".join(scripts.values()).split():
                folded = fold_word(word.rstrip("*"))
                place = self._stems if word.endswith("*") else self._whole
                place[folded] = place.get(folded, 0) | 1 << bit
                if unspaced.search(word):
                    terms.add(word)
        self.unspaced = _match_longest(terms)
        self._longest = max(map(len, self._stems))

    def of(self, folded: str) -> int:
        """Return the subjects of a folded word, as bits."""
        found = self._whole.get(folded, 0)
        for size in range(2, min(len(folded), self._longest) + 1):
            found |= self._stems.get(folded[:size], 0)
        if not found and "\u0600" < folded < "\u0700":
            bare = _ARABIC_PREFIX.sub("", folded)
            return self._whole.get(bare, 0) if bare != folded else 0
        return found


def _match_longest(terms: Collection[str]) -> str:
    """Return a pattern for the longest of these terms. By first letters: most letters of a text begin none of them."""
    rests = defaultdict(list)
    for term in sorted(terms, key=len, reverse=True):
        rests[term[0]].append(re.escape(term[1:]))
    begins = "|".join(f"{re.escape(first)}(?:{'|'.join(ends)})" for first, ends in rests.items())
    return f"(?=[{''.join(map(re.escape, rests))}])(?:{begins})"


def fold_word(word: str) -> str:
    """Return the word in one case and width, without accents, and with look-alikes in Latin words as Latin letters."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word).casefold().replace("’", "'").translate(_LETTERS)
    bare = "".join(c for c in plain if not unicodedata.combining(c))
    is_mixed = not bare.isascii() and any(c.isascii() and c.isalpha() for c in bare)
    return shadow(bare) if is_mixed else bare


SUBJECTS: Final = Subjects(tomllib.loads((FOLDER / "words.toml").read_text("utf-8")))
_BITS: Final = np.arange(len(SUBJECTS.names), dtype=np.uint64)

_OTHERS: Final = r"\d+|[<>\[\]{}#!*~|`@?=]+"
_MARKS: Final = r"\u0300-\u036f\u0900-\u0dff"  # vowels and accents that are not letters to `re`
_WORD: Final = re.compile(
    rf"[^\W\d_{_UNSPACED}]+(?:[{_MARKS}]+[^\W\d_{_UNSPACED}]*)*(?:['’][a-z]{{1,2}}\b)?"
    rf"|{SUBJECTS.unspaced}|[{_UNSPACED}]|{_OTHERS}"
)
_ASCII_WORD: Final = re.compile(rf"[A-Za-z]+(?:'[a-z]{{1,2}}\b)?|{_OTHERS}")  # the same in ASCII, in half the time


def read_word(word: str, embedder: StaticEmbedder | None) -> Word:
    """Return the features of a word."""
    if word[0].isdigit():
        return Word(_hash("0"))
    if not word[0].isalpha():
        return Word(_hash(word[:3]))
    plain = fold_word(word)
    if not plain or (len(plain) > _LONGEST_WORD and plain.isascii()):
        return Word(_hash("^long"))
    others = [_hash("^" + plain[:5])] if len(plain) > 6 else []
    others += [_hash("^CAPITALS")] if len(word) > 2 and word.isupper() else []
    letters = plain.partition("'")[0]
    has_pieces = embedder is not None and letters.isascii() and letters.isalpha()
    pieces = embedder.pieces.split_word(letters) if embedder is not None and has_pieces else ()
    return Word(_hash(plain), tuple(others), SUBJECTS.of(plain), pieces)


def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "replace"))


def find_words(text: str) -> list[str]:
    """Return the words of a text, with the signs that separate its parts."""
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


def window_texts(text: str, numbers: Sequence[int]) -> list[str]:
    """Return the texts of some windows."""
    words = [*islice(_WORD.finditer(text), (max(numbers) + 2) * STRIDE)] if numbers else []
    ends = [min(len(words), (number + 2) * STRIDE) - 1 for number in numbers]
    return [text[words[number * STRIDE].start() : words[end].end()] for number, end in zip(numbers, ends, strict=True)]


def pair_buckets(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the buckets of neighbours, and of neighbours but one: each at the place of its first hash."""
    return _pair(hashes[:-1], hashes[1:], 1), _pair(hashes[:-2], hashes[2:], 2)


def _pair(first: NDArray[np.uint64], second: NDArray[np.uint64], distance: int) -> NDArray[np.int64]:
    mixed = first * np.uint64(0x9E3779B1) + second * np.uint64(0x85EBCA77) + np.uint64(distance * 0x27D4EB2F)
    mixed &= np.uint64(0xFFFFFFFF)
    return ((mixed ^ (mixed >> np.uint64(15))) & np.uint64(BUCKETS - 1)).astype(np.int64)


# Readings of a text


def decode_parts(text: str) -> Iterator[str]:
    """Yield the texts that are encoded in the text."""
    yield from _unescape(text)
    yield from _decode_blobs(_LONG_RUN.findall(text))


def _unescape(text: str) -> Iterator[str]:
    unescaped = html.unescape(text) if "&" in text else text
    if unescaped != text:
        yield unescaped
    if "%20" in text and re.search(r"%20[A-Za-z]", text):
        yield unquote(text)


def _decode_blobs(blobs: Sequence[str]) -> Iterator[str]:
    yield from filter(None, (_decode_blob(blob[:_MAX_BLOB]) for blob in blobs[:MAX_DECODED]))


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


def _blank_random(blobs: list[str], run: re.Match[str]) -> str:
    """Return a blank for bytes in base64, keys and hashes: they have no words, and what they spell is read decoded.

    Adds each run to the blobs.
    """
    found = run[0]
    blobs.append(found)
    is_random = any(map(str.isdigit, found)) and not found.islower() and not found.isupper()
    return " " if is_random else found


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
    """The weights: of hash buckets, of the vector, of pairs of subjects, of patterns; and the threshold of each place.

    `context` has the weights of the subjects in the whole text, by their share of its words.

    The diagonal of `subjects` has the weights of single subjects. Without pairs, a score is a sum over words, each of
    which is weighed once.
    """

    words: NDArray[np.float32] = field(repr=False)
    meaning: Floats = field(repr=False)
    subjects: NDArray[np.float32] = field(repr=False)
    context: Floats = field(repr=False)
    patterns: Floats = field(repr=False)
    bias: float
    thresholds: Mapping[str, float]
    embedder: StaticEmbedder | None = field(repr=False, default=None)
    _seen: list[_SeenWords] = field(repr=False, default_factory=list)

    def judge(self, text: str, place: Place) -> Suspicion:
        """Return the suspicion of a text and of what is encoded in it."""
        if len(text) > MAX_CHARACTERS:
            text = text[: MAX_CHARACTERS * 3 // 4] + "\n" + text[-MAX_CHARACTERS // 4 :]
        blobs: list[str] = []
        plain = _LONG_RUN.sub(partial(_blank_random, blobs), text)
        readings = [plain, *_unescape(text), *_decode_blobs(blobs)]
        worst, text, number = -math.inf, "", 0
        for reading in readings:
            scores, has_spaced_letters = self.score(reading)
            if place == "definition":
                self._add_rules(scores, reading)
            else:
                self._add_overrides(scores, reading)
            if has_spaced_letters and (joined := join_spaced_letters(reading)) != reading:
                readings.append(joined)
            if len(scores) and scores.max() > worst:
                worst, text, number = float(scores.max()), reading, int(scores.argmax())
        if worst == -math.inf:
            return UNSUSPICIOUS
        risk = 1 / (1 + math.exp(min(50.0, self.thresholds[place] - worst)))
        excerpt = " ".join(window_texts(text, [number])[0].split())[:_EXCERPT] if risk >= _LEAST_EXCERPT[place] else ""
        return Suspicion(risk, excerpt)

    def score(self, text: str) -> tuple[NDArray[np.float32], bool]:
        """Return the score of each window, and whether letters are spaced so that they may form words."""
        words = find_words(text)
        if not words:
            return np.zeros(0, np.float32), False
        seen = self._see()
        rows = np.fromiter(map(seen.__getitem__, words), np.int64, len(words))
        is_new = _find_new(rows)
        if is_new.mean() < LEAST_NEW:  # a text of repetitions is read without them; excerpts are then inexact
            rows = rows[is_new]
        starts = np.arange(0, len(rows), STRIDE)
        weights = seen.weights[rows]
        for distance, buckets in enumerate(pair_buckets(seen.hashes[rows]), 1):
            weights[:-distance, 0] += self.words[buckets]
        context = float(weights[:, 5].sum()) / max(LEAST_CONTEXT, len(rows))
        sums = np.add.reduceat(weights, starts)
        bits = np.bitwise_or.reduceat(seen.subjects[rows], starts)
        if len(starts) > 1:
            sums, bits = sums[:-1] + sums[1:], bits[:-1] | bits[1:]
        present = ((bits[:, None] >> _BITS) & np.uint64(1)).astype(np.float32)
        by_subjects = ((present @ self.subjects) * present).sum(1)
        by_words = sums[:, 0] / np.sqrt(sums[:, 1])
        by_meaning = sums[:, 2] / np.sqrt(sums[:, 3])
        constant = self.bias + min(MAX_CONTEXT, max(-MAX_CONTEXT, context))
        return by_words + by_meaning + by_subjects + np.float32(constant), bool((sums[:, 4] >= _SPACED).any())

    def _add_rules(self, scores: NDArray[np.float32], text: str) -> None:
        """Add what the rules weigh to the scores of windows that they can lift above the threshold of definitions."""
        near = np.flatnonzero(scores >= self.thresholds["definition"] - MAX_RULE_GAIN)
        numbers = near[np.argsort(-scores[near], kind="stable")][:MAX_SEARCHED].tolist()
        for number, window in zip(numbers, window_texts(text, numbers), strict=True):
            patterns = find_patterns(window)
            scores[number] += min(MAX_RULE_GAIN, float(self.patterns[patterns].sum()))

    def _add_overrides(self, scores: NDArray[np.float32], text: str) -> None:
        """Lift windows just below the threshold of texts that tell their reader to drop its instructions."""
        near = np.flatnonzero(np.abs(scores - self.thresholds["text"] + OVERRIDE_GAIN / 2) <= OVERRIDE_GAIN / 2)
        numbers = near[np.argsort(-scores[near], kind="stable")][:MAX_OVERRIDES].tolist()
        for number, window in zip(numbers, window_texts(text, numbers), strict=True):
            if has_override(window):
                scores[number] += OVERRIDE_GAIN

    def _see(self) -> _SeenWords:
        """Return the words that have been weighed. When there are many, the next text begins with none."""
        if not self._seen or len(self._seen[0]) > _MAX_WORDS:
            self._seen[:] = [_SeenWords(self)]
        return self._seen[0]


def _find_new(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which words are not among the words of the stride before them."""
    is_new = np.ones(len(rows), np.bool_)
    for distance in range(1, min(STRIDE, len(rows) - 1) + 1):
        is_new[distance:] &= rows[distance:] != rows[:-distance]
    return is_new


class _SeenWords(dict[str, int]):
    """The number of each word that was read, and its weights.

    These are the weight of the hashed word, the number of hashes, the weight of its meaning, 1, 1 for a letter, and
    what its subjects weigh in the whole text.
    """

    def __init__(self, model: InstructionModel) -> None:
        super().__init__()
        size = _MAX_WORDS + MAX_CHARACTERS
        self._model = model
        self._lock = threading.Lock()  # texts are judged in several threads
        self.weights = np.zeros((size, 6), np.float32)
        self.hashes = np.zeros(size, np.uint64)
        self.subjects = np.zeros(size, np.uint64)

    def __missing__(self, word: str) -> int:
        model = self._model
        features = read_word(word, model.embedder)
        buckets = [each % BUCKETS for each in (features.hash, *features.others)]
        pieces = list(features.pieces)
        meaning = 0.0
        if pieces and model.embedder is not None:
            meaning = float(model.embedder.scale[pieces] @ model.embedder.rows[pieces] @ model.meaning)
        is_letter = len(word) == 1 and word.isalpha()
        context = float(sum(weight for bit, weight in enumerate(model.context) if features.subjects >> bit & 1))
        with self._lock:
            row = len(self)
            self.weights[row] = model.words[buckets].sum(), 2 + len(buckets), meaning, 1, is_letter, context
            self.hashes[row] = features.hash
            self.subjects[row] = features.subjects
            return self.setdefault(word, row)


@lru_cache(maxsize=1)
def bundled_model() -> InstructionModel:
    """Return the model that comes with the package."""
    with np.load(MODEL, allow_pickle=False) as file:
        words = file["words"].astype(np.float32) * file["words_scale"]
        thresholds = {"definition": float(file["thresholds"][0]), "text": float(file["thresholds"][1])}
        weights = (file["meaning"], file["subjects"], file["context"], file["patterns"], float(file["bias"]))
        return InstructionModel(words, *weights, thresholds, bundled_embedder())


def judge_text(text: str, place: Place = "text") -> Suspicion:
    """Return how much a foreign text reads like instructions to the model that reads it."""
    return bundled_model().judge(text, place)
