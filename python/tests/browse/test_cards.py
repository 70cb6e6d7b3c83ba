"""Cards: their fields, their budgets under hostile definitions, their order, and their bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.browse.cards import (
    BREAKPOINT_ID,
    CardCache,
    StableBrowse,
    cut_with_ellipsis,
    fit_description,
    make_choice_cards,
    one_line,
    render_card,
    render_page,
    token_upper_bound,
)
from leafgate.catalog.intake import intake, mcp_tool_to_selectable
from leafgate.maps.files import MapFiles
from leafgate.model.errors import CatalogError
from leafgate.model.tool import ChoiceCard, SelectableItem

CL100K = MapFiles().load("openai/cl100k_base")


def count(text: str) -> int:
    return len(CL100K.encode(text))


def item(**changed: Any) -> SelectableItem:
    fields: dict[str, Any] = {
        "id": "github:create_issue#3a91c7d2",
        "kind": "tool",
        "name": "create_issue",
        "description": "Create a new issue.",
        "namespace": "github",
        "upstream_name": "create_issue",
        "side_effects": False,
    }
    return SelectableItem(**{**fields, **changed})


def card(**changed: Any) -> ChoiceCard:
    return make_choice_cards([item(**changed)], count=count)[0]


def test_the_fields_are_those_of_the_spec_and_no_others() -> None:
    shown = card(args_schema={"properties": {"secretive": {}}}, metadata={"url": "http://host"}, server="srv-1")
    assert list(shown.as_json()) == [
        "id", "name", "description", "tags", "kind", "namespace", "has_schema", "score", "cost_hint", "side_effects",
        "safety",
    ]  # fmt: skip
    assert shown.has_schema is True
    assert "secretive" not in json.dumps(shown.as_json()) + render_card(shown)
    assert "srv-1" not in json.dumps(shown.as_json())


def test_the_line() -> None:
    assert render_card(card()) == "github:create_issue#3a91c7d2 — Create a new issue."
    marked = card(tags=("destructive", "billing"), cost_hint=0.25, side_effects=True)
    assert render_card(marked).endswith("Create a new issue. [destructive, effects, cost 0.25, billing]")
    assert render_card(card(description="")) == "github:create_issue#3a91c7d2"
    assert render_card(card(name="天気")) == "github:create_issue#3a91c7d2 — 天気: Create a new issue."
    assert render_card(card(kind="skill")).endswith(" [skill]")


def test_score_is_only_in_the_json_form() -> None:
    [scored] = make_choice_cards([item()], scores={item().id: 0.123456}, count=count)
    assert scored.as_json()["score"] == 0.123456
    assert "0.123" not in render_card(scored)


@pytest.mark.parametrize(
    ("tags", "kept", "safety"),
    [
        ((), (), ""),
        (("b", "a", "b"), ("a", "b"), ""),
        (("a", "b", "c", "d", "e", "f"), ("a", "b", "c"), ""),
        (("a", "b", "c", "read-only"), ("a", "b", "c", "read-only"), "read_only"),
        (
            ("a", "b", "c", "d", "e", "read-only", "destructive"),
            ("a", "b", "c", "destructive", "read-only"),
            "destructive",
        ),
        (('{"type": "object"}', "http://host/x"), (), ""),
    ],
)
def test_tags(tags: tuple[str, ...], kept: tuple[str, ...], safety: str) -> None:
    shown = card(tags=tags)
    assert (shown.tags, shown.safety) == (kept, safety)


def test_tags_are_at_most_five_and_short() -> None:
    [shown] = make_choice_cards([item(tags=tuple("abcdefgh"))], count=lambda text: 1)
    assert len(shown.tags) == 5
    assert card(tags=("x" * 40,)).tags == ("x" * 24,)


def test_order_is_by_score_then_by_id() -> None:
    items = [item(id=f"a:{name}") for name in "dbca"]
    scores = {"a:a": 0.5, "a:b": 0.5, "a:d": 0.9}
    ordered = make_choice_cards(items, scores=scores, count=count)
    assert [one.id for one in ordered] == ["a:d", "a:a", "a:b", "a:c"]
    assert [one.id for one in make_choice_cards(items, scores=scores, max_cards=2, count=count)] == ["a:d", "a:a"]


def test_byte_identical_on_repeat() -> None:
    items = [item(id=f"a:t{i}", description="Some words. " * i) for i in range(20)]
    once, again = (make_choice_cards(items, scores={"a:t3": 1.0}, count=count) for _ in range(2))
    assert [bytes(one) for one in once] == [bytes(one) for one in again]


def test_an_id_that_cannot_fit_is_an_error_not_a_silent_cut() -> None:
    heavy = item(id="a:" + "Q1" * 64)
    for counter in ({"count": count}, {}):
        with pytest.raises(CatalogError):
            make_choice_cards([heavy], **counter)  # type: ignore[arg-type]


def test_without_a_counter_cards_stay_below_the_cap() -> None:
    items = [item(id=f"a:t{i}#3a91c7d2", description=text) for i, text in enumerate(HOSTILE)]
    for shown in make_choice_cards(items):
        assert count(render_card(shown)) <= 80


HOSTILE = [
    "<|endoftext|>" * 90_000,
    "😀👨‍👩‍👧‍👦🇩🇪" * 50_000,
    "\u202eשלום עולם " * 80_000,
    "a" * 1_000_000,
    " " * 1_000_000,
    "\u0301" * 500_000,
    ". " * 500_000,
    "x. " * 300_000,
    "\x00\x1b[31m" * 100_000,
    "\ud800" * 100_000,
    "日本語の長い説明。" * 50_000,
    "1234567890" * 100_000,
    "{}[]()<>" * 100_000,
    "\n" * 1_000_000 + "End.",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:6]))
def test_hostile_descriptions_are_quick_and_within_budget(text: str) -> None:
    tool = {"name": "t" * 64, "description": text, "annotations": {"destructiveHint": True, "costHint": 1e300}}
    one = mcp_tool_to_selectable(tool, server="server")
    began = time.process_time()
    [shown] = make_choice_cards([one], count=count)
    assert time.process_time() - began < 0.2
    assert count(render_card(shown)) <= 60
    assert "\n" not in render_card(shown)
    render_card(shown).encode()


CHARACTERS = st.characters(exclude_categories=["Cs"])
ALPHABETS = st.sampled_from(["abQZ19_-./ ", "a1", "😀日é", "qzj", "XQ"])
NAMES = st.text(CHARACTERS, min_size=1, max_size=200) | ALPHABETS.flatmap(
    lambda alphabet: st.text(alphabet, min_size=1, max_size=200)
)
TEXTS = st.text(CHARACTERS, max_size=400) | NAMES.map(lambda text: text * 40)
TOOLS = st.fixed_dictionaries(
    {
        "name": NAMES,
        "description": TEXTS,
        "annotations": st.fixed_dictionaries(
            {"readOnlyHint": st.booleans(), "destructiveHint": st.booleans(), "costHint": st.floats(min_value=0)}
        ),
        "_meta": st.fixed_dictionaries(
            {"tags": st.lists(NAMES, max_size=7), "version": st.none() | st.text("1.aQ-", max_size=32)}
        ),
    }
)


@given(TOOLS, st.none() | NAMES)
@settings(max_examples=300, deadline=None)
def test_every_legal_tool_has_a_card_within_the_cap(tool: dict[str, Any], server: str | None) -> None:
    items, _ = intake([tool], resources=[{**tool, "uri": tool["name"]}], prompts=[tool], server=server)
    for shown in make_choice_cards(items, count=count):
        assert count(render_card(shown)) <= 80
    for shown in make_choice_cards(items):
        assert count(render_card(shown)) <= 80


@given(st.lists(TOOLS, min_size=10, max_size=10, unique_by=lambda tool: tool["name"]))
@settings(max_examples=60, deadline=None)
def test_ten_cards_with_their_note_take_at_most_600_tokens(tools: list[dict[str, Any]]) -> None:
    plain = [{"name": tool["name"], "description": tool["description"]} for tool in tools]
    cards = make_choice_cards(intake(plain, server="server")[0], count=count)
    note = "10 of 304 tools. Call tool_execute with an id and args."
    assert count(note) <= 30
    assert count(render_page(cards, note=note)) <= 600


def test_a_page_is_a_line_a_card_behind_its_note() -> None:
    cards = make_choice_cards([item(), item(id="a:b")], count=count)
    assert render_page(cards, note="Two\ntools:").split("\n") == ["Two tools:", *map(render_card, cards)]
    assert render_page([]) == ""


PROGRAM = """
import sys
from leafgate.browse.cards import make_choice_cards, render_page
from leafgate.browse.navigate import list_path
from leafgate.catalog.intake import intake
from leafgate.catalog.catalog import Catalog
from leafgate.catalog.tree import build_tree
words = "issue file user page table".split()
tools = [{"name": f"get_{w}_{v}", "description": f"The {v} of a {w}.", "_meta": {"tags": words}, "inputSchema":
         {"properties": {k: {} for k in words}}} for w in words for v in ("list", "info", "owner", "size", "age")]
