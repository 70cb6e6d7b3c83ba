"""leafgate as a client's file names it. In: a client, and how it is to reach the gateway. Out: the entry of one server.

Looks at how this program was started, and touches nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from leafgate.cli.client_files import TITLES, ClientName
from leafgate.model.errors import ConfigError

OWN_NAME: Final = "leafgate"
_NAMES_TYPE: Final = ("claude-code", "vscode")  # these clients' entries say which transport they use
_MODULE: Final = "leafgate.cli"


def own_command() -> tuple[str, ...]:
    """The words that start this leafgate from any folder."""
    program = Path(sys.argv[0]).absolute()
    if program.stem == "leafgate" and program.is_file():
        return (str(program),)
    return (sys.executable, "-m", _MODULE)


def child_entry(client: ClientName | None, config: Path | None, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The entry of a client that starts the gateway itself and speaks over its standard streams."""
    command, *args = own_command()
    settings = [] if config is None else ["--config", str(config.absolute())]
    entry: dict[str, Any] = {"command": command, "args": [*args, "serve", *settings]}
    return _typed(client, "stdio") | entry | ({"env": dict(env)} if env else {})


def http_entry(client: ClientName, url: str, token_variable: str | None = None) -> dict[str, Any]:
    """The entry of a client that finds the gateway running. The token stays in the client's environment."""
    if client == "claude-desktop":
        raise ConfigError(
            f"the file of {TITLES[client]} names commands, not URLs; leave --http out, and it starts leafgate itself"
        )
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(f"--http: {url!r} is no http or https URL, such as http://127.0.0.1:8808/mcp")
    if parts.username or parts.password:
        raise ConfigError("--http: a URL with a password would be readable in the file; use --token-variable")
    whole = url if parts.path.strip("/") else f"{url.rstrip('/')}/mcp"
    reference = f"${{{token_variable}}}" if client == "claude-code" else f"${{env:{token_variable}}}"
    headers = {} if token_variable is None else {"headers": {"Authorization": f"Bearer {reference}"}}
    return _typed(client, "http") | {"url": whole} | headers


def is_own(name: str, entry: Mapping[str, Any]) -> bool:
    """Whether an entry is leafgate's: a gateway must not be put in front of itself."""
    if name == OWN_NAME and "url" in entry:
        return True
    args = entry.get("args")
    words = [str(word) for word in (entry.get("command"), *(args if isinstance(args, list) else ()))]
    starts = any(Path(word.replace("\\", "/")).stem == "leafgate" or word == _MODULE for word in words)
    return starts and "serve" in words


def _typed(client: ClientName | None, kind: str) -> dict[str, Any]:
    return {"type": kind} if client in _NAMES_TYPE else {}
