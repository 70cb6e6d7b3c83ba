"""BM25 over fields: rare words and telling fields count more."""

import numpy as np
from routing_catalog import SMALL, tool

from leafgate.browse.index import build_index
from leafgate.browse.lexical import LexicalIndex
from leafgate.browse.words import stem


def scored(index: LexicalIndex, *words: str) -> list[float]:
    return index.score({index.term_ids[stem(word)]: 1.0 for word in words}).tolist()


def test_a_name_counts_more_than_a_description_and_that_more_than_a_parameter() -> None:
    schema = {"properties": {"widget": {"type": "string"}}}
    items = [
        tool("widget_a", "Does it."),
        tool("b", "Does a widget."),
        tool("c", "Does it.", args_schema=schema),
        tool("d"),
    ]
    name, description, parameter, nothing = scored(build_index(items, None).lexical, "widget")
    assert name > description > parameter > nothing == 0


def test_a_rare_word_counts_more() -> None:
    lexical = build_index(SMALL, None).lexical
    assert lexical.rarity[lexical.term_ids[stem("papers")]] > lexical.rarity[lexical.term_ids[stem("file")]]
    assert lexical.rarest > float(lexical.rarity.max())


def test_forms_of_a_word_meet() -> None:
    lexical = build_index(SMALL, None).lexical
    assert lexical.term_of_word[lexical.word_ids["file"]] == lexical.term_of_word[lexical.word_ids["files"]]


def test_empty_catalogs_and_empty_items() -> None:
    assert build_index([], None).lexical.score({}).shape == (0,)
    index = build_index([tool("?", server="")], None).lexical
    assert np.array_equal(index.score({}), [0])