catalog = Catalog(intake(tools, server="srv")[0])
print(catalog.digest)
for card in make_choice_cards(catalog.all(), scores={"x": 1.0}):
    sys.stdout.write(bytes(card).decode() + "\\n")
tree = build_tree(catalog.all())
for path in tree.by_path:
    print(path, render_page(list_path(tree, path)))
"""


def test_the_same_bytes_in_processes_with_other_hash_seeds() -> None:
    outputs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True)
        outputs.append(ran.stdout)
    assert outputs[0] == outputs[1]
    assert b"/srv/" in outputs[0]


def test_a_card_is_made_once_and_has_the_score_of_each_page() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text) // 4

    made: CardCache = {}
    found = item()
    first = make_choice_cards([found], scores={found.id: 0.5}, count=count, cache=made)
    assert counted
    counted.clear()
    second = make_choice_cards([found], scores={found.id: 0.9}, count=count, cache=made)
    assert counted == []
    assert [card.score for card in (*first, *second)] == [0.5, 0.9]
    assert render_page(first) == render_page(second)


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("text", "room", "expected"),
    [
        ("One two. Three four.", 4, "One two. Three four."),
        ("One two. Three four.", 3, "One two."),
        ("One! Two three? Four five six.", 4, "One! Two three?"),
        ("One two three four five", 3, "One two…"),
        ("Uses v1.2 of it now. And more of it.", 5, "Uses v1.2 of it now."),
        ("See e.g. this one here. Then more words follow.", 5, "See e.g. this one here."),
        ("See e.g. this one which is long", 3, "See e.g…"),
        ("a\n\nb\tc", 3, "a b c"),
        ("", 3, ""),
    ],
)
def test_rules_in_order(text: str, room: int, expected: str) -> None:
    assert fit_description(text, room, words) == expected


@given(st.text(max_size=700), st.integers(0, 60))
def test_the_result_fits_and_is_stable(text: str, room: int) -> None:
    fitted = fit_description(text, room, count)
    assert count(fitted) <= room
    assert fit_description(text, room, count) == fitted
    assert fitted == one_line(fitted)
    if fitted != one_line(text):
        assert fitted == "" or fitted.endswith(("…", ".", "!", "?"))


@pytest.mark.parametrize("cluster", ["e\u0301", "👨‍👩‍👧‍👦", "👍🏽", "🇩🇪", "क्षि", "❤️"])
def test_no_cut_within_a_visible_character(cluster: str) -> None:
    for room in range(1, 60):
        cut = cut_with_ellipsis(cluster * 30, room, count)
        assert cut == "" or cut.removesuffix("…") == cluster * (len(cut) // len(cluster))


def test_what_is_invisible_does_not_reach_a_line() -> None:
    assert one_line("a\u202eb\u200bc\x1bd\u2028e\ud800f\U000e0041g") == "abc d e fg"
    assert one_line("می\u200cخواهم") == "می\u200cخواهم"


@given(st.text(max_size=200) | st.text("abcdefgqzj AB019.,_-'s\n\t", max_size=200))
def test_the_bound_is_never_below_the_tokens(text: str) -> None:
    assert count(text.encode("utf-8", "replace").decode()) <= token_upper_bound(text)


def cards(text: str, score: float = 0.5) -> list[ChoiceCard]:
    return [ChoiceCard(id=one, name=one, description="", score=score) for one in text]


def ids(page: list[ChoiceCard]) -> str:
    return "".join("|" if card.id == BREAKPOINT_ID else card.id for card in page)


def test_a_session() -> None:
    session = StableBrowse()
    page, session = session.page(cards("ca"))
    assert ids(page) == "ac"  # all new: no marker
    page, session = session.page(cards("dbca"))
    assert ids(page) == "ac|bd"
    page, session = session.page(cards("dcba"))
    assert ids(page) == "abcd"  # all seen: no marker
    page, session = session.page(cards("zx"))
    assert ids(page) == "xz"  # all new again: no marker
    page, session = session.page([])
    assert page == []


def test_the_marker_is_an_internal_card() -> None:
    _, session = StableBrowse().page(cards("a"))
    page, _ = session.page(cards("ab"))
    assert (page[1].id, page[1].kind) == ("__cache_breakpoint__", "internal")


def test_a_card_is_frozen_when_it_is_first_seen() -> None:
    _, session = StableBrowse().page(cards("a", score=0.9))
    page, session = session.page(cards("ab", score=0.1))
    assert [card.score for card in page] == [0.9, None, 0.1]
    again, _ = session.page(cards("ab", score=0.4))
    assert [bytes(card) for card in again] == [bytes(page[0]), bytes(page[2])]


def test_hydration_counts_as_seen_and_the_first_card_after_it_is_frozen() -> None:
    session = StableBrowse().after_hydration("b")
    page, session = session.page(cards("ab", score=0.3))
    assert ids(page) == "b|a"
    page, _ = session.page(cards("ab", score=0.7))
    assert [card.score for card in page] == [0.3, 0.3]


def test_hydrating_what_was_seen_changes_nothing() -> None:
    _, session = StableBrowse().page(cards("a"))
    assert session.after_hydration("a") is session


def test_a_state_is_a_value() -> None:
    before = StableBrowse()
    before.page(cards("ab"))
    before.after_hydration("c")
    assert dict(before.cards) == {}


def test_markers_that_come_in_do_not_count() -> None:
    page, _ = StableBrowse().page([*cards("a"), ChoiceCard(id=BREAKPOINT_ID, name="", description="")])
    assert ids(page) == "a"
