"""`leafgate doctor`: check everything that a gateway needs, and suggest the fix. Exits 1 if a check fails.

The checks of the machine and of its tokenizer maps are here. Each map encodes a short text with difficult characters
and must decode it again.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import anyio
import click
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from leafgate.cli.doctor_config import Finding, Group, check_access, check_config, check_file, check_state
from leafgate.cli.doctor_servers import check_port, check_servers, check_url, needs_node
from leafgate.cli.json_lines import AS_JSON_OPTION, print_json
from leafgate.compose.servers import TIME_SERVER, embedded_config
from leafgate.config.load import find_config
from leafgate.maps.files import CARD_MAP, MapEntry, MapFiles
from leafgate.model.errors import LeafgateError, MissingExtraError
from leafgate.state.routing import default_directory
from leafgate.tokens.verify import check as check_ids
from leafgate.version import __version__

Progress = Callable[[str], None]

SAMPLES: Final = ("It is currently 14:30 UTC.", "naïve café, 東京 🌱\n\n\t  x = 1", "<|im_end|> is ordinary text")
TOY_SAMPLE: Final = "the cat"
PYTHON: Final = (3, 11)
NODE: Final = 20
_MACHINE: Final = Group("machine")
_MAPS: Final = Group("maps")
_BUILD_FIX: Final = (
    "in a checkout: `npx --yes rust-just setup`; an installed package does not include it, and does not need it"
)
_EXTRAS: Final = (
    ("metaspace", ("tokenizers",), "maps of the metaspace kind"),
    ("fast", ("gigatoken", "uvloop", "httptools"), "speed"),
    ("otel", ("opentelemetry.sdk",), "traces"),
    ("redis", ("redis",), "state on a Redis or Valkey server"),
    ("semantic", ("sentence_transformers",), "the embedder minilm"),
)
_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path),
              help="The file to check. [default: leafgate.yaml, if present; else the demo servers]")  # fmt: skip
@click.option("--url", help="Check a running gateway instead of a file.")
@click.option("--timeout", type=click.FloatRange(0.1, 3600), metavar="SECONDS",
              help="Time for a server to start. [default: as configured]")  # fmt: skip
@click.option("--no-start", is_flag=True, help="Do not start or contact any server.")
@AS_JSON_OPTION
def command(*, file: Path | None, url: str | None, timeout: float | None, no_start: bool, as_json: bool) -> None:
    """Check everything that a gateway needs, and suggest how to fix what is missing.

    Python and Node.js, the file and its variables, each server's command, each server (started and asked for its
    tools), authentication, the store, the port, the maps, the permissions of a file with secrets.
    """
    if url is not None and file is not None:
        raise click.UsageError("give --config or --url, not both")
    file = find_config(file)
    with Console(stderr=True).status("checking") as status:
        findings = check_url(url) if url else _check_local(file, timeout, no_start, status.update)
    failed = any(finding.state == "fail" for finding in findings)
    if as_json:
        print_json({"ok": not failed, "findings": [finding.as_json() for finding in findings]})
    else:
        _show(findings)
    if failed:
        sys.exit(1)


def _check_local(file: Path | None, timeout: float | None, no_start: bool, progress: Progress) -> list[Finding]:
    config, file_findings = (embedded_config(), []) if file is None else check_file(file)
    servers = () if config is None else config.servers
    findings = [*check_machine(needs_node=needs_node(servers), is_demo=file is None), *file_findings]
    if config is not None:
        findings += check_config(config)
        findings += [] if no_start else anyio.run(check_servers, config.servers, timeout, progress)
        findings += check_access(config, reach=not no_start)
        findings += [] if no_start else check_state(config)
        findings.append(check_port(config.host, config.port, is_used=config.transport in ("http", "sse")))
    return [*findings, *check_maps(None if config is None else config.map, progress)]


def _show(findings: Sequence[Finding]) -> None:
    console = Console(highlight=False)
    table = Table(*(Column(title, overflow="fold") for title in ("", "what", "result")), box=None, pad_edge=False)
    group = ""
    for finding in findings:
        if finding.group != group:
            group = finding.group
            table.add_row("", Text(group, style="bold"), "")
        text = Text(finding.message)
        if finding.fix:
            text.append(f"\n→ {finding.fix}", style="italic")
        table.add_row(Text(finding.state, style=_COLOURS[finding.state]), Text(finding.name), text)
    console.print(table)
    counts = {state: sum(finding.state == state for finding in findings) for state in _COLOURS}
    console.print(f"\n{counts['ok']} ok, {counts['warn']} warnings, {counts['fail']} failed")


def check_machine(*, needs_node: bool, is_demo: bool) -> Iterator[Finding]:
    yield python_finding(sys.version_info[:3])
    yield _node(needs_node)
    if is_demo and TIME_SERVER.is_file():
        yield _MACHINE.ok("demo time server", "built")
    elif is_demo:
        yield _MACHINE.warn("demo time server", "not built: the demo runs with the notes server alone", _BUILD_FIX)
    yield from extras()
    yield check_cache_folder(default_directory())


def python_finding(version: tuple[int, ...]) -> Finding:
    message = f"{'.'.join(map(str, version))}, leafgate {__version__}"
    if version[:2] < PYTHON:
        return _MACHINE.fail("Python", message, f"install Python {'.'.join(map(str, PYTHON))} or newer")
    return _MACHINE.ok("Python", message)


def _node(is_needed: bool) -> Finding:
    node = shutil.which("node")
    if node is None:
        return node_finding(None, is_needed)
    try:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        version = ""
    return node_finding(version.strip(), is_needed)


def node_finding(version: str | None, is_needed: bool) -> Finding:
    """`version` is the output of node --version; None without node."""
    judge = _MACHINE.fail if is_needed else _MACHINE.warn
    fix = f"install Node.js {NODE} or newer" + ("" if is_needed else ", for servers that are run by node or npx")
    if version is None:
        return judge("Node.js", "not found", fix)
    match = re.match(r"v(\d+)\.", version)
    if match is None:
        return judge("Node.js", "does not report its version", fix)
    if int(match[1]) < NODE:
        return judge("Node.js", f"{version} is too old", fix)
    return _MACHINE.ok("Node.js", version)


def extras() -> Iterator[Finding]:
    for extra, modules, use in _EXTRAS:
        missing = [module for module in modules if not _is_installed(module)]
        message = f"not installed ({', '.join(missing)}); only for {use}" if missing else f"installed, for {use}"
        yield _MACHINE.ok(f"extra {extra}", message)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is not installed
        return False


def check_cache_folder(folder: Path) -> Finding:
    """Check that leafgate can store its indexes there. Without them it only starts slower."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fix = "make it writable, or set XDG_CACHE_HOME to a folder that is; without it every start is slower"
        return _MACHINE.warn("cache folder", f"{folder}: {error.strerror}", fix)
    return _MACHINE.ok("cache folder", str(folder))


