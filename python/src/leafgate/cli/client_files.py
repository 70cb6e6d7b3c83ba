"""Where MCP clients keep their servers, and in which shape. In: a machine's folders. Out: places, and what is there.

Touches files for reading only. Claude Desktop, Claude Code, VS Code and Cursor are known; any other JSON file with an
`mcpServers` or `servers` object can be read by its path.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from leafgate.config.document import document_of
from leafgate.model.errors import ConfigError

ClientName = Literal["claude-desktop", "claude-code", "vscode", "cursor"]
Scope = Literal["user", "local", "project"]

CLIENTS: Final[tuple[ClientName, ...]] = get_args(ClientName)
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
TITLES: Final[Mapping[ClientName, str]] = {
    "claude-desktop": "Claude Desktop",
    "claude-code": "Claude Code",
    "vscode": "VS Code",
    "cursor": "Cursor",
}
MAX_BYTES: Final = 64 * 1024 * 1024
EMPTY: Final = "{}\n"

_KEYS: Final = (("mcpServers",), ("servers",), ("mcp", "servers"))  # the last one is VS Code's settings.json


@dataclass(frozen=True)
class Machine:
    """What decides where files are: the system, the user's home, the environment, and the folder one stands in."""

    platform: str
    home: Path
    folder: Path
    environment: Mapping[str, str]

    @property
    def settings(self) -> Path:
        """The folder in which programs keep their settings."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.environment.get("APPDATA") or self.home / "AppData" / "Roaming")
        chosen = self.environment.get("XDG_CONFIG_HOME", "")
        return Path(chosen) if chosen.startswith("/") else self.home / ".config"


def this_machine() -> Machine:
    return Machine(sys.platform, Path.home(), Path.cwd(), os.environ)


@dataclass(frozen=True)
class Place:
    """One file of a client, and the path of keys to the servers in it."""

    client: ClientName
    scope: Scope
    file: Path
    key: tuple[str, ...]


@dataclass(frozen=True)
class ClientFile:
    """A client's file as it stands on the disk. A symbolic link has been followed: changes go to what it points at."""

    path: Path
    text: str
    key: tuple[str, ...]
    servers: Mapping[str, Mapping[str, Any]]
    inputs: Sequence[Any] = ()
    exists: bool = True


def places(machine: Machine) -> tuple[Place, ...]:
    """Every place that leafgate knows, in the order in which a person thinks of them."""
    claude_code = Path(machine.environment.get("CLAUDE_CONFIG_DIR") or machine.home) / ".claude.json"
    here = machine.folder
    one, other = ("mcpServers",), ("servers",)
    return (
        Place("claude-desktop", "user", machine.settings / "Claude" / "claude_desktop_config.json", one),
        Place("claude-code", "user", claude_code, one),
        Place("claude-code", "local", claude_code, ("projects", str(here), "mcpServers")),
        Place("claude-code", "project", here / ".mcp.json", one),
        Place("vscode", "user", machine.settings / "Code" / "User" / "mcp.json", other),
        Place("vscode", "project", here / ".vscode" / "mcp.json", other),
        Place("cursor", "user", machine.home / ".cursor" / "mcp.json", one),
        Place("cursor", "project", here / ".cursor" / "mcp.json", one),
    )


def place_of(client: ClientName, scope: Scope, machine: Machine) -> Place:
    """The place of a client's servers. ConfigError where the client has no such scope."""
    known = [place for place in places(machine) if place.client == client]
    found = next((place for place in known if place.scope == scope), None)
    if found is None:
        scopes = ", ".join(place.scope for place in known)
        raise ConfigError(f"{TITLES[client]} has no {scope} scope; it has: {scopes}")
    return found


def read_place(place: Place) -> ClientFile:
    """What stands at a place; no servers where there is no file yet, or an empty one."""
    path = place.file.resolve()
    if not path.exists():
        return ClientFile(path, EMPTY, place.key, {}, exists=False)
    text = read_text(path)
    if is_blank(text):
        return ClientFile(path, text, place.key, {})
    document = document_of(path, "json", text).value
    return ClientFile(path, text, place.key, _servers(path, document, place.key), _inputs(document))


def read_file(file: Path) -> ClientFile:
    """A file of any client, known by its shape. ConfigError where it holds no servers."""
    path = file.resolve()
    text = read_text(path)
    document = document_of(path, "json", text).value
    found = [key for key in _KEYS if _at(document, key) is not None]
    if not found:
        raise ConfigError(f"{path}: holds neither an mcpServers nor a servers object; is it an MCP client's file?")
    return ClientFile(path, text, found[0], _servers(path, document, found[0]), _inputs(document))


def read_text(path: Path) -> str:
    """The text of a file, its line ends and byte order mark as they are."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES} bytes; is it an MCP client's file?")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None


def is_blank(text: str) -> bool:
    """Whether there is nothing in a file, as in one that was only touched."""
    return not text.strip("\ufeff \t\r\n")


def _servers(path: Path, document: Mapping[str, Any], key: tuple[str, ...]) -> Mapping[str, Mapping[str, Any]]:
    block = _at(document, key)
    if block is None:
        return {}
    name = ".".join(key)
    if not isinstance(block, dict):
        raise ConfigError(f"{path}: {name} is no object of servers")
    for server, entry in block.items():
        if not isinstance(entry, dict):
            raise ConfigError(f"{path}: {name}.{server} is no object with a command or a url")
    return block


def _inputs(document: Mapping[str, Any]) -> Sequence[Any]:
    """What VS Code asks its user for."""
    found = document.get("inputs")
    return found if isinstance(found, list) else ()


def _at(document: Any, key: Sequence[str]) -> Any:
    for part in key:
        if not isinstance(document, Mapping):
            return None
        document = document.get(part)
    return document
