"""Splitting and stemming: what counts as one word."""

import pytest

from leafgate.browse.words import all_words, identifier_words, prose_words, stem


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
