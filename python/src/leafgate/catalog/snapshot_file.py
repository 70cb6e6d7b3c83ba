"""Catalog files, as an operator saves them from `tools/list`: JSON in one of three forms (spec 2.7).

A ConfigError names the file and the problem.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leafgate.catalog.catalog import Catalog
from leafgate.catalog.intake import Clean, IntakeReport, as_is, intake
from leafgate.catalog.schema_trust import SchemaLimits
from leafgate.model.errors import CatalogError, ConfigError
from leafgate.model.tool import clashing_namespaces

MAX_FILE_BYTES: Final = 256 * 1024 * 1024
_KINDS: Final = ("tool", "resource", "prompt")


@dataclass(frozen=True)
class ServerListing:
    """The raw definitions of one server; `server` is None if the file does not name it."""

    server: str | None
    tools: tuple[Mapping[str, Any], ...] = ()
    resources: tuple[Mapping[str, Any], ...] = ()
    prompts: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class LoadedCatalog:
    """The catalog of a file, the report of its intake, and the raw definitions."""

    catalog: Catalog
    report: IntakeReport
    listings: tuple[ServerListing, ...]


def load_catalog_file(
    path: str | Path,
    *,
    clean: Clean = as_is,
    limits: SchemaLimits = SchemaLimits(),  # noqa: B008  frozen
) -> LoadedCatalog:
    """Load the catalog in a file."""
    return build_catalog(read_catalog_file(path), str(path), clean=clean, limits=limits)


def build_catalog(
    listings: tuple[ServerListing, ...],
    where: str,
    *,
    clean: Clean = as_is,
    limits: SchemaLimits = SchemaLimits(),  # noqa: B008  frozen
) -> LoadedCatalog:
    """Build the catalog of definitions that were already read; `where` names their source in errors."""
    clashes = clashing_namespaces(listing.server for listing in listings if listing.server is not None)
    for namespace, servers in clashes.items():
        raise ConfigError(f"{where}: the servers {', '.join(map(repr, servers))} share the namespace {namespace!r}")
    catalog, report = Catalog(), IntakeReport()
    for listing in listings:
        items, server_report = intake(
            listing.tools,
            resources=listing.resources,
            prompts=listing.prompts,
            server=listing.server,
            clean=clean,
            limits=limits,
        )
        report = report + server_report
        try:
            for item in items:
                catalog.register(item)
        except CatalogError as error:
            raise ConfigError(f"{where}: {error}") from error
    return LoadedCatalog(catalog, report, listings)


def read_catalog_file(path: str | Path) -> tuple[ServerListing, ...]:
    """Return what each server lists in this file, in the order in which the servers first appear."""
    try:
        if Path(path).stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
        document = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error
    if isinstance(document, Mapping):
        return (_snapshot(document, str(path)),)
    if isinstance(document, list):
        return _list(document, str(path))
    raise ConfigError(f"{path}: a catalog is a list of tools or an object with tools, resources or prompts")


def _snapshot(document: Mapping[str, Any], where: str) -> ServerListing:
    if not any(f"{kind}s" in document for kind in _KINDS):
        raise ConfigError(f"{where}: the object has none of the keys tools, resources, prompts")
    by_kind = {}
    for kind in _KINDS:
        definitions = document.get(f"{kind}s", [])
        if not isinstance(definitions, list):
            raise ConfigError(f"{where}: {kind}s is not a list")
        by_kind[kind] = tuple(_object(one, f"{where}: {kind}s[{index}]") for index, one in enumerate(definitions))
    return ServerListing(_server(document, where), by_kind["tool"], by_kind["resource"], by_kind["prompt"])


def _list(document: list[Any], where: str) -> tuple[ServerListing, ...]:
    by_server: dict[str | None, dict[str, list[Mapping[str, Any]]]] = {}
    for index, one in enumerate(document):
        entry = _object(one, f"{where}: [{index}]")
        kind = next((kind for kind in _KINDS if kind in entry and "name" not in entry), None)
        server = _server(entry, f"{where}: [{index}]") if kind else None
        definition = _object(entry[kind], f"{where}: [{index}].{kind}") if kind else entry
        if kind is None and "name" not in entry:
            raise ConfigError(f"{where}: [{index}] is neither a tool (no name) nor {{server, tool}}")
        by_server.setdefault(server, {each: [] for each in _KINDS})[kind or "tool"].append(definition)
    return tuple(
        ServerListing(server, tuple(by_kind["tool"]), tuple(by_kind["resource"]), tuple(by_kind["prompt"]))
        for server, by_kind in by_server.items()
    )


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} is not an object")
    return value


def _server(holder: Mapping[str, Any], where: str) -> str | None:
    server = holder.get("server")
    if server is not None and (not isinstance(server, str) or not server):
        raise ConfigError(f"{where}: server is not a name")
    return server
