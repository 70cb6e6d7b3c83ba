"""Reading a query: what is a wish, and what is an argument that must be left alone."""

import pytest
from routing_catalog import SMALL

from leafgate.browse.index import build_index
from leafgate.browse.query import MAX_WORDS, Reading, make_word_test, parse_query, parse_search, read_query
from leafgate.browse.words import stem


def telling(text: str) -> set[tuple[str, bool]]:
    return {(word.text, word.fixed) for word in parse_query(text).words if word.is_significant}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("please list the files", {("list", False), ("files", False)}),
        ('echo the string "helo wrld"', {("echo", False), ("string", False), ("helo", True), ("wrld", True)}),
        ("chose 'Germny' now", {("chose", False), ("germny", True), ("now", False)}),
        ("open https://exmaple.com/a_b now", {("open", False), ("url", True), ("now", False)}),
        ("crawl docs.example.com", {("crawl", False), ("url", True)}),
        ("read /var/lgo.json", {("read", False), ("file", True), ("var", True), ("lgo", True), ("json", True)}),
        ("show pod api-7f9", {("show", False), ("pod", False), ("api", True), ("7f9", True)}),
        ("call parse_qs", {("call", False), ("parse", True), ("qs", True)}),
        ("commit 42", {("commit", False)}),
        ("don't stop", {("stop", False)}),
    ],
)  # fmt: skip
def test_arguments_are_fixed_and_courtesies_say_nothing(query: str, words: set[tuple[str, bool]]) -> None:
    assert telling(query) >= words
    assert {word for word, fixed in telling(query) if not fixed} == {word for word, fixed in words if not fixed}


def test_quotations_and_tokens_are_kept_as_they_stand() -> None:
    query = parse_query("use `Send Mail` or github:create_issue#0a1b2c3d, please")
    assert query.quoted == ("Send Mail",)
    assert "github:create_issue#0a1b2c3d" in query.mentions


ODD = ["", "   ", "\x00", "?!", '"', "`", "''", "\ud800", "🙂" * 50, "(" * 100_000, '"' * 100_000]


@pytest.mark.parametrize("text", ODD)
def test_odd_queries_are_read(text: str) -> None:
    assert all(not word.text.isspace() for word in parse_query(text).words)


def test_a_huge_query_is_cut() -> None:
    assert len(parse_query("word%d " * 200_000).words) <= MAX_WORDS
    assert len(parse_query(" ".join(f"word{n}" for n in range(100_000))).words) == MAX_WORDS


def test_a_search_for_texts_takes_arguments_as_they_stand() -> None:
    query = parse_search("what did https://example.org/v2 say about the invoice 4711 of snake_case?")
    words = {word.text: word for word in query.words if word.is_significant}
    assert set(words) >= {"https", "example", "org", "v2", "invoice", "4711", "snake", "case"}
    assert {word.weight for word in words.values()} == {1.0}
    assert words["4711"].fixed
    assert words["v2"].fixed
    assert not words["invoice"].fixed
    assert len(parse_search("word " * 10_000 + " ".join(map(str, range(10_000)))).words) <= MAX_WORDS


INDEX = build_index(SMALL, None)
KNOWN = make_word_test(frozenset(("filter", "throttle", "stop", "bake")).__contains__)


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
    assert read("filter").text == "filter"
    assert read("list papres").text == "list papers"


def test_what_is_not_found_still_counts_as_asked() -> None:
    assert read("papers").covered_score == read("papers").perfect_score
    assert read("papers zzzzzz").perfect_score > read("papers zzzzzz").covered_score > 0
    assert read("the of").perfect_score == 0


@pytest.mark.parametrize("word", ["throttled", "stopped", "baking", "filters"])
def test_forms_of_english_words_are_english(word: str) -> None:
    assert KNOWN(word)
    assert not KNOWN(word + "xx")
