"""Whose tools a command looks at: those in a saved file, or those of configured servers. In: options. Out: listings.

Touches the file that is named; servers of a configuration are started, asked and ended.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from leafgate.catalog.snapshot_file import LoadedCatalog, ServerListing, catalog_of, read_catalog_file
from leafgate.config.load import load_config
from leafgate.config.settings import USUAL_CONFIG
from leafgate.firewall.cleaner import make_cleaner
from leafgate.model.errors import ConfigError, LeafgateError

_FILE = click.Path(dir_okay=False, path_type=Path)
_NEITHER = (
    f"give --catalog with a file of saved definitions, or --config with a configuration ({USUAL_CONFIG} is not here)"
)


@dataclass(frozen=True)
class CatalogSource:
    """The file that was named: saved definitions, or a configuration whose servers are asked."""

    path: Path
    is_saved: bool

    def listings(self, *, whole: bool = False) -> tuple[ServerListing, ...]:
        """What each server lists.

        Where the `whole` is needed a server that does not answer is an error: what is only missing today must not
        count as gone. Elsewhere it is told on standard error.
        """
        if self.is_saved:
            return read_catalog_file(self.path)
        from leafgate.cli.asked_servers import ask_servers  # noqa: PLC0415  the MCP SDK takes a second to load

        servers = load_config(self.path).servers
        if not servers:
            raise ConfigError(f"{self.path}: has no servers to ask; give the file of its `catalog` as --catalog")
        with Console(stderr=True).status("starting the servers") as status:
            found, down = ask_servers(servers, status.update)
        if down:
            told = f"no answer from {', '.join(down)}; `leafgate doctor --config {self.path}` says why"
            if whole or not found:
                raise LeafgateError(told)
            click.echo(f"leafgate: {told}", err=True)
        return found

    def load(self, *, whole: bool = False) -> LoadedCatalog:
        """Their catalog, cleaned as a gateway cleans it."""
        return catalog_of(self.listings(whole=whole), str(self.path), clean=make_cleaner())


def catalog_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command --catalog and --config; it is handed one CatalogSource, `source`."""

    @click.option("--catalog", "saved", type=_FILE, metavar="FILE",
                  help="Saved definitions: an answer of tools/list, or from `leafgate catalog save`.")  # fmt: skip
    @click.option("--config", "config", type=_FILE, metavar="FILE",
                  help=f"Start the servers of this configuration, and ask them. [default: {USUAL_CONFIG}]")  # fmt: skip
    @functools.wraps(command)
    def with_source(*, saved: Path | None, config: Path | None, **others: Any) -> None:
        command(source=_source(saved, config), **others)

    return with_source


def _source(saved: Path | None, config: Path | None) -> CatalogSource:
    if saved is not None and config is not None:
        raise click.UsageError("give --catalog or --config, not both")
    if saved is not None:
        return CatalogSource(saved, is_saved=True)
    usual = Path(USUAL_CONFIG)
    if config is None and not usual.is_file():
        raise click.UsageError(_NEITHER)
    return CatalogSource(config or usual, is_saved=False)
