"""Findings of `leafgate doctor`, and its checks of the configuration: the file, authentication, the store.

Values of secrets are never printed.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import stat
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import anyio

from leafgate.cli.client_entries import needed_variables
from leafgate.compose.gateway import compose
from leafgate.compose.plan import load_pins, make_state
from leafgate.compose.policies import requires_token
from leafgate.compose.secrets import is_secret
from leafgate.config.document import ConfigFileError, Problem, load_document, show_path
from leafgate.config.load import load_config
from leafgate.config.models import Config
from leafgate.model.errors import LeafgateError
from leafgate.server.auth.jwt_verifier import keys_of_file, keys_of_url
from leafgate.server.host_guard import is_loopback
from leafgate.upstream import ServerSpec, StdioServer

CheckState = Literal["ok", "warn", "fail"]

LAST_LINES: Final = 5
_UNSET: Final = re.compile(r"the environment has no (\w+)|set (\w+) in the environment")
_INSTALL_HINTS: Final = {
    "node": "install Node.js 20 or newer",
    "npx": "install Node.js 20 or newer, which includes npx",
    "npm": "install Node.js 20 or newer, which includes npm",
    "uv": "install uv",
    "uvx": "install uv, which includes uvx",
    "docker": "install Docker and start it",
    "python": "give the full path of a Python, such as python3 or the one of its environment",
    "bun": "install Bun",
    "deno": "install Deno",
}


@dataclass(frozen=True)
class Finding:
    """The result of one check: its subject, its state, a message, and the fix if one is needed."""

    group: str
    name: str
    state: CheckState
    message: str
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        fields = {"group": self.group, "name": self.name, "state": self.state, "said": self.message}
        return fields | ({"fix": self.fix} if self.fix else {})


@dataclass(frozen=True)
class Group:
    """The subject of several findings, and how to make one."""

    title: str

    def ok(self, name: str, message: str) -> Finding:
        return Finding(self.title, name, "ok", message)

    def warn(self, name: str, message: str, fix: str) -> Finding:
        return Finding(self.title, name, "warn", message, fix)

    def fail(self, name: str, message: str, fix: str) -> Finding:
        return Finding(self.title, name, "fail", message, fix)


_CONFIG: Final = Group("configuration")
_ACCESS: Final = Group("access")
_STATE: Final = Group("state")


class _LogLines(logging.Handler):
    """The last line that was logged, and the last lines of each thread."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.last = ""
        self._lines: defaultdict[str | None, deque[str]] = defaultdict(lambda: deque(maxlen=LAST_LINES))

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()
        self._lines[record.threadName].append(self.last)

    def lines(self, thread: str) -> list[str]:
        self.acquire()
        try:
            return [*self._lines[thread]]
        finally:
            self.release()


@contextmanager
def collect_log(name: str, level: int) -> Iterator[_LogLines]:
    """Collect what a logger gets instead of printing it."""
    lines, logger = _LogLines(level), logging.getLogger(name)
    before, propagate = logger.level, logger.propagate
    logger.addHandler(lines)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield lines
    finally:
        logger.removeHandler(lines)
        logger.setLevel(before)
        logger.propagate = propagate


def check_file(path: Path) -> tuple[Config | None, list[Finding]]:
    """Return the configuration, None if it is invalid, and the findings about the file."""
    try:
        config = load_config(path)
    except ConfigFileError as error:
        return None, [*(_problem(path, problem) for problem in error.problems), *_permissions(path)]
    read = _CONFIG.ok("file", f"{path}: {len(config.servers)} servers")
    warnings = [  # valid, but rarely intended; load_config reports missing variables
        _CONFIG.warn(f"variable {name}", "set, but empty", f"export {name}=… before leafgate starts")
        for name in needed_variables(_document(path))
        if os.environ.get(name) == ""
    ]
    return config, [read, *warnings, *_permissions(path)]


def _problem(path: Path, problem: Problem) -> Finding:
    place = path.name if problem.line is None else f"{path.name}, line {problem.line}"
    where = f"{show_path(problem.path)}: " if problem.path else ""
    variable = _UNSET.search(problem.what)
    fix = f"export {variable[1] or variable[2]}=…" if variable else "correct it there"
    return _CONFIG.fail(place, f"{where}{problem.what}", fix)


