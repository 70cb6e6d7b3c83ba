"""Fills variables into texts. In: a text such as `Bearer ${env:TOKEN}`. Out: the text, and whether it had variables.

Touches small files that a text names (`${file:path}`); the environment is handed in. Values never appear in errors.

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

from leafgate.config.small_file import Unreadable, read_small_file

VARIABLE: Final = (  # what _FORM finds, for the JSON Schema
    r"\$\{((env:)?[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?|(input|file|command|config):[^}]+|/)\}"
)
_FORM: Final = re.compile(
    r"(?P<plain>\$\$\{)"
    r"|\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
    r"|\$\{(?P<scheme>input|file|command|config):(?P<what>[^}]+)\}"
    r"|\$\{(?P<separator>/)\}"
)
_CLIENT_FOLDERS: Final = (".vscode", ".cursor")


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
        """The text with every variable replaced, once: a value is never looked into. Unfilled where one has none."""
        files: list[Path] = []

        def value(form: re.Match[str]) -> str:
            if form["plain"]:
                return "${"
            if form["separator"]:
                return os.sep
            if form["name"]:
                return self._named(form["name"], form["default"])
            if form["scheme"] == "file":
                files.append(self.path(form["what"]))
                return _content(files[-1], form["what"])
            return self._asked(form["scheme"], form["what"])

        filled, count = _FORM.subn(value, text)
        return Filled(filled, count > 0, tuple(files))

    def path(self, written: str) -> Path:
        """A path as a file means it: from its own folder, `~` for the home folder."""
        if written == "~" or written.startswith(("~/", "~\\")):
            return Path(self._home(), written[2:])
        return self.folder / written

    def _home(self) -> str:
        return self.environ.get("HOME") or self.environ.get("USERPROFILE") or os.path.expanduser("~")

    def _named(self, name: str, default: str | None) -> str:
        found = self.environ.get(name, default)
        if found is None:
            found = self._of_client(name)
        if found is None:
            raise Unfilled(f"the environment has no {name}; set it, or write ${{{name}:-default}}")
        return found

    def _of_client(self, name: str) -> str | None:
        folder = self.folder.absolute()
        workspace = folder.parent if folder.name in _CLIENT_FOLDERS else folder
        return {
            "workspaceFolder": str(workspace),
            "workspaceFolderBasename": workspace.name,
            "pathSeparator": os.sep,
        }.get(name, self._home() if name == "userHome" else None)

    def _asked(self, scheme: str, what: str) -> str:
        if scheme != "input":
            raise Unfilled(f"only the client can fill a ${{{scheme}:...}}; write the value or an environment variable")
        name = input_variable(what)
        found = self.environ.get(name, self.inputs.get(what))
        if found is None:
            raise Unfilled(f"the client would ask for this input; set {name} in the environment")
        return found


def input_variable(name: str) -> str:
    """The environment variable that answers `${input:name}`."""
    return "LEAFGATE_INPUT_" + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def _content(path: Path, written: str) -> str:
    try:
        return read_small_file(path).removesuffix("\n").removesuffix("\r")
    except Unreadable as unreadable:
        raise Unfilled(f"the file {written} {unreadable}") from None
