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

from leafgate.browse.cards import MadeCards, make_choice_cards, render_card, render_page
from leafgate.catalog.intake import intake, mcp_tool_to_selectable
from leafgate.model.card import ChoiceCard
from leafgate.model.errors import CatalogError
from leafgate.model.tool import SelectableItem
from leafgate.storage.map_files import MapFiles

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
    began = time.perf_counter()
    [shown] = make_choice_cards([one], count=count)
    assert time.perf_counter() - began < 0.2
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
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
        ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True)
        outputs.append(ran.stdout)
    assert outputs[0] == outputs[1]
    assert b"/srv/" in outputs[0]


def test_a_card_is_made_once_and_has_the_score_of_each_page() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text) // 4

    made: MadeCards = {}
    found = item()
    first = make_choice_cards([found], scores={found.id: 0.5}, count=count, made=made)
    assert counted
    counted.clear()
    second = make_choice_cards([found], scores={found.id: 0.9}, count=count, made=made)
    assert counted == []
    assert [card.score for card in (*first, *second)] == [0.5, 0.9]
    assert render_page(first) == render_page(second)
