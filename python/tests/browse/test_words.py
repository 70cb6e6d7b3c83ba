"""Splitting and stemming: what counts as one word."""

import numpy as np
import pytest

from leafgate.browse.words import all_words, build_spelling, edits, identifier_words, prose_words, stem


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get_file_contents", ["get", "file", "contents"]),
        ("get-file-contents", ["get", "file", "contents"]),
        ("getFileContents", ["getfilecontents", "get", "file", "contents"]),
        ("HTTPServerURL", ["httpserverurl", "http", "server", "url"]),
        ("base64_encode", ["base64", "base", "64", "encode"]),
        ("repos/list.all:v2", ["repos", "list", "all", "v2", "v", "2"]),
        ("größe_ändern", ["größe", "ändern"]),
        ("", []),
        ("___", []),
    ],
)
def test_names_split_at_separators_case_and_digits(name: str, words: list[str]) -> None:
    assert identifier_words(name) == words


def test_a_brand_in_prose_stays_whole() -> None:
    assert prose_words("Search GitHub by pageId, at most 50") == [
        "search", "github", "by", "pageid", "page", "id", "at", "most",
    ]  # fmt: skip


def test_numbers_are_words_of_a_text_but_not_of_a_description() -> None:
    assert all_words("INV-104, 3.50 EUR") == ["inv", "104", "3", "50", "eur"]
    assert prose_words("INV-104, 3.50 EUR") == ["inv", "eur"]


def test_encoded_data_is_no_word() -> None:
    assert identifier_words("x" * 41 + " list") == ["list"]


@pytest.mark.parametrize(("word", "same"), [("files", "file"), ("directories", "directory"), ("created", "creating")])
def test_forms_of_a_word_share_a_stem(word: str, same: str) -> None:
    assert stem(word) == stem(same)


WORDS = ("branch", "branches", "channel", "chart", "file", "papers", "search", "status", "form", "slack")
SPELLING = build_spelling(WORDS, np.ones(len(WORDS), np.float32))


def corrected(word: str, known: tuple[str, ...] = ()) -> list[str]:
    return [WORDS[each.word] for each in SPELLING.correct(word, known.__contains__)]


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("brnaches", "branches"), ("chanel", "channel"), ("papres", "papers"), ("serach", "search"), ("sttaus", "status"),
     ("slak", "slack"), ("flie", "file")],
)  # fmt: skip
def test_near_words_are_found(typo: str, meant: str) -> None:
    assert corrected(typo)[0] == meant


@pytest.mark.parametrize("word", ["cat", "zzzzzz", "", "héllo", "x" * 60, "se4rch"])
def test_nothing_near_short_or_odd_is_left(word: str) -> None:
    assert corrected(word) == []


def test_a_known_word_is_left_to_meaning() -> None:
    assert corrected("farm") == ["form"]
    assert corrected("farm", known=("farm",)) == []


@pytest.mark.parametrize(("a", "b", "count"), [("a", "a", 0), ("ab", "ba", 1), ("abc", "abd", 1), ("abc", "xyz", 3)])
def test_edits(a: str, b: str, count: int) -> None:
    assert edits(a, b, 2) == count


def test_an_empty_vocabulary_corrects_nothing() -> None:
    assert build_spelling((), np.zeros(0, np.float32)).correct("search", lambda _: False) == []
