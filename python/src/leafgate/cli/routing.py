"""`leafgate route` and `leafgate eval`: what routing returns for a query, and how well it finds the right tool."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Column, Table

from leafgate.browse.measure import Answer, GoldQuery, no_match_recall, percentile, scores
from leafgate.browse.rank import MAX_TOP_K, Router, RouteResult
from leafgate.cli.catalog_source import CatalogSource, catalog_options
from leafgate.cli.json_lines import AS_JSON_OPTION, print_json
from leafgate.model.errors import ConfigError
from leafgate.state.routing import IndexFiles, default_directory

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
