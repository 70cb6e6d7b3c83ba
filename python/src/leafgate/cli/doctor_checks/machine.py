"""Checks of the machine: Python, Node.js, extras, folders. In: whether Node.js is needed. Out: Findings.

Runs `node --version`, and writes and removes one file in leafgate's cache folder.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from leafgate.cli.doctor_checks.finding import Finding, fail, ok, warn
from leafgate.cli.embedded import TIME_SERVER
from leafgate.storage.index_file import default_directory
from leafgate.version import __version__

GROUP: Final = "machine"
PYTHON: Final = (3, 11)
NODE: Final = 20
_EXTRAS: Final = (
    ("metaspace", ("tokenizers",), "maps of the metaspace kind"),
    ("fast", ("gigatoken", "uvloop", "httptools"), "speed"),
    ("otel", ("opentelemetry.sdk",), "traces"),
    ("redis", ("redis",), "state on a Redis or Valkey server"),
    ("semantic", ("sentence_transformers",), "the embedder minilm"),
)


def check_machine(*, needs_node: bool, is_demo: bool) -> Iterator[Finding]:
    yield python_finding(sys.version_info[:3])
    yield _node(needs_node)
    if is_demo:
        yield _demo_server()
    yield from extras()
    yield writable(default_directory())


def python_finding(version: tuple[int, ...]) -> Finding:
    told = f"{'.'.join(map(str, version))}, leafgate {__version__}"
    if version[:2] < PYTHON:
        return fail(GROUP, "Python", told, f"install Python {'.'.join(map(str, PYTHON))} or newer")
    return ok(GROUP, "Python", told)


def _node(needed: bool) -> Finding:
    node = shutil.which("node")
    if node is None:
        return node_finding(None, needed)
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    return node_finding(said.strip(), needed)


def node_finding(said: str | None, needed: bool) -> Finding:
    """`said` is what node answered to --version; None where there is no node."""
    judge = fail if needed else warn
    fix = f"install Node.js {NODE} or newer" + ("" if needed else ", if you want servers that are run by node or npx")
    if said is None:
        return judge(GROUP, "Node.js", "not found", fix)
    match = re.match(r"v(\d+)\.", said)
    if match is None:
        return judge(GROUP, "Node.js", "does not tell its version", fix)
    return ok(GROUP, "Node.js", said) if int(match[1]) >= NODE else judge(GROUP, "Node.js", f"{said} is too old", fix)


def _demo_server() -> Finding:
    if TIME_SERVER.is_file():
        return ok(GROUP, "demo time server", "built")
    return warn(
        GROUP,
        "demo time server",
        "not built: the demo runs with the notes server alone",
        "in a checkout: `npx --yes rust-just setup`; an installed package has none, and needs none",
    )


def extras() -> Iterator[Finding]:
    for extra, modules, use in _EXTRAS:
        missing = [module for module in modules if not _is_installed(module)]
        said = f"not installed ({', '.join(missing)}); only for {use}" if missing else f"installed, for {use}"
        yield ok(GROUP, f"extra {extra}", said)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there
        return False


def writable(folder: Path) -> Finding:
    """Whether leafgate can keep its indexes there. Without them it is slower to start, and nothing worse."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return warn(
            GROUP,
            "cache folder",
            f"{folder}: {error.strerror}",
            "make it writable, or set XDG_CACHE_HOME to a folder that is; without it every start is slower",
        )
    return ok(GROUP, "cache folder", str(folder))
