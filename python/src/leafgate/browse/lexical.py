"""The lexical index: the words of each item by field, and BM25 over weighted fields.

Every posting holds its finished weight, so a query only adds up a few slices of one array.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from leafgate.browse.words import identifier_words, prose_words, stem
from leafgate.model.tool import SelectableItem

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

FIELDS: Final = ("name", "title", "summary", "details", "parameters", "parameter_texts", "server", "tags")
#                     name title summ. det. params ptexts server tags
WEIGHTS: Final = np.array((2.5, 2.0, 2.0, 0.5, 0.5, 0.4, 2.0, 1.0), np.float32)
LENGTH: Final = np.array((0.5, 0.5, 0.4, 0.6, 0.6, 0.6, 0.0, 0.3), np.float32)
SATURATION: Final = 0.8

MAX_DETAILS: Final = 2_000  # characters of a description beyond its first sentence
MAX_PARAMETER_TEXT: Final = 300
MAX_PARAMETERS: Final = 60
MAX_DEPTH: Final = 4

_OBJECT: Final = (dict, Mapping)  # created once: a union in a call is created again by every call
_FIRST_SENTENCE: Final = re.compile(r"\s*(.{8,240}?(?:(?<!\d)[.!?](?=\s)|\n\s*\n|\Z)|.{0,240})", re.DOTALL)
_SAFETY_TAGS: Final = frozenset(("read-only", "destructive"))  # claims about a tool, not its purpose
_REF_SUFFIX: Final = re.compile(r"[-_ ](?:ref|mcp|server)\b|\b(?:mcp|server)[-_ ]")


@dataclass(frozen=True)
class ItemText:
    """Words by field, in the order of FIELDS, and the texts that are compared by meaning."""

    fields: tuple[tuple[str, ...], ...]
    label: str  # the name
    summary: str  # what the item does


def item_text(item: SelectableItem) -> ItemText:
    summary, details = split_description(item.description)
    names, texts = _parameters(item.args_schema)
    fields = (
        tuple(identifier_words(item.upstream_name or item.name)),
        tuple(identifier_words(item.title)),
        tuple(prose_words(summary)),
        tuple(prose_words(details)),
        tuple(identifier_words(" ".join(names))),
        tuple(prose_words(" ".join(texts))),
        tuple(identifier_words(item.server or item.namespace)),
        tuple(identifier_words(" ".join(tag for tag in item.tags if tag not in _SAFETY_TAGS))),
    )
    server = _REF_SUFFIX.sub(" ", item.server or item.namespace)
    name = " ".join(_separate_words(item.upstream_name or item.name))
    title = " ".join(_separate_words(item.title))
    label = " ".join(_separate_words(server)) + " " + name + ("" if title == name else " " + title)
    return ItemText(fields, label, f"{name}. {summary}")


def split_description(description: str) -> tuple[str, str]:
    """Split off the first sentence, which says what a tool does; the rest is advice, examples and warnings."""
    sentence = _FIRST_SENTENCE.match(description)
    cut = sentence.end() if sentence else 0
    return description[:cut].strip(), description[cut : cut + MAX_DETAILS]


def item_digest(item: SelectableItem) -> bytes:
    """Return a digest that changes with everything that is searched, filtered or shown of the item."""
    content = (
        item.id, item.kind, item.name, item.upstream_name, item.title, item.description, item.namespace, item.server,
        item.tags, item.args_schema,
    )  # fmt: skip
    return hashlib.blake2b(_ENCODER.encode(content).encode(), digest_size=16).digest()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | frozenset | set):
        return sorted(value) if isinstance(value, frozenset | set) else list(value)
    return repr(value)


_ENCODER: Final = json.JSONEncoder(default=_plain)


def _separate_words(text: str) -> list[str]:
    """Return words without the compound that the index also holds: `pageId` gives page, id."""
    words = identifier_words(text)
    return [word for i, word in enumerate(words) if not "".join(words[i + 1 :]).startswith(word) or len(word) < 2]


def _parameters(schema: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    names: list[str] = []
    texts: list[str] = []
    for name, description in _walk(schema, 0):
        if len(names) == MAX_PARAMETERS:
            break
        names.append(name)
        texts.append(description[:MAX_PARAMETER_TEXT])
    return names, texts


def _walk(schema: object, depth: int) -> Iterator[tuple[str, str]]:
    if depth > MAX_DEPTH or not isinstance(schema, _OBJECT):
        return
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, _OBJECT) else ():
        description = inner.get("description") if isinstance(inner, _OBJECT) else None
        yield str(name), description if isinstance(description, str) else ""
        yield from _walk(inner, depth + 1)
    yield from _walk(schema.get("items"), depth + 1)


# The index


@dataclass(frozen=True)
class Entries:
    """The word counts of items: entry i says that `word[i]` occurs `count[i]` times in `field[i]`."""

    word: Ints
    field: NDArray[np.uint8]
    count: NDArray[np.uint8]
    bounds: Ints  # entries of item k are bounds[k]:bounds[k+1]


@dataclass(frozen=True)
class LexicalIndex:
    """Postings of term t: items[bounds[t]:bounds[t+1]], with weights in the same places."""

    words: tuple[str, ...]  # as spelled in the catalog
    term_of_word: Ints
    items: Ints
    weights: Floats
    bounds: Ints
    rarity: Floats  # inverse document frequency per term
    size: int
    word_ids: Mapping[str, int] = field(repr=False)
    term_ids: Mapping[str, int] = field(repr=False)

    @property
    def rarest(self) -> float:
        """The weight of a word that no item has."""
        return float(np.log1p((self.size + 0.5) / 0.5))

    def score(self, terms: Mapping[int, float]) -> Floats:
        """Return for each item the sum of the weights of these terms."""
        scores = np.zeros(self.size, np.float32)
        for term, weight in terms.items():
            span = slice(self.bounds[term], self.bounds[term + 1])
            scores[self.items[span]] += self.weights[span] * np.float32(weight)
        return scores


class WordNumbers(dict[str, int]):
    """Numbers words in the order in which they are first looked up."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def count_words(texts: Sequence[ItemText], numbers: WordNumbers) -> Entries:
    """Count the words of every field. New words are added to `numbers`, a table that the caller owns."""
    flat: list[int] = []
    lengths: list[int] = []
    for text in texts:
        for words in text.fields:
            flat.extend(map(numbers.__getitem__, words))
            lengths.append(len(words))
    place = np.repeat(np.arange(len(lengths), dtype=np.int64), np.array(lengths, np.int64))
    key, count = np.unique(place * max(len(numbers), 1) + np.array(flat, np.int64), return_counts=True)
    place, word = np.divmod(key, max(len(numbers), 1))
    item, field_number = np.divmod(place, len(FIELDS))
    return Entries(
        word=word.astype(np.int32),
        field=field_number.astype(np.uint8),
        count=np.minimum(count, 255).astype(np.uint8),
        bounds=np.searchsorted(item, np.arange(len(texts) + 1)).astype(np.int32),
    )


