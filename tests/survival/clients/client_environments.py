"""The client libraries of the matrix (clients.toml), and their environments below .tools/clients.

Each library is installed at its pinned version into an environment of its own, by uv or npm. Touches .tools/clients
and, through them, the package index. As a command it installs the libraries that are named, or those of CI (`--ci`).
"""

from __future__ import annotations

import fnmatch
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[2]
DRIVERS: Final = HERE / "drivers"
ENVIRONMENTS: Final = ROOT / ".tools" / "clients"
UV: Final = ROOT / ".tools" / "uv-env" / "bin" / "uv"
INSTALL_SECONDS: Final = 600


@dataclass(frozen=True)
class Fault:
    """A known fault of a library: the checks that fail by it (a glob), and the direct check that proves it.

    One that depends on the speed of the machine is seen only `sometimes`.
    """

    checks: str
    proof: str
    reason: str
    sometimes: bool = False

    def covers(self, check: str) -> bool:
        """Whether this check (SIDE/TRANSPORT/NAME) fails by this fault."""
        return fnmatch.fnmatchcase(check, self.checks)


@dataclass(frozen=True)
class Library:
    """A client library: `packages[0]` is the one under test, the others are what it needs to be run.

    With `session_per_call` it connects anew for each call: over stdio, each call starts a gateway.
    """

    name: str
    driver: str
    packages: tuple[str, ...]
    in_ci: bool = False
    session_per_call: bool = False
    faults: tuple[Fault, ...] = ()

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / self.name

    @property
    def is_python(self) -> bool:
        return self.driver.endswith(".py")

    @property
    def is_installed(self) -> bool:
        stamp = self.folder / "installed.txt"
        return stamp.is_file() and stamp.read_text() == self._pins()

    def command(self) -> list[str]:
        """The command that starts the driver. Node finds packages next to a script only, so a copy of it is there."""
        if self.is_python:
            return [str(self.folder / "bin" / "python"), str(DRIVERS / self.driver)]
        for script in ("driver.mjs", self.driver):
            shutil.copy(DRIVERS / script, self.folder)
        own_node = self.folder / "node_modules" / "node" / "bin" / "node"
        return [str(own_node) if own_node.exists() else "node", str(self.folder / self.driver)]

    def install(self) -> None:
        """Install what is missing. Raises CalledProcessError with the output of uv or npm."""
        if self.is_installed:
            return
        print(f"clients: {self.name}", file=sys.stderr, flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        if self.is_python:
            _run(UV, "venv", "--quiet", "--python", ROOT / ".venv/bin/python", self.folder)
            _run(UV, "pip", "install", "--quiet", "--python", self.folder / "bin/python", *self.packages)
        else:
            self.folder.mkdir()
            # With a package of its own there, npm does not look for one further up.
            (self.folder / "package.json").write_text('{"name": "client", "private": true, "type": "module"}\n')
            # Peers are listed in the table: libraries name many that their MCP part does not need.
            options = (
                "--loglevel=error",
                "--no-audit",
                "--no-fund",
                "--no-save",
                "--ignore-scripts",
                "--prefer-offline",
            )
            options += ("--legacy-peer-deps",)
            _run("npm", "install", *options, "--prefix", self.folder, *self.packages)
        (self.folder / "installed.txt").write_text(self._pins())

    def _pins(self) -> str:
        return " ".join(self.packages)


def _run(*command: str | Path) -> None:
    subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=INSTALL_SECONDS, check=True)


def load_libraries() -> dict[str, Library]:
    """The table of libraries, by name."""
    table = tomllib.loads((HERE / "clients.toml").read_text(encoding="utf-8"))
    return {
        name: Library(
            name,
            entry["driver"],
            tuple(entry["packages"]),
            entry.get("ci", False),
            entry.get("session_per_call", False),
            tuple(Fault(**fault) for fault in entry.get("faults", [])),
        )
        for name, entry in table.items()
    }


def main() -> None:
    libraries = load_libraries()
    in_ci = [name for name, library in libraries.items() if library.in_ci]
    for name in in_ci if sys.argv[1:] == ["--ci"] else sys.argv[1:]:
        try:
            libraries[name].install()
        except subprocess.CalledProcessError as error:
            sys.exit(f"clients: {name} cannot be installed:\n{error.stderr or error.stdout}")


if __name__ == "__main__":
    main()