def check_maps(default: str | None, progress: Progress) -> Iterator[Finding]:
    """Try every installed map, and find the configured one."""
    try:
        files = MapFiles()
        entries = files.list()
    except LeafgateError as error:
        fix = "repair or remove that index, or remove its folder from LEAFGATE_MAPS"
        yield _MAPS.fail("index", str(error), fix)
        return
    for entry in entries:
        progress(f"trying map {entry.id}")
        yield _try(files, entry)
    yield _check_named(files, CARD_MAP, "card map", "reinstall leafgate: this map counts the tokens of cards")
    if default is not None:
        yield _check_named(files, default, "default map", "set `map` to one of them, or omit it")


def _try(files: MapFiles, entry: MapEntry) -> Finding:
    try:
        encoder = files.load(entry.id)
        for text in (TOY_SAMPLE,) if entry.id.startswith("toy") else SAMPLES:
            ids = encoder.encode(text)
            is_same = encoder.decode_bytes(ids).decode() == text
            if not is_same or not check_ids(encoder, text, ids, level="canonical").accepted:
                return _MAPS.fail(entry.id, "does not decode to the text that it encoded", "do not use this map")
    except MissingExtraError as error:
        return _MAPS.warn(entry.id, str(error), "install leafgate[metaspace] to use this map")
    except LeafgateError as error:
        return _MAPS.fail(entry.id, str(error), "download the file again")
    return _MAPS.ok(entry.id, f"{len(encoder.map.token_of_id)} tokens")


def _check_named(files: MapFiles, name: str, role: str, fix: str) -> Finding:
    try:
        entry = files.find(name)
    except LeafgateError as error:
        return _MAPS.fail(role, str(error), fix)
    return _MAPS.ok(role, entry.id)
