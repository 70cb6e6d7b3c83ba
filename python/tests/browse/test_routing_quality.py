"""The promised quality on the development set, with the model that comes with the package."""

from typing import Any

import pytest
from routing_catalog import development_items, development_queries

from leafgate.browse.rank import Router
from leafgate.cli.routing import GoldQuery, measure

# Nobody's wish in this catalog of developer tools; some come near one.
UNANSWERABLE = (
    "what is the capital of France", "bake sourdough bread", "asdkjh qwlekj zxmcnb", "book a flight to Lisbon",
    "order a large pepperoni pizza", "play some jazz music", "turn off the living room lights", "mow the lawn",
    "reserve a table for two at an Italian restaurant", "pay my electricity bill", "call me a taxi", "wash the car",
    "transfer 200 euros to my savings account", "prescribe me antibiotics", "hgfjhgf", "feed the cat at noon",
    "how many calories are in a banana", "cancel my gym membership", "tune my guitar", "renew my passport",
)  # fmt: skip


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    queries = [
        GoldQuery(row["query"], frozenset((s, t) for s, t in row["relevant"]), row["style"])
        for row in development_queries()
    ]
    return measure(Router(development_items()), queries + [GoldQuery(text, frozenset()) for text in UNANSWERABLE])


def test_the_right_tool_is_among_the_first(report: dict[str, Any]) -> None:
    assert report["n"] == 150
    assert report["hit@5"] >= 0.90
    assert report["mrr"] >= 0.78
    assert report["styles"]["noisy"]["hit@5"] >= 0.95
    assert report["styles"]["literal"]["hit@1"] >= 0.95


def test_what_no_tool_does_is_noticed(report: dict[str, Any]) -> None:
    assert report["no_match_recall@5fa"] >= 0.75


def test_words_alone_beat_the_baseline() -> None:
    queries = [GoldQuery(row["query"], frozenset((s, t) for s, t in row["relevant"])) for row in development_queries()]
    report = measure(Router(development_items(), embedder=None), queries)
    assert report["hit@5"] >= 0.79
    assert report["mrr"] >= 0.69


def test_the_signal_tells_clear_from_hopeless() -> None:
    router = Router(development_items())
    assert router.route("merge pull request 42").signal == "ok"
    assert router.route("hover menu item").signal in ("ok", "ambiguous")
    hopeless = [router.route(text).signal for text in UNANSWERABLE]
    assert hopeless.count("no_match") >= 0.7 * len(hopeless)