def build_lexical(entries: Entries, words: Sequence[str]) -> LexicalIndex:
    size = len(entries.bounds) - 1
    stems: dict[str, int] = {}
    term_of_word = np.array([stems.setdefault(stem(word), len(stems)) for word in words], np.int32)
    item = np.repeat(np.arange(size, dtype=np.int64), np.diff(entries.bounds))
    strength = _field_strength(entries, item, size)
    key = term_of_word[entries.word].astype(np.int64) * max(size, 1) + item if len(item) else item
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    total = np.add.reduceat(strength[order], first) if len(first) else np.zeros(0, np.float32)
    term, posting_items = np.divmod(key[first], max(size, 1))
    bounds = np.searchsorted(term, np.arange(len(stems) + 1)).astype(np.int32)
    frequency = np.diff(bounds)
    rarity = np.log1p((size - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)
    weights = (rarity[term] * total / (total + SATURATION)).astype(np.float32)
    return LexicalIndex(
        words=tuple(words),
        term_of_word=term_of_word,
        items=posting_items.astype(np.int32),
        weights=weights,
        bounds=bounds,
        rarity=rarity,
        size=size,
        word_ids={word: number for number, word in enumerate(words)},
        term_ids=stems,
    )


def _field_strength(entries: Entries, item: NDArray[np.int64], size: int) -> Floats:
    """Return each entry's share: the weight of its field times its count, less in a field that is longer than usual."""
    place = item * len(FIELDS) + entries.field
    lengths = np.bincount(place, weights=entries.count, minlength=size * len(FIELDS)).reshape(size, len(FIELDS))
    filled = np.maximum((lengths > 0).sum(axis=0), 1)
    usual = np.maximum(lengths.sum(axis=0) / filled, 1.0)
    norm = (1 - LENGTH) + LENGTH * (lengths / usual)
    strength = WEIGHTS[entries.field] * entries.count / norm.reshape(-1)[place]
    return np.asarray(strength, np.float32)
