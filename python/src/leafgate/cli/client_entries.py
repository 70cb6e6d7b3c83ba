"""Turns servers as clients write them into entries of a leafgate.yaml, and says what a client passes to leafgate then.

Clients name the same things differently, and no name means two things. What only the client can do, such as signing in
for a server, is a reason to leave a server with the client.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leafgate.cli.client_files import CLIENTS, is_own, strings_in
from leafgate.config.kinds import keys_of
from leafgate.config.load import MILLISECONDS_FROM
from leafgate.config.models import Server
from leafgate.config.variables import CLIENT_VARIABLES, input_variable
from leafgate.model.tool import clashing_namespaces, normalize_namespace

_SERVER_KEYS: Final = frozenset(keys_of(Server))
_TRANSPORT_KEYS: Final = ("type", "transport")
_COMMAND_KEYS: Final = ("args", "env", "envFile", "cwd")
_SIGN_IN_KEYS: Final = ("oauth", "authProviderType", "auth")
_OTHER_NAMES: Final = {
    "cmd": "command",
    "envs": "env",
    "environment": "env",
    "httpUrl": "url",
    "serverUrl": "url",
    "uri": "url",
    "http_headers": "headers",
    "includeTools": "include",
    "enabled_tools": "include",
    "available_tools": "include",
    "excludeTools": "exclude",
    "disabled_tools": "exclude",
    "disabledTools": "exclude",
    "startup_timeout_sec": "start_timeout",
    "tool_timeout_sec": "timeout",
}
_READ_KEYS: Final = ("name", "enabled", "bearer_token_env_var", "env_http_headers", "env_vars", "env_keys")
_INPUT: Final = re.compile(r"\$\{input:([^}]+)\}")
_VARIABLE: Final = re.compile(r"(?<!\$)\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")  # one with a default is not needed
_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")
# opencode, and Continue
_OTHER_REFERENCES: Final = re.compile(r"(?<!\$)\{env:(\w+)\}|\$\{\{\s*(?:secrets\.)?(\w+)\s*\}\}")
_SHELL_VARIABLE: Final = re.compile(r"\$([A-Za-z_]\w*)")  # Gemini


@dataclass(frozen=True)
class ImportedServers:
    """Entries for a leafgate.yaml, notices about them, and the environment variables that the client would ask for."""

    servers: Mapping[str, Mapping[str, Any]]
    notices: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


def import_servers(
    entries: Mapping[str, Mapping[str, Any]], folder: Path, client: str | None = None
) -> ImportedServers:
    """Convert the entries of a client's file whose relative paths start from `folder`."""
    servers: dict[str, Mapping[str, Any]] = {}
    notices: list[str] = []
    for name, original in entries.items():
        entry = _with_our_names(original, client)
        reason = _reason_to_skip(name, original, entry)
        if reason is not None:
            notices.append(f"{name}: {reason}, skipped")
            continue
        unknown = [key for key in entry if key not in _SERVER_KEYS]
        if unknown:
            notices.append(f"{name}: only for the client, not imported: {', '.join(unknown)}")
        servers[name] = _map_strings(_entry(entry, folder), lambda text: _with_our_variables(text, folder, client))
    variables = dict.fromkeys(input_variable(name) for text in strings_in(servers) for name in _INPUT.findall(text))
    return ImportedServers(_separate_namespaces(servers), tuple(notices), tuple(variables))


def _with_our_names(original: Mapping[str, Any], client: str | None) -> dict[str, Any]:
    """Return an entry with the keys of leafgate; keys that leafgate does not have stay."""
    entry: dict[str, Any] = {}
    for key, value in original.items():
        if key not in _READ_KEYS:
            entry.setdefault(_OTHER_NAMES.get(key, key), value)
    command = entry.get("command")
    if isinstance(command, list) and command:  # opencode
        entry |= {"command": command[0], "args": command[1:]}
    elif isinstance(command, Mapping):  # Zed, formerly
        entry |= {**command, "command": command.get("path")}
        entry.pop("path", None)
    options = entry.get("requestOptions")
    if isinstance(options, Mapping) and isinstance(options.get("headers"), Mapping):
        entry["headers"] = entry.pop("requestOptions")["headers"]
    if client == "gemini" and "httpUrl" not in original and "url" in original:
        entry.setdefault("type", "sse")
    if original.get("enabled") is False:
        entry["disabled"] = True
    token, headers = original.get("bearer_token_env_var"), original.get("env_http_headers")
    references = {"Authorization": f"Bearer ${{{token}}}"} if isinstance(token, str) else {}
    references |= {name: f"${{{each}}}" for name, each in headers.items()} if isinstance(headers, Mapping) else {}
    passed = [each for key in ("env_vars", "env_keys") for each in original.get(key) or () if isinstance(each, str)]
    for key, own in (("headers", references), ("env", {name: f"${{{name}}}" for name in passed})):
        if own and isinstance(entry.get(key, {}), Mapping):
            entry[key] = own | dict(entry.get(key) or {})
    return entry


