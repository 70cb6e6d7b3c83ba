"""`leafgate eval`: how well routing finds the right tool. In: a catalog and a file of queries. Out: a table or JSON."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from leafgate.browse.measure import Answer, GoldQuery, no_match_recall, percentile, scores
from leafgate.browse.rank import Router
from leafgate.cli.catalog_source import CatalogSource, catalog_options
from leafgate.model.errors import ConfigError
from leafgate.storage.index_file import IndexFiles, default_directory


@click.command()
@catalog_options
@click.option(
    "--gold",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help='Queries, one JSON object a line: {"query", "relevant": [[server, tool], ...], "style"?}.',
)
@click.option("--lexical", is_flag=True, help="Rank by words only, without the embedding model.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the index cache.")
def command(*, source: CatalogSource, gold: Path, lexical: bool, as_json: bool, no_cache: bool) -> None:
    """Measure routing on queries whose right tools are known."""
    store = None if no_cache else IndexFiles(default_directory())
    loaded = source.load().catalog
    router = Router(loaded, embedder=None, store=store) if lexical else Router(loaded, store=store)
    known = {(item.server, item.upstream_name) for item in loaded.all()}
    queries = read_gold(gold)
    for number, query in queries:
        for server, name in sorted(query.relevant - known):
            raise ConfigError(f"{gold}:{number}: the catalog has no tool {name!r} of server {server!r}")
    report = measure(router, [query for _, query in queries])
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        _show(report)


def measure(router: Router, queries: list[GoldQuery]) -> dict[str, Any]:
    """Answers every query once, the clock running, after one that warms up."""
    router.route("warm up")
    shown = Console(stderr=True)
    watched = track(queries, "asking", console=shown, transient=True, disable=not shown.is_terminal)
    answers = [_answer(router, query) for query in watched]
    times = [answer.milliseconds for answer in answers]
    styles = sorted({answer.gold.style for answer in answers if answer.gold.style and answer.gold.relevant})
    report: dict[str, Any] = {
        **_rounded(scores(answers)),
        "p50_ms": round(percentile(times, 0.5), 3),
        "p99_ms": round(percentile(times, 0.99), 3),
    }
    recall = no_match_recall(answers)
    if recall is not None:
        report["no_match_recall@5fa"] = round(recall, 4)
    if styles:
        report["styles"] = {
            style: _rounded(scores([answer for answer in answers if answer.gold.style == style])) for style in styles
        }
    return report


def read_gold(path: Path) -> list[tuple[int, GoldQuery]]:
    """The queries of a file, each with the number of its line."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text") from error
    found = [(number, _gold(line, f"{path}:{number}")) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise ConfigError(f"{path}: holds no query")
    return found


def _gold(line: str, where: str) -> GoldQuery:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not JSON: {error}") from error
    if not isinstance(row, dict) or not isinstance(row.get("query"), str):
        raise ConfigError(f"{where}: not an object with a string `query`")
    relevant, style = row.get("relevant"), row.get("style", "")
    pairs = isinstance(relevant, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair) for pair in relevant
    )
    if not pairs or not isinstance(relevant, list):
        raise ConfigError(f"{where}: `relevant` is not a list of [server, tool]")
    if not isinstance(style, str):
        raise ConfigError(f"{where}: `style` is not a string")
    return GoldQuery(row["query"], frozenset((server, tool) for server, tool in relevant), style)


def _answer(router: Router, query: GoldQuery) -> Answer:
    began = time.perf_counter()
    result = router.route(query.query, top_k=10)
    took = (time.perf_counter() - began) * 1000
    ranking = tuple((candidate.item.server, candidate.item.upstream_name) for candidate in result.candidates)
    return Answer(query, ranking, result.confidence, took)


def _rounded(found: dict[str, float | int]) -> dict[str, float | int]:
    return {key: value if isinstance(value, int) else round(value, 4) for key, value in found.items()}


def _show(report: dict[str, Any]) -> None:
    styles: dict[str, dict[str, float]] = report.get("styles", {})
    table = Table(box=None, pad_edge=False)
    table.add_column("measure")
    for name in ("all", *styles):
        table.add_column(name, justify="right")
    for key, value in report.items():
        if key == "styles":
            continue
        cells = [value, *(style.get(key, "") for style in styles.values())]
        table.add_row(key, *(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells))
    Console().print(table)
