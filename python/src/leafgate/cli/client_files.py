"""Where MCP clients keep their servers, what is there, and the entry that names leafgate.

One table, data/clients.toml, describes the clients. Any other file with an `mcpServers` or `servers` object, or with
the object of a client in the table, can be read by its path. Nothing is written here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

from leafgate.cli.text_edit import edit_members, name_of
from leafgate.config.document import Format, document_of
from leafgate.data import load_table
from leafgate.model.errors import ConfigError

Scope = Literal["user", "local", "project"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
MAX_BYTES: Final = 64 * 1024 * 1024
OWN_NAME: Final = "leafgate"

_MODULE: Final = "leafgate.cli"


@dataclass(frozen=True)
class Client:
    """One MCP client: its files, and how it writes an entry. data/clients.toml explains each field.

    Without `http`, the client cannot use a URL.
    """

    title: str
    files: Mapping[Scope, str]
    key: tuple[str, ...]
    http: Mapping[str, Any] | None
    windows: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    stdio: Mapping[str, Any] = field(default_factory=dict)
    variable: str = ""
    passes: str = ""
    is_list: bool = False
    joins_args: bool = False


def _client(row: Mapping[str, Any]) -> Client:
    http, key = row.get("http", {}), row.get("key", ("mcpServers",))
    return Client(**{**row, "key": tuple(key), "http": None if http is False else http})


CLIENTS: Final[Mapping[str, Client]] = {
    name: _client(row) for name, row in load_table("clients", {"clients": dict})["clients"].items()
}
_SETTINGS_KEY: Final = ("mcp", "servers")  # in VS Code's settings.json, where opencode has servers in `mcp`
_KEYS: Final = tuple(dict.fromkeys((_SETTINGS_KEY, ("mcpServers",), *(client.key for client in CLIENTS.values()))))


@dataclass(frozen=True)
class Machine:
    """What determines where files are: the system, the home folder, the working folder and the environment."""

    platform: str
    home: Path
    folder: Path
    environment: Mapping[str, str]

    @property
    def folders(self) -> dict[str, Path]:
        """The folders that a path template may begin with. Some programs use the Unix folder on macOS, too."""
        chosen = self.environment.get("XDG_CONFIG_HOME", "")
        config = Path(chosen) if chosen.startswith("/") else self.home / ".config"
        if self.platform == "win32":
            config = Path(self.environment.get("APPDATA") or self.home / "AppData" / "Roaming")
        return {
            "home": self.home,
            "here": self.folder,
            "config": config,
            "settings": self.home / "Library" / "Application Support" if self.platform == "darwin" else config,
            "claude": Path(self.environment.get("CLAUDE_CONFIG_DIR") or self.home),
            "codex": Path(self.environment.get("CODEX_HOME") or self.home / ".codex"),
        }


def this_machine() -> Machine:
    return Machine(sys.platform, Path.home(), Path.cwd(), os.environ)


@dataclass(frozen=True)
class Place:
    """One file of a client, and the path of keys to the servers in it."""

    client: str
    scope: Scope
    file: Path
    key: tuple[str, ...]


@dataclass(frozen=True)
class ClientFile:
    """A client's file on the disk. A symbolic link is followed: changes go to its target."""

    path: Path
    text: str
    format: Format
    key: tuple[str, ...]
    servers: Mapping[str, Mapping[str, Any]]
    inputs: Sequence[Any] = ()
    exists: bool = True
    is_list: bool = False

    def edit(self, *, put: Mapping[str, Mapping[str, Any]] | None = None, remove: Sequence[str] = ()) -> str:
        """Return the text with other servers. ConfigError if only they cannot be changed."""
        text = "{}\n" if self.format == "json" and is_blank(self.text) else self.text
        try:
            return edit_members(text, self.format, self.key, put=put, remove=remove, as_list=self.is_list)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from None


def places(machine: Machine) -> tuple[Place, ...]:
    """Return every supported place, the most common first."""
    folders = machine.folders
    result = []
    for name, client in CLIENTS.items():
        for scope, template in client.files.items():
            is_moved = scope == "user" and machine.platform == "win32" and client.windows
            head, *rest = (client.windows if is_moved else template).split("/")
            key = ("projects", str(machine.folder), *client.key) if scope == "local" else client.key
            result.append(Place(name, scope, folders[head.strip("{}")].joinpath(*rest), key))
    return tuple(result)


def place_of(client: str, scope: Scope, machine: Machine) -> Place:
    """Return the place of a client's servers. ConfigError if the client has no such scope."""
    candidates = [place for place in places(machine) if place.client == client]
    match = next((place for place in candidates if place.scope == scope), None)
    if match is None:
        scopes = ", ".join(place.scope for place in candidates)
        raise ConfigError(f"{CLIENTS[client].title} has no {scope} scope; it has: {scopes}")
    return match


def read_place(place: Place) -> ClientFile:
    """Read the file of a place; a missing or empty file has no servers."""
    path, kind, is_list = place.file.resolve(), format_of(place.file), CLIENTS[place.client].is_list
    text = read_text(path) if path.exists() else ""
    if is_blank(text):
        return ClientFile(path, text, kind, place.key, {}, exists=path.exists(), is_list=is_list)
    document = document_of(path, kind, text).value
    return _client_file(path, text, document, place.key, is_list)


