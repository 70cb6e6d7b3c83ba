"""Reads the operator's configuration. In: a YAML or JSON file, or none. Out: a Config, or a ConfigError with the fix.

Touches the file and the environment. A client's own file with an `mcpServers` object is taken as it is.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

import yaml

from leafgate.firewall.screen import DEFAULT_BUDGET
from leafgate.model.errors import ConfigError
from leafgate.model.mode import ExposureMode
from leafgate.model.tool_id import clashing_namespaces
from leafgate.upstream.server_spec import HttpServer, ServerSpec, StdioServer

Transport = Literal["stdio", "http"]

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8808

# Read by the rooms that they control (cli/controls).
CONTROL_KEYS: Final = ("policy", "tolerant_args", "strict_output", "rate_limits", "cache", "retry", "breaker")
_KEYS: Final = (
    "mcpServers",
    "servers",
    "transport",
    "host",
    "port",
    "map",
    "budget",
    "check",
    "cache_stable",
    "mode",
    "hydrate",
    "url_safe_names",
    "pins",
    "on_drift",
    "on_risk",
    "embedder",
    "sanitize",
    "redact",
    *CONTROL_KEYS,
)
_SERVER_KEYS: Final = (
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "type",
    "transport",
    "timeout",
    "start_timeout",
    "disabled",
    "namespace",
    "include",
    "exclude",
    "concurrency",
    "required",
    "sanitize",
)
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True)
class Config:
    """What a gateway is run with."""

    servers: tuple[ServerSpec, ...]
    transport: Transport | None = None
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    map: str | None = None
    budget: int = DEFAULT_BUDGET
    check: Literal["canonical", "decode"] = "canonical"
    cache_stable: bool = False
    mode: ExposureMode = ExposureMode.GATEWAY
    hydrate: bool = True
    url_safe_names: bool = False
    pins: Path | None = None
    hold_drift: bool = False
    hold_risk: bool = False
    embedder: Mapping[str, Any] | None = None
    sanitize: object = None
    sanitize_by_server: Mapping[str, object] = field(default_factory=dict)
    redact: object = None
    controls: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def load_config(path: Path) -> Config:
    """The configuration in this file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    try:
        document = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:  # both name the line
        raise ConfigError(f"{path}: {_one_line(str(error))}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: the file does not hold an object with keys such as mcpServers")
    return _Reading(path, document).config()


