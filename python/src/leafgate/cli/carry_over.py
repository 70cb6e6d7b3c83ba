"""The servers of a client's file as leafgate's own. In: its entries, and the folder they are meant from. Out: entries.

Touches nothing. What only the client understands is left out, and told in a notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leafgate.cli.own_entry import is_own
from leafgate.config.keys import TOP
from leafgate.config.kinds import MapOf, Section
from leafgate.config.variables import input_variable
from leafgate.model.tool_id import clashing_namespaces, normalize_namespace

MILLISECONDS_FROM: Final = 1_000  # a longer timeout in a client's file is none in seconds

_SAID_OTHERWISE: Final = ("type", "transport")
_OF_COMMANDS: Final = ("args", "env", "envFile", "cwd")
_INPUT: Final = re.compile(r"\$\{input:([^}]+)\}")


@dataclass(frozen=True)
class Carried:
    """Entries for a leafgate.yaml, what a person should know of them, and the variables that they ask for."""

    servers: Mapping[str, Mapping[str, Any]]
    notices: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


def carry_over(entries: Mapping[str, Mapping[str, Any]], folder: Path) -> Carried:
    """Every server that leafgate can stand in front of."""
    servers: dict[str, Mapping[str, Any]] = {}
    notices: list[str] = []
    for name, entry in entries.items():
        reason = _passed_over(name, entry)
        if reason is not None:
            notices.append(f"{name}: {reason}, passed over")
            continue
        left_out = [key for key in entry if key not in _known_keys()]
        if left_out:
            notices.append(f"{name}: only for the client, not carried over: {', '.join(left_out)}")
        servers[name] = _with_folder(_entry(entry, folder), folder)
    asked = dict.fromkeys(input_variable(name) for text in _strings(servers) for name in _INPUT.findall(text))
    return Carried(_apart(servers), tuple(notices), tuple(asked))


def _known_keys() -> frozenset[str]:
    block = TOP.by_name["mcpServers"].kind
    assert isinstance(block, MapOf)
    assert isinstance(block.value, Section)
    return frozenset(block.value.by_name)


def _passed_over(name: str, entry: Mapping[str, Any]) -> str | None:
    if is_own(name, entry):
        return "is leafgate itself"
    for key, kind, told in (("args", list, "a list"), ("env", dict, "an object"), ("headers", dict, "an object")):
        if not isinstance(entry.get(key), kind | None):
            return f"its {key} is not {told}"
    command, url = entry.get("command"), entry.get("url")
    if isinstance(command, str) and command:
        return None
    if isinstance(url, str) and url.startswith(("http://", "https://", "${")):
        return None
    return "has neither a command nor an http URL"


def _entry(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    known = _known_keys().difference(_SAID_OTHERWISE)
    kept = {key: value for key, value in entry.items() if key in known and value not in (None, {}, [])}
    if "command" in kept:
        kept = {key: value for key, value in kept.items() if key not in ("url", "headers")}
        if "cwd" not in kept and _is_relative(kept):
            kept["cwd"] = str(folder)  # where the client starts its servers
    else:
        kept = {key: value for key, value in kept.items() if key not in _OF_COMMANDS}
        if str(entry.get("type", entry.get("transport"))) == "sse":
            kept["type"] = "sse"
    if isinstance(kept.get("envFile"), str) and not kept["envFile"].startswith(("~", "$")):
        kept["envFile"] = str(folder / kept["envFile"])
    if isinstance(kept.get("timeout"), int | float) and kept["timeout"] >= MILLISECONDS_FROM:
        kept["timeout"] /= 1000
    return kept


def _is_relative(entry: Mapping[str, Any]) -> bool:
    args = entry.get("args", [])
    words = [entry["command"], *(args if isinstance(args, list) else [])]
    return any(str(word).startswith(("./", "../", ".\\", "..\\")) for word in words)


def _with_folder(value: Any, folder: Path) -> Any:
    """leafgate.yaml may lie elsewhere, so what the client would fill with its folder is filled now."""
    if isinstance(value, Mapping):
        return {key: _with_folder(inner, folder) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_folder(inner, folder) for inner in value]
    if not isinstance(value, str):
        return value
    return value.replace("${workspaceFolder}", str(folder)).replace("${workspaceFolderBasename}", folder.name)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(inner)


def _apart(servers: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Servers whose names differ only in what a namespace cannot hold get namespaces of their own."""
    taken = {normalize_namespace(name) for name in servers}
    own: dict[str, str] = {}
    for namespace, names in clashing_namespaces(servers).items():
        for name in names[1:]:
            free = (f"{namespace}-{number}" for number in range(2, len(servers) + 3))
            own[name] = next(each for each in free if each not in taken)
            taken.add(own[name])
    return {name: {**entry, "namespace": own[name]} if name in own else entry for name, entry in servers.items()}
