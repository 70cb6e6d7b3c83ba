"""The loader of the tables: it refuses a file that is not as its readers expect."""

from __future__ import annotations

import pytest

from leafgate.data import check_types, expand, load_table


def test_a_file_with_other_sections_is_refused() -> None:
    with pytest.raises(ValueError, match=r"secrets\.toml"):
        load_table("secrets", {"fragments": dict, "patterns": list, "more": list})
    with pytest.raises(ValueError, match="alphabets is unknown"):
        load_table("secrets", {"fragments": dict})


def test_an_entry_with_an_unknown_key_or_another_type_is_refused() -> None:
    check_types("x.toml", {"lead": 4}, {"lead": int})
    for entry in ({"lead": "4"}, {"lead": True}, {"leed": 4}):
        with pytest.raises(ValueError, match=r"x\.toml"):
            check_types("x.toml", entry, {"lead": int})


def test_a_fragment_must_exist_and_a_quantifier_is_not_a_fragment() -> None:
    assert expand("a{WORD}{2,3}", {"WORD": "[a-z]"}) == "a[a-z]{2,3}"
    with pytest.raises(KeyError):
        expand("{OTHER}", {"WORD": "[a-z]"})