def _reason_to_skip(name: str, original: Mapping[str, Any], entry: Mapping[str, Any]) -> str | None:
    if is_own(name, original):
        return "is leafgate itself"
    for key, kind, shape in (("args", list, "a list"), ("env", dict, "an object"), ("headers", dict, "an object")):
        if not isinstance(entry.get(key), kind | None):
            return f"its {key} is not {shape}"
    command, url = entry.get("command"), entry.get("url")
    if isinstance(command, str) and command:
        return None
    if not isinstance(url, str) or not url.startswith(("http://", "https://", "${")):
        return "has neither a command nor an http URL"
    return next((f"the client signs in for it ({key})" for key in _SIGN_IN_KEYS if entry.get(key)), None)


def _entry(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    keys = _SERVER_KEYS.difference(_TRANSPORT_KEYS)
    server = {key: value for key, value in entry.items() if key in keys and value not in (None, {}, [])}
    if "command" in server:
        server = {key: value for key, value in server.items() if key not in ("url", "headers")}
        words = [server["command"], *(server.get("args") or ())]
        if "cwd" not in server and any(str(word).startswith(("./", "../", ".\\", "..\\")) for word in words):
            server["cwd"] = str(folder)  # where the client starts its servers
    else:
        server = {key: value for key, value in server.items() if key not in _COMMAND_KEYS}
        if str(entry.get("type", entry.get("transport"))) == "sse":
            server["type"] = "sse"
    if isinstance(server.get("envFile"), str) and not server["envFile"].startswith(("~", "$")):
        server["envFile"] = str(folder / server["envFile"])
    if isinstance(server.get("timeout"), int | float) and server["timeout"] >= MILLISECONDS_FROM:
        server["timeout"] /= 1000
    return server


def _map_strings(value: Any, change: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _map_strings(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_map_strings(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def _with_our_variables(text: str, folder: Path, client: str | None) -> str:
    """Write references as leafgate does. The folder is filled in now: leafgate.yaml may be in another one."""
    text = _OTHER_REFERENCES.sub(lambda match: f"${{{match[1] or match[2]}}}", text)
    if client == "gemini":
        text = _SHELL_VARIABLE.sub(r"${\1}", text)
    return text.replace("${workspaceFolder}", str(folder)).replace("${workspaceFolderBasename}", folder.name)


def _separate_namespaces(servers: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Give separate namespaces to servers whose names normalize to the same one."""
    namespaces = {normalize_namespace(name) for name in servers}
    own: dict[str, str] = {}
    for namespace, names in clashing_namespaces(servers).items():
        for name in names[1:]:
            free = (f"{namespace}-{number}" for number in range(2, len(servers) + 3))
            own[name] = next(each for each in free if each not in namespaces)
            namespaces.add(own[name])
    return {name: {**entry, "namespace": own[name]} if name in own else entry for name, entry in servers.items()}


def is_same_server(ours: Mapping[str, Any], imported: Mapping[str, Any]) -> bool:
    """Return whether an entry of a configuration starts or reaches the same server as an imported one.

    A reference in the configuration stands for any text.
    """
    words = [_words(entry) for entry in (ours, imported)]
    if len(words[0]) != len(words[1]) or not words[0]:
        return False
    patterns = (".*".join(map(re.escape, _REFERENCE.split(word))) for word in words[0])
    return all(
        word == text or re.fullmatch(pattern, text, re.DOTALL) is not None
        for word, text, pattern in zip(*words, patterns, strict=True)
    )


def _words(entry: Mapping[str, Any]) -> list[str]:
    if "url" in entry:
        return ["url", str(entry["url"])]
    args = entry.get("args")
    return [str(entry.get("command", "")), *map(str, args if isinstance(args, list) else ())]


# What the client passes to leafgate


def needed_variables(document: Any) -> list[str]:
    """Return the environment variables that the texts of a document refer to, without those that have a default."""
    names = (name for text in strings_in(document) for name in _VARIABLE.findall(text))
    return [*dict.fromkeys(name for name in names if name not in CLIENT_VARIABLES)]


def passed_variables(
    client: str | None, servers: Mapping[str, Mapping[str, Any]], values: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the `env` of leafgate's entry in a client's file, and the variables that the client cannot pass.

    A variable gets its value from `values`, or else a reference that the client fills in; it is empty where the client
    passes variables on by their names.
    """
    reference, by_name = (CLIENTS[client].variable, CLIENTS[client].passes) if client else ("", "")
    env = {name: values.get(name, reference.replace("NAME", name)) for name in needed_variables(servers)}
    if client == "vscode":
        names = [name for text in strings_in(servers) for name in _INPUT.findall(text)]
        env |= {input_variable(name): f"${{input:{name}}}" for name in names}
    missing = [] if by_name else [name for name, value in env.items() if not value]
    return {name: value for name, value in env.items() if name not in missing}, missing


def taken_over(
    entries: Mapping[str, Mapping[str, Any]], ours: Collection[Mapping[str, Any]], folder: Path, client: str
) -> list[str]:
    """Return the names of a client's entries that leafgate itself or one of our servers stands for."""
    imported = import_servers(entries, folder, client).servers
    same = [name for name, entry in imported.items() if any(is_same_server(each, entry) for each in ours)]
    return [*same, *(name for name, entry in entries.items() if is_own(name, entry))]
