"""What definitions would cost a model: counted once, known per catalog."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from routing_catalog import development_items, development_queries

from leafgate.browse.cards import make_choice_cards
from leafgate.browse.rank import Router
from leafgate.catalog.catalog import Catalog
from leafgate.catalog.intake import mcp_tool_to_selectable
from leafgate.embed.runtime import ProxyRuntime
from leafgate.gateway.browse import PAGE_TOKENS, CardPage, DefinitionWeight, Hydrated, add_schema
from leafgate.model.tool import SelectableItem
from leafgate.upstream.library import StubUpstream


def tool(name: str, description: str = "Does something.") -> SelectableItem:
    definition = {"name": name, "description": description, "inputSchema": {"type": "object"}}
    return mcp_tool_to_selectable(definition, server="notes")


class Counter:
    """Counts characters, and how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, text: str) -> int:
        self.asked.append(text)
        return len(text)


def test_before_it_was_learnt_a_catalog_weighs_nothing_known() -> None:
    assert DefinitionWeight(len).weigh_catalog(Catalog([tool("read")])) is None


def test_a_catalog_weighs_what_its_definitions_do() -> None:
    count = Counter()
    weight = DefinitionWeight(count)
    catalog = Catalog([tool("read"), tool("write", "Writes something much longer.")])
    weight.learn(catalog)
    assert weight.weigh_catalog(catalog) == sum(map(len, count.asked))
    assert all('"inputSchema":{' in text and '"description":"' in text for text in count.asked)


def test_a_part_of_what_was_learnt_is_known_too() -> None:
    weight = DefinitionWeight(len)
    read, write = tool("read"), tool("write")
    whole, part = Catalog([read, write]), Catalog([read])
    weight.learn(whole)
    known, all_of_it = weight.weigh_catalog(part), weight.weigh_catalog(whole)
    assert known is not None
    assert all_of_it is not None
    assert known < all_of_it


def test_only_what_changed_is_counted_again() -> None:
    count = Counter()
    weight = DefinitionWeight(count)
    weight.learn(Catalog([tool("read"), tool("write")]))
    newer = Catalog([tool("read"), tool("write", "Now it deletes.")])
    assert weight.weigh_catalog(newer) is None
    weight.learn(newer)
    assert len(count.asked) == 3
    assert weight.weigh_catalog(newer) is not None


def test_a_page_is_counted_line_by_line_and_each_line_once(count: Callable[[str], int]) -> None:
    counter = Counter()
    weight = DefinitionWeight(counter)
    page = "files:read#1 — Reads a file.\nfiles:write#2 — Writes a file."
    assert weight.weigh_page(page) == len(page) + 1
    weight.weigh_page(page)
    assert len(counter.asked) == 2
    assert abs(DefinitionWeight(count).weigh_page(page) - count(page)) <= 2


@pytest.mark.anyio
async def test_a_page_of_cards_is_told_with_what_it_stands_for() -> None:
    definitions = [
        {"name": f"{verb}_file", "description": f"{verb} a file.", "inputSchema": {"type": "object"}}
        for verb in ("read", "write", "delete", "move", "copy")
    ]
    runtime = ProxyRuntime(StubUpstream(definitions, server="files"))
    await runtime.refresh_catalog()
    await runtime.browse("read a file", top_k=1)
    await runtime.browse_resources(path="/")
    told = runtime.metrics.summary()["cards"]
    assert told["browses"] == 1
    assert 0 < told["tokens_shown"] < told["tokens_whole"]


def test_an_empty_catalog_weighs_nothing() -> None:
    assert DefinitionWeight(len).weigh_catalog(Catalog()) is None


def test_a_page_has_the_schema_of_its_best_card_where_both_are_within_the_budget(count: Callable[[str], int]) -> None:
    weight, router = DefinitionWeight(count), Router(development_items())
    with_schema = 0
    for row in development_queries():
        items = [candidate.item for candidate in router.route(row["query"], top_k=10).candidates]
        cards = CardPage(make_choice_cards(items, count=count))
        page = add_schema(cards, Hydrated(items[0].id, items[0].args_schema), weight.weigh_page)
        with_schema += page.schema is not None
        assert count(page.text()) <= PAGE_TOKENS
        assert page.schema is None or page.as_json()["schema"] == {
            "id": items[0].id,
            "args_schema": items[0].args_schema,
        }
    assert with_schema >= 110  # of 150


def test_a_schema_that_is_too_long_is_left_out(count: Callable[[str], int]) -> None:
    weight = DefinitionWeight(count)
    for properties, fits in ((3, True), (400, False), (40_000, False)):
        schema = {"type": "object", "properties": {f"field{n}": {"type": "string"} for n in range(properties)}}
        item = mcp_tool_to_selectable({"name": "read", "inputSchema": schema}, server="notes")
        page = add_schema(
            CardPage(make_choice_cards([item], count=count)), Hydrated(item.id, item.args_schema), weight.weigh_page
        )
        assert (page.schema is not None) == fits