def check_config(config: Config) -> Iterator[Finding]:
    """Check what a valid file refers to."""
    for notice in config.notices:
        yield _CONFIG.warn("notice", notice, "nothing, if this is intended; else remove it from the file")
    for spec in config.servers:
        if isinstance(spec.reach, StdioServer):
            yield command_finding(spec, spec.reach)
    if config.pins is not None:
        try:
            yield _CONFIG.ok("pins", f"{config.pins}: {len(load_pins(config.pins).digests)} tools")
        except LeafgateError as error:
            fix = f"create it again: leafgate catalog pin --catalog FILE --lock {config.pins}"
            yield _CONFIG.fail("pins", str(error), fix)

    async def compose_in_loop() -> None:  # some settings are only checked then, and some parts need an event loop
        compose(config)

    try:
        anyio.run(compose_in_loop)
        yield _CONFIG.ok("settings", "a gateway can be composed")
    except LeafgateError as error:
        yield _CONFIG.fail("settings", str(error), "change the key that the message names")


def command_finding(spec: ServerSpec, reach: StdioServer) -> Finding:
    """Look up a server's command as starting the server does."""
    name = f"command of {spec.name}"
    program = shutil.which(reach.command, path=reach.env.get("PATH") or os.environ.get("PATH"))
    if program is None and os.sep in reach.command and reach.cwd is not None:
        program = shutil.which(str(Path(reach.cwd) / reach.command))
    if program is None:
        plain = re.sub(r"[\d.]+$", "", Path(reach.command).stem)
        fix = _INSTALL_HINTS.get(plain, "install it, or give its full path in the configuration")
        return _CONFIG.fail(name, f"{reach.command} is not on PATH, or cannot be run", fix)
    if reach.cwd is not None and not Path(reach.cwd).is_dir():
        return _CONFIG.fail(name, f"its cwd {reach.cwd} is not a folder", "create the folder, or change cwd")
    return _CONFIG.ok(name, program)


def _permissions(path: Path) -> Iterator[Finding]:
    if sys.platform == "win32" or not path.is_file():
        return
    others = stat.S_IMODE(path.stat().st_mode) & (stat.S_IRGRP | stat.S_IROTH)
    secrets = list(dict.fromkeys(_plain_secrets(_document(path))))
    if secrets and others:
        message = f"the file contains secrets ({', '.join(secrets)}), and others on this machine can read it"
        yield _CONFIG.warn("permissions", message, f"chmod 600 {path}, or refer to variables as ${{env:NAME}}")
    elif secrets:
        yield _CONFIG.ok("permissions", "the file contains secrets, and only you can read it")


def _document(path: Path) -> Any:
    """Return the file's content before variables are filled in; None if it cannot be read."""
    try:
        return load_document(path).value
    except ConfigFileError:
        return None


def _plain_secrets(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in ("env", "headers") and isinstance(inner, Mapping):
                yield from (str(name) for name, text in inner.items() if is_secret(str(name), str(text)))
            else:
                yield from _plain_secrets(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _plain_secrets(inner)


def check_access(config: Config, *, reach: bool) -> Iterator[Finding]:
    """Check that other machines need a token, and that the signing keys can be read.

    A running gateway reads the keys with the first token. `reach`: whether the network may be used.
    """
    if config.transport in ("http", "sse") and not is_loopback(config.host):
        yield _openness(config)
    if config.auth is not None and config.auth.jwt is not None:
        yield from _keys(config.auth.jwt.jwks, reach)


def _openness(config: Config) -> Finding:
    if requires_token(config.auth):
        return _ACCESS.ok(config.host, "other machines can reach it, and every client needs a token")
    if config.insecure_bind:
        return _ACCESS.ok(config.host, "other machines can reach it without a token, as insecure_bind says")
    fix = "configure auth (`leafgate token new NAME` makes a token), or listen on 127.0.0.1"
    return _ACCESS.fail(config.host, "other machines can reach it without a token: the gateway will not start", fix)


def _keys(where: str | Path, reach: bool) -> Iterator[Finding]:
    is_url = isinstance(where, str) and "://" in where
    if is_url and not reach:
        return
    source = keys_of_url(str(where)) if is_url else keys_of_file(Path(where))
    with collect_log("leafgate.server", logging.WARNING) as log:  # a source logs its errors and goes on without keys
        count = len(anyio.run(source.keys).keys)
    fix = "correct auth.jwt.jwks, or check what answers there" if is_url else "correct auth.jwt.jwks, or the file"
    yield _ACCESS.ok("signing keys", f"{count} keys") if count else _ACCESS.fail("signing keys", log.last, fix)


def check_state(config: Config) -> Iterator[Finding]:
    """Open the store as a gateway does, and close it; a missing file is created. Memory needs no check."""
    if config.state in ("auto", "memory"):
        return

    async def try_store() -> None:
        state = make_state(config.state)
        try:
            await state.open()
        finally:
            await state.close()

    try:
        anyio.run(try_store)
    except LeafgateError as error:
        yield _STATE.fail("store", str(error), "correct state, or fix what it names: the gateway will not start")
    else:
        yield _STATE.ok("store", "usable")
