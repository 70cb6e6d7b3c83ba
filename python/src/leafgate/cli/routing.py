"""`leafgate route` and `leafgate eval`: what routing returns for a query, and how well it finds the right tool."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Column, Table

from leafgate.browse.rank import MAX_TOP_K, Router, RouteResult
from leafgate.cli.catalog_source import CatalogSource, catalog_options
from leafgate.cli.json_lines import AS_JSON_OPTION, print_json
from leafgate.model.errors import ConfigError
from leafgate.state.routing import IndexFiles, default_directory

Name = tuple[str, str]  # server, tool

FALSE_ALARMS: Final = 0.05
_NO_CACHE_OPTION = click.option("--no-cache", is_flag=True, help="Neither read nor write the index cache.")
_VERDICTS = {
    "ok": "",
    "ambiguous": "Several tools fit about equally well.",
    "no_match": "No tool here seems to do this; these are the least unlikely.",
}


@click.command()
@click.argument("query")
@catalog_options
@click.option("--top-k", type=click.IntRange(1, MAX_TOP_K), default=10, show_default=True, help="Number of tools.")
@AS_JSON_OPTION
@_NO_CACHE_OPTION
def route(*, query: str, source: CatalogSource, top_k: int, as_json: bool, no_cache: bool) -> None:
    """Rank tools for QUERY, as tool_browse does.

    \b
    leafgate route "write to Ann"                         tools of the servers in leafgate.yaml, started for this
    leafgate route "write to Ann" --catalog tools.json    tools of a saved catalog
    """
    store = None if no_cache else IndexFiles(default_directory())
    catalog = source.load().catalog
    with Console(stderr=True).status("ranking"):
        router = Router(catalog, store=store)
        result = router.route(query, top_k=top_k)
    if as_json:
        candidates = [
            {"id": each.item.id, "server": each.item.server, "name": each.item.upstream_name, "score": each.score}
            for each in result.candidates
        ]
        report = {"query": query, "signal": result.signal, "confidence": result.confidence}
        print_json({**report, "candidates": candidates})
    else:
        _show_result(result)


def _show_result(result: RouteResult) -> None:
    console = Console()
    if not result.candidates:
        console.print("No tool here has anything to do with this.")
        return
    table = Table(Column("score", justify="right"), "id", "description", box=None, pad_edge=False)
    room = console.width - 9 - max(len(candidate.item.id) for candidate in result.candidates)
    for candidate in result.candidates:
        about = " ".join(candidate.item.description.split())
        about = about if len(about) <= room else about[: max(room - 1, 12)] + "…"
        table.add_row(f"{candidate.score:.3f}", escape(candidate.item.id), escape(about))
    console.print(table)
    console.print(f"{result.signal}, confidence {result.confidence:.2f}. {_VERDICTS[result.signal]}", highlight=False)


@dataclass(frozen=True)
class GoldQuery:
    """A query and all right answers to it; none if the catalog has no tool for it."""

    query: str
    relevant: frozenset[Name]
    style: str = ""


@dataclass(frozen=True)
class Answer:
    """The router's result for a GoldQuery."""

    gold: GoldQuery
    ranking: tuple[Name, ...]
    confidence: float
    milliseconds: float


@click.command("eval")
@catalog_options
@click.option("--gold", type=click.Path(path_type=Path, dir_okay=False), required=True,
              help='JSON lines: {"query", "relevant": [[server, tool], ...], "style"?}.')  # fmt: skip
@click.option("--lexical", is_flag=True, help="Rank by words only, without the embedding model.")
@AS_JSON_OPTION
@_NO_CACHE_OPTION
def evaluate(*, source: CatalogSource, gold: Path, lexical: bool, as_json: bool, no_cache: bool) -> None:
    """Measure routing on queries whose right tools are listed in a file."""
    store = None if no_cache else IndexFiles(default_directory())
    loaded = source.load().catalog
    router = Router(loaded, embedder=None, store=store) if lexical else Router(loaded, store=store)
    tools = {(item.server, item.upstream_name) for item in loaded.all()}
    queries = read_gold(gold)
    for number, query in queries:
        for server, name in sorted(query.relevant - tools):
            raise ConfigError(f"{gold}:{number}: the catalog has no tool {name!r} of server {server!r}")
    report = measure(router, [query for _, query in queries])
    if as_json:
        print_json(report)
    else:
        _show_report(report)


