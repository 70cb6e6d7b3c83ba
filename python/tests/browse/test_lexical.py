"""BM25 over fields: rare words and telling fields count more."""

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from routing_catalog import SMALL, tool

from leafgate.browse.index import build_index
from leafgate.browse.lexical import FIELDS, LexicalIndex, item_digest, item_text, split_description
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


SCHEMA = {
    "type": "object",
    "properties": {
        "pageId": {"type": "string", "description": "Which page."},
        "edits": {"type": "array", "items": {"type": "object", "properties": {"oldText": {"description": "Before."}}}},
        "odd": True,
    },
}


def field(name: str, **given: object) -> tuple[str, ...]:
    return item_text(tool("x", **given)).fields[FIELDS.index(name)]  # type: ignore[arg-type]


def test_parameters_are_read_at_every_depth() -> None:
    assert {"page", "id", "edits", "old", "text", "odd"} <= set(field("parameters", args_schema=SCHEMA))
    assert field("parameter_texts", args_schema=SCHEMA) == ("which", "page", "before")


@pytest.mark.parametrize(
    "schema", [{}, {"properties": 3}, {"properties": {"a": None}}, {"items": [1]}, {"properties": []}]
)
def test_odd_schemas_are_read(schema: dict[str, object]) -> None:
    assert item_text(tool("x", args_schema=schema)).fields[0] == ("x",)


def test_a_schema_that_holds_itself_ends() -> None:
    schema: dict[str, object] = {}
    schema["properties"] = {"a": schema, "b": schema}
    assert len(field("parameters", args_schema=schema)) <= 120


@pytest.mark.parametrize(
    ("description", "summary"),
    [
        ("Reads a file. Use it often.", "Reads a file."),
        ("No stop", "No stop"),
        ("", ""),
        ("Do: 1. Read it. 2. Go.", "Do: 1. Read it."),
        ("A heading\n\nRest", "A heading"),
    ],
)
def test_the_first_sentence_is_the_summary(description: str, summary: str) -> None:
    assert split_description(description)[0] == summary


def test_a_description_without_end_is_cut() -> None:
    summary, details = split_description("x" * 1_000_000)
    assert len(summary) + len(details) < 3_000


def test_claims_about_safety_are_not_searched() -> None:
    assert field("tags", tags=("read-only", "mail")) == ("mail",)


def test_the_digest_follows_what_is_searched() -> None:
    item = tool("x", "Does x.", args_schema=SCHEMA)
    assert item_digest(item) == item_digest(replace(item, args_schema=MappingProxyType(SCHEMA)))
    changed = [
        replace(item, description="Does y."),
        replace(item, tags=("a",)),
        replace(item, args_schema={}),
        replace(item, title="X \ud800"),
    ]
    assert len({item_digest(each) for each in [item, *changed]}) == 5