def read_file(file: Path) -> ClientFile:
    """Read a file of any client, recognized by its keys. ConfigError if it has no servers."""
    path = file.resolve()
    text = read_text(path)
    document = document_of(path, format_of(path), text).value
    keys = [key for key in _KEYS if _at(document, key) is not None]
    if not keys:
        others = ", ".join(".".join(key) for key in _KEYS if key not in (("mcpServers",), ("servers",)))
        what = f"contains neither an mcpServers nor a servers object, nor another client's ({others})"
        raise ConfigError(f"{path}: {what}; is it an MCP client's file?")
    return _client_file(path, text, document, keys[0], False)


def recognize(file: ClientFile) -> str | None:
    """Return the client of a file by its keys; None if several have them."""
    alike = [name for name, each in CLIENTS.items() if each.key == file.key and each.is_list == file.is_list]
    urls = {name: CLIENTS[name].names.get("url") for name in alike}
    sure = [name for name in alike if urls[name] and any(urls[name] in entry for entry in file.servers.values())]
    candidates = sure or alike
    return candidates[0] if len(candidates) == 1 else None


def format_of(path: Path) -> Format:
    """Return the format of a client's file: JSON unless its name says otherwise."""
    return {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}.get(path.suffix.lower(), "json")  # type: ignore[return-value]


def read_text(path: Path) -> str:
    """Return the text of a file, with its line ends and byte order mark unchanged."""
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
    """Return whether a file contains nothing but space."""
    return not text.strip("\ufeff \t\r\n")


def _client_file(path: Path, text: str, document: Mapping[str, Any], key: tuple[str, ...], is_list: bool) -> ClientFile:
    entries, name = _at(document, key), ".".join(key)
    if entries is None:
        entries = [] if is_list else {}
    if isinstance(entries, list) and format_of(path) == "yaml":
        is_list, entries = True, {name_of(each) or f"[{place}]": each for place, each in enumerate(entries)}
    if not isinstance(entries, dict):
        raise ConfigError(f"{path}: {name} is not an object of servers")
    for server, entry in entries.items():
        if not isinstance(entry, dict):
            raise ConfigError(f"{path}: {name}.{server} is not an object with a command or a url")
    inputs = document.get("inputs")  # what VS Code asks its user for
    inputs = inputs if isinstance(inputs, list) else ()
    return ClientFile(path, text, format_of(path), key, entries, inputs, is_list=is_list)


def strings_in(value: Any) -> Iterator[str]:
    """Yield every string in a JSON value, without the keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from strings_in(inner)


def _at(document: Any, key: Sequence[str]) -> Any:
    for part in key:
        if not isinstance(document, Mapping):
            return None
        document = document.get(part)
    return document


def own_command() -> tuple[str, ...]:
    """Return the command that starts this leafgate from any folder."""
    program = Path(sys.argv[0]).absolute()
    if program.stem == "leafgate" and program.is_file():
        return (str(program),)
    return (sys.executable, "-m", _MODULE)


def child_entry(client: str | None, config: Path | None, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the entry of a client that starts the gateway and uses its standard streams.

    A variable without a value in `env` is one that the client passes on by its name.
    """
    command, *args = own_command()
    args += ["serve"] if config is None else ["serve", "--config", str(config.absolute())]
    shape = CLIENTS.get(client or "", CLIENTS["claude-desktop"])
    reach: dict[str, Any] = {"command": [command, *args]} if shape.joins_args else {"command": command, "args": args}
    values = {name: value for name, value in (env or {}).items() if value}
    names = [name for name in env or () if name not in values]
    reach |= ({"env": values} if values else {}) | ({shape.passes: names} if names else {})
    return _entry(shape, shape.stdio, reach)


def http_entry(client: str, url: str, token_variable: str | None = None) -> dict[str, Any]:
    """Return the entry of a client that uses a running gateway. The token stays in the client's environment."""
    shape = CLIENTS[client]
    if shape.http is None:
        raise ConfigError(
            f"the file of {shape.title} names commands, not URLs; leave --http out, and it starts leafgate itself"
        )
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(f"--http: {url!r} is not an http or https URL, such as http://127.0.0.1:8808/mcp")
    if parts.username or parts.password:
        raise ConfigError("--http: a URL with a password would be readable in the file; use --token-variable")
    reach: dict[str, Any] = {"url": url if parts.path.strip("/") else f"{url.rstrip('/')}/mcp"}
    if token_variable is not None and client == "codex":
        reach["bearer_token_env_var"] = token_variable
    elif token_variable is not None:
        if not shape.variable:
            raise ConfigError(f"--token-variable: the file of {shape.title} cannot refer to a variable")
        reach["headers"] = {"Authorization": f"Bearer {shape.variable.replace('NAME', token_variable)}"}
    return _entry(shape, shape.http, reach)


def _entry(shape: Client, fields: Mapping[str, Any], reach: Mapping[str, Any]) -> dict[str, Any]:
    entry = dict(fields)
    for name, value in reach.items():
        own, _, inner = shape.names.get(name, name).partition(".")
        entry[own] = {inner: value} if inner else value
    return entry


def is_own(name: str, entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is leafgate's: a gateway must not have itself as a server."""
    if name == OWN_NAME and not {"url", "httpUrl", "serverUrl", "uri"}.isdisjoint(entry):
        return True
    words = [*strings_in([entry.get("command"), entry.get("cmd"), entry.get("args")])]
    starts = any(Path(word.replace("\\", "/")).stem == "leafgate" or word == _MODULE for word in words)
    return starts and "serve" in words
