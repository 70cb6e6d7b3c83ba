"""Reading a query in a catalog's words."""

import pytest
from routing_catalog import SMALL

from leafgate.browse.index import build_index
from leafgate.browse.query import parse_query
from leafgate.browse.reading import Reading, english, read_query
from leafgate.browse.words import stem

INDEX = build_index(SMALL, None)
KNOWN = english(frozenset(("filter", "throttle", "stop", "bake")).__contains__)


def read(text: str) -> Reading:
    return read_query(parse_query(text), INDEX.lexical, INDEX.spelling, KNOWN)


def weights(text: str) -> dict[str, float]:
    terms = {number: term for term, number in INDEX.lexical.term_ids.items()}
    return {terms[number]: weight for number, weight in read(text).terms.items()}


@pytest.mark.parametrize(
    ("query", "term"),
    [("papres", "papers"), ("direcotry", "directory"), ("send mail", "sendmail"), ("repo", "repository")],
)
def test_words_are_led_back_to_the_catalogs(query: str, term: str) -> None:
    assert stem(term) in weights(query)


def test_quotations_and_english_words_are_not_corrected() -> None:
    assert weights('"papres"') == {}
    assert weights("filter") == {}
    assert read("filter").spoken == "filter"
    assert read("list papres").spoken == "list papers"


def test_what_is_not_found_still_counts_as_asked() -> None:
    assert read("papers").found == read("papers").asked
    assert read("papers zzzzzz").asked > read("papers zzzzzz").found > 0
    assert read("the of").asked == 0


@pytest.mark.parametrize("word", ["throttled", "stopped", "baking", "filters"])
def test_forms_of_english_words_are_english(word: str) -> None:
    assert KNOWN(word)
    assert not KNOWN(word + "xx")
