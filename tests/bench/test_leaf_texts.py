import json

import pytest
from leaf.texts import KINDS, MIXED_FROM, Sources, make_text, make_texts, read_sources

SOURCES = read_sources()


@pytest.mark.parametrize("kind", [*KINDS, "mixed"])
@pytest.mark.parametrize("size", [1, 2, 3, 100, 4096, 33_333])
def test_a_text_has_exactly_its_size_in_utf8(kind: str, size: int) -> None:
    assert len(make_text(kind, size, SOURCES).encode()) == size


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_question_gives_the_same_text(kind: str) -> None:
    assert make_text(kind, 5000, SOURCES) == make_text(kind, 5000, read_sources())


def test_each_kind_is_what_it_is_called() -> None:
    texts = {kind: make_text(kind, 8000, SOURCES) for kind in KINDS}
    assert len({*texts.values()}) == len(KINDS)
    assert all(json.loads(line)["id"] for line in texts["json"].splitlines()[:-1])
    assert sum(not char.isascii() for char in texts["cjk"]) > 2000
    assert "    def " in texts["code"]


def test_a_large_text_holds_all_kinds_and_repeats_little() -> None:
    (text,) = make_texts([MIXED_FROM], SOURCES)[MIXED_FROM].values()
    paragraphs = [part for part in text[: MIXED_FROM // 5].split("\n\n") if len(part) > 80]
    assert len({*paragraphs}) > 0.95 * len(paragraphs)
    assert '"path": "/srv/' in text
    assert text.rstrip(".").endswith("。") or "。" in text[-200:]


def test_small_sizes_have_one_text_of_each_kind() -> None:
    texts = make_texts([100, 200], SOURCES)
    assert [*texts] == [100, 200]
    assert [*texts[200]] == [f"{kind}-200" for kind in KINDS]


def test_a_short_source_is_used_again() -> None:
    few = Sources(["One. ", "Two. "], ["x = 1\n"])
    assert len(make_text("prose", 1000, few)) == 1000
    assert make_text("code", 12, few) == "x = 1\nx = 1\n"
