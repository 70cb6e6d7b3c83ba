"""`leafgate catalog`: list a catalog by path, show one item, lint, save and pin what servers declare.

`lint` exits 1 if a definition was rejected or cannot be validated, `diff` if a tool changed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from leafgate.browse.cards import render_card
from leafgate.browse.navigate import list_path
from leafgate.catalog.catalog import copy_json, definition_digest
from leafgate.catalog.intake import IntakeFlag
from leafgate.catalog.pins import compare, pin
from leafgate.catalog.snapshot_file import LoadedCatalog
from leafgate.catalog.tree import build_tree
from leafgate.cli.catalog_source import CatalogSource, catalog_options
from leafgate.cli.json_lines import AS_JSON_OPTION, print_json
from leafgate.compose.plan import load_pins
from leafgate.maps.files import CARD_MAP, MapFiles
from leafgate.model.errors import CatalogError, GatewayError
from leafgate.model.tool import SelectableItem

_FILE: Final = click.Path(dir_okay=False)


@click.group()
def command() -> None:
    """List, show, lint, save and pin a catalog.

    The catalog comes from the servers in leafgate.yaml or --config, which are started for this, or from a saved file.

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
@AS_JSON_OPTION
def ls(*, source: CatalogSource, where: str, as_json: bool) -> None:
    """List what is at PATH (by default /), as an agent sees it."""
    loaded, encoder = source.load(), MapFiles().load(CARD_MAP)
    try:
        cards = list_path(build_tree(loaded.catalog.all()), where, count=lambda text: len(encoder.encode(text)))
    except GatewayError as error:
        if as_json:
            print_json(error.body.as_json())
        raise
    if as_json:
        print_json([card.as_json() for card in cards])
        return
    for card in cards:
        click.echo(render_card(card))


@command.command()
@catalog_options
@click.argument("item_id", metavar="ID")
@AS_JSON_OPTION
def show(*, source: CatalogSource, item_id: str, as_json: bool) -> None:
    """Show one item: what the server declared, cleaned, and the digest to pin it by. ID may be a plain name."""
    item = _find(source.load(), item_id)
    fields: dict[str, Any] = {
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
        "args_schema": copy_json(item.args_schema),
        "output_schema": None if item.output_schema is None else copy_json(item.output_schema),
        "metadata": copy_json(item.metadata),
        "digest": definition_digest(item),
    }
    if as_json:
        print_json(fields)
        return
    for key, value in fields.items():
        if isinstance(value, dict):
            click.echo(f"{key}:\n{json.dumps(value, indent=2, ensure_ascii=False)}")
        elif value not in ("", [], None):
            click.echo(f"{key}: {', '.join(value) if isinstance(value, list) else value}")


@command.command()
@catalog_options
@AS_JSON_OPTION
def lint(*, source: CatalogSource, as_json: bool) -> None:
    """List what was accepted, flagged and rejected, and why."""
    loaded = source.load()
    flags = loaded.report.flags
    if as_json:
        print_json({**loaded.report.as_json(), "digest": loaded.catalog.digest})
    else:
        _print_flags(loaded, flags)
    if any(_is_fault(flag) for flag in flags):
        sys.exit(1)


@command.command()
@catalog_options
@click.option("-o", "--output", required=True, metavar="FILE", type=_FILE, help="The file to write.")
@AS_JSON_OPTION
def save(*, source: CatalogSource, output: str, as_json: bool) -> None:
    """Write the definitions unchanged to a file, for --catalog and the configuration key `catalog`."""
    entries = [
        {"server": listing.server, kind: definition}
        for listing in source.listings(whole=True)
        for kind, definitions in (("tool", listing.tools), ("resource", listing.resources), ("prompt", listing.prompts))
        for definition in definitions
    ]
    Path(output).write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    counts = Counter(kind for entry in entries for kind in entry if kind != "server")
    if as_json:
        print_json({"output": output, **{f"{kind}s": counts[kind] for kind in ("tool", "resource", "prompt")}})
    else:
        summary = ", ".join(f"{number} {kind}s" for kind, number in counts.items()) or "nothing"
        click.echo(f"saved {summary} in {output}")


@command.command("pin")
@catalog_options
@click.option("--lock", required=True, metavar="FILE", type=_FILE, help="The file to write.")
@AS_JSON_OPTION
def pin_command(*, source: CatalogSource, lock: str, as_json: bool) -> None:
    """Approve every tool of a catalog as it is now: write the digests of the definitions to a lock file."""
    pins = pin(_definitions(source.load(whole=True)))
    Path(lock).write_text(json.dumps(pins.as_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        print_json({"lock": lock, "pinned": len(pins.digests)})
    else:
        click.echo(f"pinned {len(pins.digests)} tools in {lock}")


@command.command("diff")
@catalog_options
@click.option("--lock", required=True, metavar="FILE", type=_FILE, help="The lock file.")
@AS_JSON_OPTION
def diff_command(*, source: CatalogSource, lock: str, as_json: bool) -> None:
    """List the tools that changed, appeared or disappeared since they were pinned. Exits 1 if any did."""
    difference = compare(load_pins(Path(lock)), _definitions(source.load(whole=True)))
    if as_json:
        print_json(difference.as_json())
    else:
        for kind in ("changed", "unpinned", "gone"):
            for server, name in getattr(difference, kind):
                click.echo(f"{kind:9} {server or '-'} {name}")
        if difference.clean:
            click.echo("nothing changed since the tools were pinned")
    if not difference.clean:
        sys.exit(1)


def _definitions(loaded: LoadedCatalog) -> list[tuple[str, Mapping[str, Any]]]:
    tools = [(listing.server or "", tool) for listing in loaded.listings for tool in listing.tools]
    return [(server, tool) for server, tool in tools if isinstance(tool, Mapping)]


def _is_fault(flag: IntakeFlag) -> bool:
    return flag.left_out or flag.code.startswith(("input-schema-", "output-schema-"))


def _print_flags(loaded: LoadedCatalog, flags: tuple[IntakeFlag, ...]) -> None:
    console = Console(soft_wrap=True)
    if flags:
        titles = ("", "server", "name", "finding", "where", "why")
        table = Table(*(Column(title, overflow="fold") for title in titles), box=None, pad_edge=False)
        for flag in flags:
            verdict = "out" if flag.left_out else "fault" if _is_fault(flag) else "note"
            row = (verdict, flag.server, flag.name, flag.code, flag.where, flag.message)
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
    kinds = Counter(item.kind for item in loaded.catalog)
    items = ", ".join(f"{number} {kind}s" for kind, number in sorted(kinds.items())) or "nothing"
    out = len(loaded.report.left_out)
    console.print(f"taken: {items}; left out: {out}; flags: {len(flags)}; digest {loaded.catalog.digest[:16]}")


def _find(loaded: LoadedCatalog, name: str) -> SelectableItem:
    item = loaded.catalog.get(name)
    if item is not None:
        return item
    matches = [item for item in loaded.catalog if name in (item.upstream_name, item.id.partition("#")[0])]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise CatalogError(f"several items are called {name!r}: {', '.join(item.id for item in matches)}")
    raise CatalogError(f"no item has the id or name {name!r}; `leafgate catalog ls` lists what there is")
