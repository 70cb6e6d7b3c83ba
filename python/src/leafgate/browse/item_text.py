"""What of an item is searched. In: SelectableItem. Out: its text by field, its digest. May touch: nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.browse.words import identifier_words, prose_words
from leafgate.model.tool import SelectableItem

FIELDS: Final = ("name", "title", "summary", "details", "parameters", "parameter_texts", "server", "tags")
MAX_DETAILS: Final = 2_000  # characters of a description beyond its first sentence
MAX_PARAMETER_TEXT: Final = 300
MAX_PARAMETERS: Final = 60
MAX_DEPTH: Final = 4

_OBJECT: Final = (dict, Mapping)  # made once: a union written out in a call is made anew by every call
_FIRST_SENTENCE: Final = re.compile(r"\s*(.{8,240}?(?:(?<!\d)[.!?](?=\s)|\n\s*\n|\Z)|.{0,240})", re.DOTALL)
_SAFETY_TAGS: Final = frozenset(("read-only", "destructive"))  # claims about a tool, not what it is for
_REF_SUFFIX: Final = re.compile(r"[-_ ](?:ref|mcp|server)\b|\b(?:mcp|server)[-_ ]")


@dataclass(frozen=True)
class ItemText:
    """Words by field, in the order of FIELDS, and the texts whose meaning is compared."""

    fields: tuple[tuple[str, ...], ...]
    label: str  # what it is called
    summary: str  # what it is said to do


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
    name = " ".join(_spoken(item.upstream_name or item.name))
    title = " ".join(_spoken(item.title))
    label = " ".join(_spoken(server)) + " " + name + ("" if title == name else " " + title)
    return ItemText(fields, label, f"{name}. {summary}")


def split_description(description: str) -> tuple[str, str]:
    """The first sentence says what a tool does; the rest is advice, examples and warnings."""
    found = _FIRST_SENTENCE.match(description)
    cut = found.end() if found else 0
    return description[:cut].strip(), description[cut : cut + MAX_DETAILS]


def item_digest(item: SelectableItem) -> bytes:
    """Changes with anything that is searched, filtered or shown of the item."""
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


def _spoken(text: str) -> list[str]:
    """Words without the joined form that the index also keeps: `pageId` is spoken page id."""
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
