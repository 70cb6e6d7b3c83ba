"""The options --catalog and --config: definitions from a saved file, or from the servers of a configuration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from leafgate.catalog.snapshot_file import LoadedCatalog, ServerListing, build_catalog, read_catalog_file
from leafgate.clean.cleaner import Cleaner
from leafgate.config.load import find_config, load_config
from leafgate.config.models import USUAL_CONFIG
from leafgate.model.errors import ConfigError, LeafgateError

_FILE = click.Path(dir_okay=False, path_type=Path)
_NEITHER = (
    f"give --catalog with a file of saved definitions, or --config with a configuration; {USUAL_CONFIG} is missing"
)


@dataclass(frozen=True)
class CatalogSource:
    """A file of saved definitions, or a configuration whose servers are started and asked."""

    path: Path
    is_saved: bool

    def listings(self, *, whole: bool = False) -> tuple[ServerListing, ...]:
        """Return what each server lists.

        With `whole`, a server that does not answer is an error, because its tools must not count as removed. Otherwise
        it is reported on standard error.
        """
        if self.is_saved:
            return read_catalog_file(self.path)
        from leafgate.compose.servers import ask_servers  # noqa: PLC0415  the MCP SDK takes a second to load

        servers = load_config(self.path).servers
        if not servers:
            raise ConfigError(f"{self.path}: has no servers; give the file of its `catalog` as --catalog")
        with Console(stderr=True).status("starting the servers") as status:
            listings, down = ask_servers(servers, status.update)
        if down:
            message = f"no answer from {', '.join(down)}; `leafgate doctor --config {self.path}` says why"
            if whole or not listings:
                raise LeafgateError(message)
            click.echo(f"leafgate: {message}", err=True)
        return listings

    def load(self, *, whole: bool = False) -> LoadedCatalog:
        """Return the catalog of these listings, cleaned as a gateway cleans it."""
        return build_catalog(self.listings(whole=whole), str(self.path), clean=Cleaner())


def catalog_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --catalog and --config to a command, which gets one CatalogSource as `source`."""

    @click.option("--catalog", "saved", type=_FILE, metavar="FILE",
                  help="Saved definitions: a tools/list response, or a file of `leafgate catalog save`.")  # fmt: skip
    @click.option("--config", "config", type=_FILE, metavar="FILE",
                  help=f"Start this configuration's servers and list tools. [default: {USUAL_CONFIG}]")  # fmt: skip
    @functools.wraps(command)
    def with_source(*, saved: Path | None, config: Path | None, **others: Any) -> None:
        command(source=_source(saved, config), **others)

    return with_source


def _source(saved: Path | None, config: Path | None) -> CatalogSource:
    if saved is not None and config is not None:
        raise click.UsageError("give --catalog or --config, not both")
    if saved is not None:
        return CatalogSource(saved, is_saved=True)
    config = find_config(config)
    if config is None:
        raise click.UsageError(_NEITHER)
    return CatalogSource(config, is_saved=False)
