"""`leafgate route`: what the router would offer for a query. In: a query and a catalog. Out: a table or JSON."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leafgate.browse.rank import MAX_TOP_K, Router, RouteResult
from leafgate.cli.catalog_source import CatalogSource, catalog_options
from leafgate.storage.index_file import IndexFiles, default_directory

_SAID = {
    "ok": "",
    "ambiguous": "Several tools fit about equally well.",
    "no_match": "No tool here seems to do this; these are the least unlikely.",
}


@click.command()
@click.argument("query")
@catalog_options
@click.option("--top-k", type=click.IntRange(1, MAX_TOP_K), default=10, show_default=True, help="How many to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the index cache.")
def command(*, query: str, source: CatalogSource, top_k: int, as_json: bool, no_cache: bool) -> None:
    """Rank tools for QUERY, as tool_browse would.

    \b
    leafgate route "write to Ann"                         of the servers of leafgate.yaml, which are started and ended
    leafgate route "write to Ann" --catalog tools.json    of a saved catalog
    """
    store = None if no_cache else IndexFiles(default_directory())
    catalog = source.load().catalog
    with Console(stderr=True).status("ranking"):
        router = Router(catalog, store=store)
        result = router.route(query, top_k=top_k)
    if as_json:
        click.echo(json.dumps(_as_json(query, result), ensure_ascii=False, indent=2))
    else:
        _show(result)


def _as_json(query: str, result: RouteResult) -> dict[str, object]:
    return {
        "query": query,
        "signal": result.signal,
        "confidence": result.confidence,
        "candidates": [
            {
                "id": candidate.item.id,
                "server": candidate.item.server,
                "name": candidate.item.upstream_name,
                "score": candidate.score,
            }
            for candidate in result.candidates
        ],
    }


def _show(result: RouteResult) -> None:
    console = Console()
    table = Table(box=None, pad_edge=False)
    table.add_column("score", justify="right")
    table.add_column("id")
    table.add_column("description")
    room = console.width - 9 - max((len(candidate.item.id) for candidate in result.candidates), default=0)
    for candidate in result.candidates:
        about = " ".join(candidate.item.description.split())
        about = about if len(about) <= room else about[: max(room - 1, 12)] + "…"
        table.add_row(f"{candidate.score:.3f}", escape(candidate.item.id), escape(about))
    if result.candidates:
        console.print(table)
        console.print(f"{result.signal}, confidence {result.confidence:.2f}. {_SAID[result.signal]}", highlight=False)
    else:
        console.print("No tool here has anything to do with this.")
