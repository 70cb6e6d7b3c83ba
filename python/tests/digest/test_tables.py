"""Tables in texts: what is one, its columns, kinds and rows."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hostile_texts import CSV, JSON_LINES, MARKDOWN, RECORDS, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.digest.outline import sample_json
from leafgate.digest.tables import (
    Dialect,
    as_number,
    csv_line,
    detect_dialect,
    json_lines,
    read_delimited,
    sample_delimited,
    sample_objects,
    table_of_objects,
)


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (CSV, Dialect("CSV", ",", has_header=True)),
        (MARKDOWN, Dialect("markdown", "|", has_header=True)),
        ("a\tb\n1\t2\n3\t4\n", Dialect("TSV", "\t", has_header=True)),
        ("1\tx\n2\ty\n3\tz\n", Dialect("TSV", "\t", has_header=False)),
        ("a;b;c\n1;2;3\n4;5;6\n", Dialect("CSV", ";", has_header=True)),
        ("1,2,3\n4,5,6\n7,8,9\n", Dialect("CSV", ",", has_header=False)),
        ('name,note\n"a","one\ntwo"\n"b","x"\n', Dialect("CSV", ",", has_header=True)),
        ("one, two\nthree, four\nfive, six\n", None),
        ("a,b\n1,2\n", None),
        ("a,b\n1,2\n3\n4,5\n", None),
        ("no table\nat all\nhere\n", None),
        ("", None),
    ],
)
def test_what_is_a_table(text: str, dialect: Dialect | None) -> None:
    assert detect_dialect(text) == dialect


def test_columns_kinds_and_ends() -> None:
    dialect = detect_dialect(CSV)
    assert dialect is not None
    found = sample_delimited(CSV, dialect)
    assert found.columns == ("id", "name", "score")
    assert found.kinds == ("integer", "text", "number")
    assert (found.rows, found.exact) == (1000, True)
    assert found.first[0] == ["1", "Name, 1", "0.143"]
    assert found.last[-1] == ["1000", "Name, 1000", "142.857"]
    records = sample_objects(sample_json(RECORDS))
    assert records is not None
    assert (records.columns, records.kinds) == (("id", "name", "ok"), ("integer", "text", "boolean"))
    assert records.rows == 1500


@pytest.mark.parametrize("value", [[], [1, 2, 3], [{"a": 1}], [{"a": 1}, 2, {"a": 3}], {"a": 1}, [{"a": {}}] * 5, "x"])
def test_other_values_are_no_tables(value: object) -> None:
    assert sample_objects(value) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(), st.text("ab,;\n\"'| ", max_size=9)), min_size=3, max_size=400))
def test_a_written_csv_is_counted_and_read_as_it_was(rows: list[tuple[int, str]]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([("number", "note", "mark"), *((*row, "x") for row in rows)])
    dialect = detect_dialect(out.getvalue())
    assert dialect == Dialect("CSV", ",", has_header=True)
    table = read_delimited(out.getvalue(), dialect)
    assert table.columns == ("number", "note", "mark")
    assert [tuple(row) for row in table.rows] == [(str(n), note, "x") for n, note in rows]
    assert sample_delimited(out.getvalue(), dialect).rows == len(rows)


def test_objects_of_several_kinds_make_one_table() -> None:
    table = table_of_objects([{"a": 1}, {"b": [2]}, 3])
    assert table.columns == ("a", "b", "value")
    assert [csv_line(row) for row in table.rows] == ["1,,", ",[2],", ",,3"]
    assert table_of_objects([]).rows == ()


def test_json_lines() -> None:
    assert json_lines(JSON_LINES) is not None
    assert json_lines('{"a":1}\nnot json\n{"b":1}') is None
    assert json_lines("[1]\n[2]\n[3]") is None
    assert json_lines(json.dumps({"a": 1}, indent=1)) is None


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("1", 1),
        (" -2.5 ", -2.5),
        ("1e3", 1000),
        (7, 7),
        ("", None),
        ("1,000", None),
        ("nan", None),
        (True, None),
        (None, None),
        (10**400, None),
    ],
)
def test_numbers_in_cells(value: object, number: float | None) -> None:
    assert as_number(value) == number


@settings(max_examples=150, deadline=None)
@given(texts)
def test_no_text_crashes(text: str) -> None:
    dialect = detect_dialect(text)
    if dialect is not None:
        sample_delimited(text, dialect)
        read_delimited(text, dialect)
    json_lines(text)
