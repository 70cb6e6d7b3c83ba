"""Fills variables into texts such as `Bearer ${env:TOKEN}`, and reads the small files that they name.

The environment is passed in. Values never appear in errors.

    ${NAME} ${env:NAME} ${NAME:-default}   an environment variable
    ${file:path}                           the content of a file, such as a mounted secret, without its last newline
    ${input:name}                          what VS Code would ask for: LEAFGATE_INPUT_NAME, or the input's default
    ${workspaceFolder} ${userHome} ...     as VS Code and Cursor fill them
    $${                                    a plain ${
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

VARIABLE: Final = (  # what _FORM finds, for the JSON Schema
    r"\$\{((env:)?[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?|(input|file|command|config):[^}]+|/)\}"
)
_FORM: Final = re.compile(
    r"(?P<plain>\$\$\{)"
    r"|\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
    r"|\$\{(?P<scheme>input|file|command|config):(?P<what>[^}]+)\}"
    r"|\$\{(?P<separator>/)\}"
)
# As VS Code and Cursor fill them.
CLIENT_VARIABLES: Final = ("workspaceFolder", "workspaceFolderBasename", "pathSeparator", "userHome")


class Unfilled(Exception):
    """A variable has no value; the message says what to set."""


@dataclass(frozen=True)
class Filled:
    """A text with its variables filled in. Not shown: it may hold secrets."""

    text: str = field(repr=False)
    had_variables: bool
    files: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Variables:
    """Where values come from: the environment, the folder of the file, and the defaults of its inputs."""

    environ: Mapping[str, str] = field(repr=False)
    folder: Path
    inputs: Mapping[str, str] = field(default_factory=dict, repr=False)

    def fill(self, text: str) -> Filled:
        """Replace every variable. Variables in the values are not replaced. Unfilled if a variable has no value."""
        files: list[Path] = []

        def value(form: re.Match[str]) -> str:
            if form["plain"]:
                return "${"
            if form["separator"]:
                return os.sep
            if form["name"]:
                return self._from_environment(form["name"], form["default"])
            if form["scheme"] == "file":
                files.append(self.path(form["what"]))
                try:
                    return read_small_file(files[-1]).removesuffix("\n").removesuffix("\r")
                except Unreadable as unreadable:
                    raise Unfilled(f"the file {form['what']} {unreadable}") from None
            return self._from_client(form["scheme"], form["what"])

        filled, count = _FORM.subn(value, text)
        return Filled(filled, count > 0, tuple(files))

    def path(self, name: str) -> Path:
        """A path in the file: relative to the folder of the file, with `~` for the home folder."""
        if name == "~" or name.startswith(("~/", "~\\")):
            return Path(self._home(), name[2:])
        return self.folder / name

    def _home(self) -> str:
        return self.environ.get("HOME") or self.environ.get("USERPROFILE") or os.path.expanduser("~")

    def _from_environment(self, name: str, default: str | None) -> str:
        folder = self.folder.absolute()
        workspace = folder.parent if folder.name in (".vscode", ".cursor") else folder
        values = (str(workspace), workspace.name, os.sep, self._home())
        as_clients_fill = dict(zip(CLIENT_VARIABLES, values, strict=True))
        value = self.environ.get(name, as_clients_fill.get(name) if default is None else default)
        if value is None:
            raise Unfilled(f"the environment has no {name}; set it, or write ${{{name}:-default}}")
        return value

    def _from_client(self, scheme: str, what: str) -> str:
        if scheme != "input":
            raise Unfilled(f"only the client can fill a ${{{scheme}:...}}; write the value or an environment variable")
        name = input_variable(what)
        value = self.environ.get(name, self.inputs.get(what))
        if value is None:
            raise Unfilled(f"the client would ask for this input; set {name} in the environment")
        return value


def input_variable(name: str) -> str:
    """The environment variable that answers `${input:name}`."""
    return "LEAFGATE_INPUT_" + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


MAX_FILE_BYTES: Final = 64 * 1024


class Unreadable(Exception):
    """The file gives no text; the message says why."""


def read_small_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or type(error).__name__}") from None
    except ValueError:  # a NUL in the path
        raise Unreadable("cannot be read: not a path") from None
    if len(raw) > MAX_FILE_BYTES:
        raise Unreadable(f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable("is not UTF-8 text") from None


_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


def parse_env_file(text: str) -> tuple[dict[str, str], list[int]]:
    """Parses an `envFile`: returns the variables (the last of a name counts) and the numbers of malformed lines."""
    variables: dict[str, str] = {}
    bad: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            bad.append(number)
        else:
            variables[match[1]] = _unquote(match[2])
    return variables, bad


def _unquote(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), text[1:-1])
    return re.sub(r"\s+#.*$", "", text)
