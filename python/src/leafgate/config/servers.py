"""The servers of a configuration. In: the block as clients keep it, then as it was checked. Out: ServerSpecs.

Knows what Claude Desktop, Claude Code, VS Code and Cursor put into it. Touches the `envFile` that a server names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from leafgate.config.document import Document
from leafgate.config.env_file import parse_env_file
from leafgate.config.keys import DAY
from leafgate.config.problem import Problem, show_path
from leafgate.config.small_file import Unreadable, read_small_file
from leafgate.upstream.server_spec import HttpServer, ServerSpec, StdioServer

BLOCKS: Final = ("mcpServers", "servers")
# From here on, a timeout in a client's own file is taken for milliseconds: Claude Code's are, and none is so long.
_MILLISECONDS_FROM: Final = 1_000
_MILLISECONDS_TO: Final = DAY * 1_000


@dataclass(frozen=True)
class ReadServers:
    """The servers, what is wrong with their files, and the files that were read."""

    servers: tuple[ServerSpec, ...]
    problems: tuple[Problem, ...]
    files: tuple[Path, ...]


def is_client_file(document: Document) -> bool:
    """Whether this is a client's own file, in which keys for that client are to be expected.

    A JSON file with servers is, unless its name or its `$schema` says that it is for leafgate.
    """
    schema = document.value.get("$schema")
    own = document.path.name.startswith("leafgate") or (isinstance(schema, str) and "leafgate" in schema)
    return document.format == "json" and not own and any(name in document.value for name in BLOCKS)


def block_name(value: Mapping[str, Any]) -> str:
    return next((name for name in BLOCKS if name in value), BLOCKS[0])


def in_seconds(document: Document) -> tuple[Document, tuple[str, ...]]:
    """A client's own document with all timeouts in seconds, and notices of those that were not."""
    notices: list[str] = []
    value = dict(document.value)
    for name in BLOCKS:
        block = value.get(name)
        for label, spec in block.items() if isinstance(block, dict) else ():
            if _in_milliseconds(spec):
                value[name] = {**value[name], label: {**spec, "timeout": spec["timeout"] / 1000}}
                notices.append(f"{document.path}: {show_path((name, label, 'timeout'))}: taken for milliseconds")
    return replace(document, value=value), tuple(notices)


def _in_milliseconds(spec: object) -> bool:
    timeout = spec.get("timeout") if isinstance(spec, dict) else None
    return isinstance(timeout, int | float) and _MILLISECONDS_FROM <= timeout <= _MILLISECONDS_TO


def read_servers(document: Document, checked: Mapping[str, Any]) -> ReadServers:
    """The servers of a checked document."""
    name = block_name(checked)
    servers: list[ServerSpec] = []
    problems: list[Problem] = []
    files: list[Path] = []
    for label, spec in checked.get(name, {}).items():
        variables: dict[str, str] = {}
        if "envFile" in spec:
            files.append(spec["envFile"])
            variables, wrong = _env_file(spec["envFile"])
            problems.extend(document.problem((name, label, "envFile"), what) for what in wrong)
        servers.append(_server(label, spec, variables))
    return ReadServers(tuple(servers), tuple(problems), tuple(files))


def _server(name: str, spec: Mapping[str, Any], variables: Mapping[str, str]) -> ServerSpec:
    return ServerSpec(
        name=name,
        reach=_reach(spec, variables),
        timeout=spec["timeout"],
        start_timeout=spec["start_timeout"],
        namespace=spec.get("namespace"),
        include=tuple(spec["include"]),
        exclude=tuple(spec["exclude"]),
        concurrency=spec.get("concurrency"),
        required=spec["required"],
    )


def _reach(spec: Mapping[str, Any], variables: Mapping[str, str]) -> StdioServer | HttpServer:
    if "command" in spec:
        env = {**variables, **spec.get("env", {})}
        return StdioServer(spec["command"], tuple(spec["args"]), env, spec.get("cwd"))
    kind = spec.get("type", spec.get("transport"))
    return HttpServer(spec["url"], spec.get("headers", {}), "sse" if kind == "sse" else "http")


def _env_file(path: Path) -> tuple[dict[str, str], list[str]]:
    try:
        found, bad = parse_env_file(read_small_file(path))
    except Unreadable as unreadable:
        return {}, [f"the file {unreadable}"]
    return found, [f"line {number} of the file is not NAME=value" for number in bad]