def measure(router: Router, queries: list[GoldQuery]) -> dict[str, Any]:
    """Route every query once after a warm-up, and return the scores and times."""
    router.route("warm up")
    console = Console(stderr=True)
    progress = track(queries, "asking", console=console, transient=True, disable=not console.is_terminal)
    answers = [_answer(router, query) for query in progress]
    times = [answer.milliseconds for answer in answers]
    styles = sorted({answer.gold.style for answer in answers if answer.gold.style and answer.gold.relevant})
    report: dict[str, Any] = {
        **_round_values(scores(answers)),
        "p50_ms": round(percentile(times, 0.5), 3),
        "p99_ms": round(percentile(times, 0.99), 3),
    }
    recall = no_match_recall(answers)
    if recall is not None:
        report["no_match_recall@5fa"] = round(recall, 4)
    if styles:
        report["styles"] = {
            style: _round_values(scores([answer for answer in answers if answer.gold.style == style]))
            for style in styles
        }
    return report


def scores(answers: Sequence[Answer]) -> dict[str, float | int]:
    """Return the figures of `leafgate eval` over answerable queries; ranks count up to ten."""
    ranked = [answer for answer in answers if answer.gold.relevant]
    hits = [[name in answer.gold.relevant for name in answer.ranking[:10]] for answer in ranked]
    firsts = [row.index(True) + 1 if True in row else math.inf for row in hits]
    figures: dict[str, float | int] = {"n": len(ranked)}
    for k in (1, 3, 5, 10):
        figures[f"hit@{k}"] = _mean([float(first <= k) for first in firsts])
    figures["recall@5"] = _mean(
        [sum(row[:5]) / min(len(answer.gold.relevant), 5) for row, answer in zip(hits, ranked, strict=True)]
    )
    figures["mrr"] = _mean([1 / first for first in firsts])
    figures["ndcg@10"] = _mean(
        [_gain(row) / _gain([True] * min(len(a.gold.relevant), 10)) for row, a in zip(hits, ranked, strict=True)]
    )
    return figures


def no_match_recall(answers: Sequence[Answer]) -> float | None:
    """Return the share of unanswerable queries below the confidence that 5 % of the answerable ones do not reach."""
    right = sorted(answer.confidence for answer in answers if answer.gold.relevant)
    wrong = [answer.confidence for answer in answers if not answer.gold.relevant]
    if not right or not wrong:
        return None
    threshold = right[math.floor(FALSE_ALARMS * len(right))]
    return _mean([float(confidence < threshold) for confidence in wrong])


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _gain(row: Sequence[bool]) -> float:
    return sum(1 / math.log2(place + 2) for place, hit in enumerate(row) if hit)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def read_gold(path: Path) -> list[tuple[int, GoldQuery]]:
    """Return the queries of a file, each with its line number."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text") from error
    queries = [(number, _gold(line, f"{path}:{number}")) for number, line in enumerate(lines, 1) if line.strip()]
    if not queries:
        raise ConfigError(f"{path}: contains no query")
    return queries


def _gold(line: str, where: str) -> GoldQuery:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not JSON: {error}") from error
    if not isinstance(row, dict) or not isinstance(row.get("query"), str):
        raise ConfigError(f"{where}: not an object with a string `query`")
    relevant, style = row.get("relevant"), row.get("style", "")
    if not isinstance(relevant, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair) for pair in relevant
    ):
        raise ConfigError(f"{where}: `relevant` is not a list of [server, tool]")
    if not isinstance(style, str):
        raise ConfigError(f"{where}: `style` is not a string")
    return GoldQuery(row["query"], frozenset((server, tool) for server, tool in relevant), style)


def _answer(router: Router, query: GoldQuery) -> Answer:
    start = time.perf_counter()
    result = router.route(query.query, top_k=10)
    milliseconds = (time.perf_counter() - start) * 1000
    ranking = tuple((candidate.item.server, candidate.item.upstream_name) for candidate in result.candidates)
    return Answer(query, ranking, result.confidence, milliseconds)


def _round_values(values: dict[str, float | int]) -> dict[str, float | int]:
    return {key: value if isinstance(value, int) else round(value, 4) for key, value in values.items()}


def _show_report(report: dict[str, Any]) -> None:
    styles: dict[str, dict[str, float]] = report.get("styles", {})
    numbers = (Column(name, justify="right") for name in ("all", *styles))
    table = Table("measure", *numbers, box=None, pad_edge=False)
    for key, value in report.items():
        if key == "styles":
            continue
        cells = [value, *(style.get(key, "") for style in styles.values())]
        table.add_row(key, *(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells))
    Console().print(table)