class _Reading:
    """One pass over a document; holds it together with the name that errors carry."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path = path
        self.document = document
        self.notices: list[str] = []
        self.own_cleaning: dict[str, object] = {}

    def error(self, where: str, what: str) -> ConfigError:
        return ConfigError(f"{self.path}: {where}: {what}")

    def config(self) -> Config:
        self._known_keys()
        servers = tuple(self._servers())
        return Config(
            servers=servers,
            transport=self._choice("transport", get_args(Transport), None),
            host=self._scalar("host", str, DEFAULT_HOST),
            port=self._number("port", DEFAULT_PORT, 0, 65535),
            map=self._scalar("map", str, None),
            budget=self._number("budget", DEFAULT_BUDGET, 100, 1_000_000),
            check=self._choice("check", ("canonical", "decode"), "canonical"),
            cache_stable=self._scalar("cache_stable", bool, False),
            mode=ExposureMode(self._choice("mode", tuple(mode.value for mode in ExposureMode), "gateway")),
            hydrate=self._scalar("hydrate", bool, True),
            url_safe_names=self._scalar("url_safe_names", bool, False),
            pins=self._path("pins"),
            hold_drift=self._choice("on_drift", ("report", "hold"), "report") == "hold",
            hold_risk=self._choice("on_risk", ("report", "hold"), "report") == "hold",
            embedder=self._expand(self._scalar("embedder", dict, None), "embedder"),
            sanitize=self.document.get("sanitize"),
            sanitize_by_server=self.own_cleaning,
            redact=self.document.get("redact"),
            controls={key: self.document[key] for key in CONTROL_KEYS if key in self.document},
            notices=tuple(self.notices),
        )

    def _known_keys(self) -> None:
        unknown = [str(key) for key in self.document if key not in _KEYS]
        # A client's own JSON file holds settings of that client too; they are none of our business.
        is_client_file = self.path.suffix == ".json" and ("mcpServers" in self.document or "servers" in self.document)
        if unknown and is_client_file:
            self.notices.append(f"{self.path}: not for leafgate, passed over: {', '.join(unknown)}")
        elif unknown:
            raise self.error(unknown[0], f"unknown key{_suggest(unknown[0], _KEYS)}")

    def _servers(self) -> list[ServerSpec]:
        key = "mcpServers" if "mcpServers" in self.document else "servers"
        block = self.document.get(key)
        if not isinstance(block, dict) or not block:
            raise self.error(key, "an object with at least one server is needed")
        servers = [self._server(str(name), spec) for name, spec in block.items() if not _disabled(spec)]
        for namespace, labels in clashing_namespaces([server.label for server in servers]).items():
            raise self.error(key, f"{' and '.join(labels)} would both be {namespace}; give one of them a namespace")
        repeated = {server.label for server in servers if [s.label for s in servers].count(server.label) > 1}
        if repeated:
            raise self.error(key, f"two servers have the namespace {', '.join(sorted(repeated))}")
        return servers

    def _server(self, name: str, spec: object) -> ServerSpec:
        where = f"mcpServers.{name}"
        if not isinstance(spec, dict):
            raise self.error(where, "a server is an object with a command or a url")
        unknown = [str(key) for key in spec if key not in _SERVER_KEYS]
        if unknown and self.path.suffix == ".json":
            self.notices.append(f"{self.path}: {where}: passed over: {', '.join(unknown)}")
        elif unknown:
            raise self.error(f"{where}.{unknown[0]}", f"unknown key{_suggest(unknown[0], _SERVER_KEYS)}")
        expanded = self._expand(spec, where)
        if "sanitize" in expanded:
            self.own_cleaning[self._namespace(expanded, where) or name] = expanded["sanitize"]
        return ServerSpec(
            name=name,
            reach=self._reach(expanded, where),
            timeout=self._seconds(expanded, "timeout", 60.0, where),
            start_timeout=self._seconds(expanded, "start_timeout", 30.0, where),
            namespace=self._namespace(expanded, where),
            include=self._globs(expanded, "include", where),
            exclude=self._globs(expanded, "exclude", where),
            concurrency=self._concurrency(expanded, where),
            required=expanded.get("required") is True,
        )

    def _namespace(self, spec: dict[str, Any], where: str) -> str | None:
        value = spec.get("namespace")
        if value is not None and (not isinstance(value, str) or not value):
            raise self.error(f"{where}.namespace", "a name that is not empty")
        return value

    def _globs(self, spec: dict[str, Any], name: str, where: str) -> tuple[str, ...]:
        value = spec.get(name, [])
        if not isinstance(value, list) or not all(isinstance(glob, str) for glob in value):
            raise self.error(f"{where}.{name}", "a list of globs on tool names, such as [get_*]")
        return tuple(value)

    def _concurrency(self, spec: dict[str, Any], where: str) -> int | None:
        value = spec.get("concurrency")
        if value is not None and (type(value) is not int or value < 1):
            raise self.error(f"{where}.concurrency", "a whole number from 1")
        return value

    def _reach(self, spec: dict[str, Any], where: str) -> StdioServer | HttpServer:
        command, url = spec.get("command"), spec.get("url")
        if (command is None) == (url is None):
            raise self.error(where, "give either a command or a url")
        if command is not None:
            args = spec.get("args", [])
            if not isinstance(command, str) or not isinstance(args, list):
                raise self.error(where, "command is a text and args is a list")
            env = {str(k): str(v) for k, v in self._object(spec, "env", where).items()}
            cwd = spec.get("cwd")
            return StdioServer(command, tuple(str(arg) for arg in args), env, None if cwd is None else str(cwd))
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise self.error(f"{where}.url", "a URL that begins with http:// or https://")
        kind = str(spec.get("type", spec.get("transport", "http")))
        headers = {str(k): str(v) for k, v in self._object(spec, "headers", where).items()}
        return HttpServer(url, headers, "sse" if kind == "sse" else "http")

    def _object(self, spec: dict[str, Any], name: str, where: str) -> Mapping[str, Any]:
        value = spec.get(name) or {}
        if not isinstance(value, dict):
            raise self.error(f"{where}.{name}", "an object is needed")
        return value

    def _expand(self, value: Any, where: str) -> Any:
        """Fills ${env:NAME}, ${NAME} and ${NAME:-default} from the environment."""
        if isinstance(value, dict):
            return {key: self._expand(inner, f"{where}.{key}") for key, inner in value.items()}
        if isinstance(value, list):
            return [self._expand(inner, where) for inner in value]
        if not isinstance(value, str):
            return value

        def fill(match: re.Match[str]) -> str:
            found = os.environ.get(match.group(1), match.group(2))
            if found is None:
                raise self.error(where, f"the environment has no {match.group(1)}")
            return found

        return _VARIABLE.sub(fill, value)

    def _seconds(self, spec: dict[str, Any], name: str, default: float, where: str) -> float:
        value = spec.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
            raise self.error(f"{where}.{name}", "a number of seconds, above 0 and at most a day")
        return float(value)

    def _scalar(self, name: str, kind: type[Any], default: Any) -> Any:
        value = self.document.get(name, default)
        if value is not default and not isinstance(value, kind):
            raise self.error(name, f"a {kind.__name__} is needed")
        return value

    def _number(self, name: str, default: int, least: int, most: int) -> int:
        value = self.document.get(name, default)
        if type(value) is not int or not least <= value <= most:
            raise self.error(name, f"a whole number from {least} to {most}")
        return value

    def _path(self, name: str) -> Path | None:
        """A file beside the configuration, or anywhere."""
        value = self._scalar(name, str, None)
        return None if value is None else self.path.parent / value

    def _choice(self, name: str, choices: tuple[Any, ...], default: Any) -> Any:
        value = self.document.get(name, default)
        if value is not default and value not in choices:
            raise self.error(name, f"one of {', '.join(choices)}{_suggest(str(value), choices)}")
        return value


def _disabled(spec: object) -> bool:
    return isinstance(spec, dict) and spec.get("disabled") is True


def _suggest(word: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:400]
