"""`leafgate catalog`: walk a catalog by path, show one item whole, lint, save and pin what servers declare.

In: a saved file, or servers that are asked. Out: text or JSON on standard output; `lint` exits 1 when a definition was
left out or cannot be validated, `diff` when one changed. Touches the files that are named and the terminal.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leafgate.browse.cards import render_card
from leafgate.browse.navigate import list_path
from leafgate.catalog.catalog import definition_digest
from leafgate.catalog.hydrate import thawed
from leafgate.catalog.intake import IntakeFlag
from leafgate.catalog.pins import compare, pin
from leafgate.catalog.snapshot_file import LoadedCatalog, ServerListing
from leafgate.catalog.tree import build_tree
from leafgate.cli.catalog_source import CatalogSource, catalog_options
from leafgate.model.errors import CatalogError, GatewayError
from leafgate.model.tool import SelectableItem
from leafgate.storage.map_files import MapFiles
from leafgate.storage.pin_file import load_pins

CARD_MAP: Final = "openai/cl100k_base"

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """List, show, lint, save and pin a catalog.

    It is that of the servers in leafgate.yaml or --config, which are started, asked and ended; or a saved one.

    \b
    leafgate catalog ls /
    leafgate catalog show github:create_issue#3a91c7d2
    leafgate catalog lint --config leafgate.yaml
    leafgate catalog save -o tools.json
    leafgate catalog pin --lock tools.lock.json
    leafgate catalog diff --lock tools.lock.json --catalog tools.json
    """


@command.command()
@catalog_options
@click.argument("where", default="/", metavar="[PATH]")
@JSON_OPTION
def ls(*, source: CatalogSource, where: str, as_json: bool) -> None:
    """List what is at PATH (by default /), as an agent would see it."""
    loaded = source.load()
    try:
        cards = list_path(build_tree(loaded.catalog.all()), where, count=_counter())
    except GatewayError as error:
        if as_json:
            _print_json(error.body.as_json())
        raise
    if as_json:
        _print_json([card.as_json() for card in cards])
        return
    for card in cards:
        click.echo(render_card(card))


@command.command()
@catalog_options
@click.argument("item_id", metavar="ID")
@JSON_OPTION
def show(*, source: CatalogSource, item_id: str, as_json: bool) -> None:
    """Show one item whole: what the server declared, cleaned, and the digest to pin it by. ID may be a raw name."""
    item = _find(source.load(), item_id)
    whole: dict[str, Any] = {
        "id": item.id,
        "kind": item.kind,
        "server": item.server,
        "namespace": item.namespace,
        "name": item.upstream_name,
        "title": item.title,
        "description": item.description,
        "tags": list(item.tags),
        "side_effects": item.side_effects,
        "cost_hint": item.cost_hint,
        "args_schema": thawed(item.args_schema),
        "output_schema": None if item.output_schema is None else thawed(item.output_schema),
        "metadata": thawed(item.metadata),
        "digest": definition_digest(item),
    }
    if as_json:
        _print_json(whole)
        return
    for key, value in whole.items():
        if isinstance(value, dict):
            click.echo(f"{key}:\n{json.dumps(value, indent=2, ensure_ascii=False)}")
        elif value not in ("", [], None):
            click.echo(f"{key}: {', '.join(value) if isinstance(value, list) else value}")


@command.command()
@catalog_options
@JSON_OPTION
def lint(*, source: CatalogSource, as_json: bool) -> None:
    """Say what was taken, flagged and left out, and why."""
    loaded = source.load()
    flags = loaded.report.flags
    if as_json:
        _print_json({**loaded.report.as_json(), "digest": loaded.catalog.digest})
    else:
        _print_flags(loaded, flags)
    if any(_is_fault(flag) for flag in flags):
        sys.exit(1)


@command.command()
@catalog_options
@click.option("-o", "--output", required=True, metavar="FILE", type=click.Path(dir_okay=False), help="Where to write.")
@JSON_OPTION
def save(*, source: CatalogSource, output: str, as_json: bool) -> None:
    """Write what servers declare, as they declare it, to a file for --catalog and the key `catalog`."""
    entries = [entry for listing in source.listings(whole=True) for entry in _entries(listing)]
    Path(output).write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    counts = Counter(kind for entry in entries for kind in entry if kind != "server")
    if as_json:
        _print_json({"output": output, **{f"{kind}s": counts[kind] for kind in ("tool", "resource", "prompt")}})
    else:
        told = ", ".join(f"{number} {kind}s" for kind, number in counts.items()) or "nothing"
        click.echo(f"saved {told} in {output}")


@command.command("pin")
@catalog_options
@click.option("--lock", "lock", required=True, metavar="FILE", type=click.Path(dir_okay=False), help="Where to write.")
@JSON_OPTION
def pin_command(*, source: CatalogSource, lock: str, as_json: bool) -> None:
    """Approve every tool of a catalog as it is now: write the digests of their whole definitions to a lock file."""
    pins = pin(_definitions(source.load(whole=True)))
    Path(lock).write_text(json.dumps(pins.as_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        _print_json({"lock": lock, "pinned": len(pins.digests)})
    else:
        click.echo(f"pinned {len(pins.digests)} tools in {lock}")


@command.command("diff")
@catalog_options
@click.option("--lock", "lock", required=True, metavar="FILE", type=click.Path(dir_okay=False), help="The lock file.")
@JSON_OPTION
def diff_command(*, source: CatalogSource, lock: str, as_json: bool) -> None:
    """Say which tools changed, appeared or went since they were pinned. Exits 1 if any did."""
    found = compare(load_pins(Path(lock)), _definitions(source.load(whole=True)))
    if as_json:
        _print_json(found.as_json())
    else:
        for kind, names in (("changed", found.changed), ("unpinned", found.unpinned), ("gone", found.gone)):
            for server, name in names:
                click.echo(f"{kind:9} {server or '-'} {name}")
        if found.clean:
            click.echo("nothing changed since the tools were pinned")
    if not found.clean:
        sys.exit(1)


def _entries(listing: ServerListing) -> list[dict[str, Any]]:
    kinds = (("tool", listing.tools), ("resource", listing.resources), ("prompt", listing.prompts))
    return [{"server": listing.server, kind: one} for kind, definitions in kinds for one in definitions]


def _definitions(loaded: LoadedCatalog) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        (listing.server or "", tool)
        for listing in loaded.listings
        for tool in listing.tools
        if isinstance(tool, Mapping)
    ]


def _is_fault(flag: IntakeFlag) -> bool:
    return flag.left_out or flag.code.startswith(("input-schema-", "output-schema-"))


def _print_flags(loaded: LoadedCatalog, flags: tuple[IntakeFlag, ...]) -> None:
    console = Console(soft_wrap=True)
    if flags:
        table = Table(box=None, pad_edge=False)
        for title in ("", "server", "name", "finding", "where", "why"):
            table.add_column(title, overflow="fold")
        for flag in flags:
            verdict = "out" if flag.left_out else "fault" if _is_fault(flag) else "note"
            row = (verdict, flag.server, flag.name, flag.code, flag.where, flag.message)
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
    kinds = Counter(item.kind for item in loaded.catalog)
    taken = ", ".join(f"{number} {kind}s" for kind, number in sorted(kinds.items())) or "nothing"
    out = len(loaded.report.left_out)
    console.print(f"taken: {taken}; left out: {out}; flags: {len(flags)}; digest {loaded.catalog.digest[:16]}")


def _find(loaded: LoadedCatalog, wanted: str) -> SelectableItem:
    found = loaded.catalog.get(wanted)
    if found is not None:
        return found
    named = [item for item in loaded.catalog if wanted in (item.upstream_name, item.id.partition("#")[0])]
    if len(named) == 1:
        return named[0]
    if named:
        raise CatalogError(f"several items are called {wanted!r}: {', '.join(item.id for item in named)}")
    raise CatalogError(f"no item has the id or name {wanted!r}; `leafgate catalog ls` lists what there is")


def _counter() -> Callable[[str], int]:
    encoder = MapFiles().load(CARD_MAP)
    return lambda text: len(encoder.encode(text))


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))
