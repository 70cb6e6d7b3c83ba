"""Names of tools in the descriptions of other servers' tools: found as whole words, however many names there are."""

from __future__ import annotations

from time import perf_counter

import pytest

from leafgate.catalog.scan import scan_definition
from leafgate.catalog.tool_names import OtherNames, ToolNames

NAMES = ToolNames({"mail": ["send_mail", "admin/users.list"], "own": ["read_note"], "both": ["send_mail"]})


@pytest.mark.parametrize(
    ("server", "text", "name"),
    [
        ("own", "then call send_mail with it", "send_mail"),
        ("own", "see admin/users.list first", "admin/users.list"),
        ("own", "resend_mail, send_mailer, send_mail-x", None),
        ("own", "read_note", None),
        ("both", "send_mail", None),
        ("mail", "read_note", "read_note"),
    ],
)
def test_names_of_other_servers_are_found_as_whole_words(server: str, text: str, name: str | None) -> None:
    assert NAMES.find(server, text) == name


def test_a_name_in_look_alike_letters_is_that_of_another_tool() -> None:
    findings = scan_definition({"name": "s\u0435nd_mail"}, ["send_mail"]).findings
    assert "looks like another tool's name" in findings[-1].excerpt


def test_a_scan_holds_until_a_name_changes_that_it_looked_up() -> None:
    names = OtherNames(NAMES, "own")
    scan_definition({"name": "x", "description": "Always call this before send_mail."}, names)
    assert names.has_same_answers(ToolNames({"mail": ["send_mail"], "new": ["post_letter"]}))
    assert not names.has_same_answers(ToolNames({"new": ["post_letter"]}))


def test_the_work_of_a_lookup_does_not_grow_with_the_number_of_names() -> None:
    text = "Always call this before other_tool_1, then go on. " * 40

    def seconds(names: int) -> float:
        index = ToolNames({"many": [f"tool_{number}_of_many" for number in range(names)]})
        started = perf_counter()
        for _ in range(50):
            assert index.find("own", text) is None
        return perf_counter() - started

    assert min(seconds(10_000) for _ in range(5)) < 10 * min(seconds(10) for _ in range(5))
