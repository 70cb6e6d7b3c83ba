"""Checks of the operator's file: it parses, names what exists, and keeps its secrets. In: a path. Out: Findings.

Touches the file, the files that it names, the environment and PATH. No value of a secret is ever said.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from leafgate.cli.compose import compose
from leafgate.cli.doctor_checks.finding import Finding, fail, ok, warn
from leafgate.cli.server_secrets import is_secret
from leafgate.config.document import load_document
from leafgate.config.load import load_config
from leafgate.config.problem import ConfigFileError, Problem, show_path
from leafgate.config.settings import Config
from leafgate.model.errors import LeafgateError
from leafgate.storage.pin_file import load_pins
from leafgate.upstream.server_spec import ServerSpec, StdioServer

GROUP: Final = "configuration"
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")  # with a default, it may be missing
_UNSET: Final = re.compile(r"the environment has no (\w+)|set (\w+) in the environment")
_HOW_TO_GET: Final = {
    "node": "install Node.js 20 or newer",
    "npx": "install Node.js 20 or newer, which brings npx",
    "npm": "install Node.js 20 or newer, which brings npm",
    "uv": "install uv",
    "uvx": "install uv, which brings uvx",
    "docker": "install Docker and start it",
    "python": "give the whole path of a Python, such as python3 or the one of its environment",
    "bun": "install Bun",
    "deno": "install Deno",
}


def check_file(path: Path) -> tuple[Config | None, list[Finding]]:
    """The configuration, None where it cannot be used, and everything that is wrong with the file."""
    try:
        config = load_config(path)
    except ConfigFileError as error:
        return None, [*(_problem(path, problem) for problem in error.problems), *_permissions(path)]
    read = ok(GROUP, "file", f"{path}: {len(config.servers)} servers")
    return config, [read, *_empty_variables(path), *_permissions(path)]


def _problem(path: Path, problem: Problem) -> Finding:
    place = path.name if problem.line is None else f"{path.name}, line {problem.line}"
    where = f"{show_path(problem.path)}: " if problem.path else ""
    variable = _UNSET.search(problem.what)
    fix = f"export {variable[1] or variable[2]}=…" if variable else "correct it there"
    return fail(GROUP, place, f"{where}{problem.what}", fix)


def check_config(config: Config) -> Iterator[Finding]:
    """What only shows once the file is understood."""
    for notice in config.notices:
        yield warn(GROUP, "notice", notice, "nothing, if you knew; else take it out of the file")
    for spec in config.servers:
        if isinstance(spec.reach, StdioServer):
            yield command_finding(spec, spec.reach)
    if config.pins is not None:
        yield _pins(config.pins)
    yield _composed(config)


def command_finding(spec: ServerSpec, reach: StdioServer) -> Finding:
    """Whether a server's command can be found, as it will be when the server is started."""
    name = f"command of {spec.name}"
    found = shutil.which(reach.command, path=reach.env.get("PATH") or os.environ.get("PATH"))
    if found is None and os.sep in reach.command and reach.cwd is not None:
        found = shutil.which(str(Path(reach.cwd) / reach.command))
    if found is None:
        plain = re.sub(r"[\d.]+$", "", Path(reach.command).stem)
        fix = _HOW_TO_GET.get(plain, "install it, or give its whole path in the configuration")
        return fail(GROUP, name, f"{reach.command} is not on PATH, or cannot be run", fix)
    if reach.cwd is not None and not Path(reach.cwd).is_dir():
        return fail(GROUP, name, f"its cwd {reach.cwd} is no folder", "make the folder, or change cwd")
    return ok(GROUP, name, found)


def _empty_variables(path: Path) -> Iterator[Finding]:
    """One that is missing is told by the file's reader; one that is empty is legal, and seldom meant."""
    named = dict.fromkeys(name for text in _strings(_document(path)) for name in _VARIABLE.findall(text))
    for name in named:
        if os.environ.get(name) == "":
            yield warn(GROUP, f"variable {name}", "set, but empty", f"export {name}=… before leafgate starts")


def _permissions(path: Path) -> Iterator[Finding]:
    if sys.platform == "win32" or not path.is_file():
        return
    others = stat.S_IMODE(path.stat().st_mode) & (stat.S_IRGRP | stat.S_IROTH)
    held = list(dict.fromkeys(_plain_secrets(_document(path))))
    if held and others:
        yield warn(
            GROUP,
            "permissions",
            f"the file holds secrets ({', '.join(held)}), and others on this machine can read it",
            f"chmod 600 {path}, or name variables as ${{env:NAME}}",
        )
    elif held:
        yield ok(GROUP, "permissions", "the file holds secrets, and only you can read it")


def _pins(path: Path) -> Finding:
    try:
        pins = load_pins(path)
    except LeafgateError as error:
        return fail(GROUP, "pins", str(error), f"make it anew: leafgate catalog pin --catalog FILE --lock {path}")
    return ok(GROUP, "pins", f"{path}: {len(pins.digests)} tools")


def _composed(config: Config) -> Finding:
    """Blocks that are read by the rooms they control show their faults only here."""

    async def put_together() -> None:  # some parts are made only where there is a loop
        compose(config)

    try:
        anyio.run(put_together)
    except LeafgateError as error:
        return fail(GROUP, "settings", str(error), "change the key that is named")
    return ok(GROUP, "settings", "a gateway can be put together")


def _document(path: Path) -> Any:
    """The file's content as it stands, before variables are filled in; None where it cannot be read."""
    try:
        return load_document(path).value
    except ConfigFileError:
        return None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _plain_secrets(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in ("env", "headers") and isinstance(inner, Mapping):
                yield from (str(name) for name, held in inner.items() if is_secret(str(name), str(held)))
            else:
                yield from _plain_secrets(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _plain_secrets(inner)
