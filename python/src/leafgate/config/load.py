"""Turns a configuration file into a Config, or raises a ConfigFileError with everything that is wrong in it.

Reads the file and those that it names by `${file:...}` or `envFile`. The same files and environment always give the
same Config, so that a running gateway can load again and compare. A client's own file (Claude Desktop, Claude Code,
VS Code, Cursor) is translated first: its other settings are ignored with a notice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from leafgate.config.document import ConfigFileError, Document, load_document, nearest, show_path
from leafgate.config.formats import KeyPath
from leafgate.config.kinds import UNKNOWN_KEY, Reading, Section, keys_of
from leafgate.config.models import DAY, USUAL_CONFIG, Config, ConfigFile, EmbedderSettings, Input, Server, Settings
from leafgate.config.reference import suggest_key
from leafgate.config.variables import Unreadable, Variables, parse_env_file, read_small_file
from leafgate.model.rights import is_principal_name
from leafgate.model.tool import normalize_namespace
from leafgate.upstream import HttpServer, ServerSpec, StdioServer

BLOCKS: Final = ("mcpServers", "servers")
# From here on, a timeout in a client's own file is in milliseconds: Claude Code's are, and no other is so long.
MILLISECONDS_FROM: Final = 1_000
_MILLISECONDS_TO: Final = DAY * 1_000
_EMBEDDER_KEYS: Final = {"http": ("url", "model", "headers"), "minilm": ("path",)}
_SPEC_KEYS: Final = ("timeout", "start_timeout", "namespace", "include", "exclude", "concurrency", "required")
_AS_WRITTEN: Final = ("args", "env", "headers")  # here 1.10 is a text that happens to look like a number

Broken = tuple[KeyPath, str]


def find_config(path: Path | None) -> Path | None:
    """Returns the file that was named, or else the `leafgate.yaml` of the working folder, if there is one."""
    return Path(USUAL_CONFIG) if path is None and Path(USUAL_CONFIG).is_file() else path


def load_config(path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Returns the configuration in this file; the environment is the process's unless another is given."""
    return config_of(load_document(path), os.environ if environ is None else environ)


def config_of(document: Document, environ: Mapping[str, str]) -> Config:
    """Returns the configuration in a document that was read before."""
    document = _with_literals(document)
    document, notices = _translate_client_file(document) if is_client_file(document) else (document, ())
    variables = Variables(environ, document.path.parent, input_defaults(document.value.get("inputs")))
    reading = Reading(variables)
    file = _validate(document, reading)
    block, entries = _server_block(file)
    env_files = {name: _read_env_file(server.envFile) for name, server in entries.items() if server.envFile}
    servers = tuple(_spec(name, server, env_files.get(name, ({}, ()))[0]) for name, server in entries.items())
    broken: list[Broken] = [
        ((block, name, "envFile"), what) for name, (_, problems) in env_files.items() for what in problems
    ]
    switched_off = {*document.value.get(block, ())} - {*entries}
    broken += _broken_rules(file, servers, switched_off)
    problems = [document.problem(path, what) for path, what in broken]
    if problems:
        raise ConfigFileError(document.path, problems)
    by_label = {server.label: entries[server.name] for server in servers}
    env_paths = [entries[name].envFile for name in env_files]
    return Config.model_construct(
        **{name: getattr(file, name) for name in Settings.model_fields},
        servers=servers,
        sanitize_by_server={label: each.sanitize for label, each in by_label.items() if each.sanitize is not None},
        check_by_server={label: each.check for label, each in by_label.items() if each.check is not None},
        instructions_by_server={label: each.instructions for label, each in by_label.items() if each.instructions},
        notices=notices,
        files=tuple(dict.fromkeys((document.path, *reading.files, *env_paths))),
    )


def _validate(document: Document, reading: Reading) -> ConfigFile:
    try:
        return ConfigFile.model_validate(document.value, context=reading)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
    problems = []
    for each in errors:
        path, what = each["loc"], each["msg"]
        if each["type"] == UNKNOWN_KEY:
            what = f"unknown key{suggest_key(str(path[-1]), each['ctx']['section'])}"
        problems.append(document.problem(path, what))
    raise ConfigFileError(document.path, problems)


def _with_literals(document: Document) -> Document:
    """The document, with numbers and switches as they were written where only a text makes sense."""
    texts = [
        path
        for path in document.literals
        if len(path) > 1 and path[0] in keys_of(ConfigFile)
        if path[-2] in _AS_WRITTEN or (path[0], path[-1]) == ("inputs", "default")
    ]
    value: Any = {**document.value}
    value |= {name: deepcopy(value[name]) for name in {str(path[0]) for path in texts}}
    for path in texts:
        try:
            holder: Any = reduce(getitem, path[:-1], value)
            if holder[path[-1]] is not None:
                holder[path[-1]] = document.literals[path]
        except KeyError:  # a path through `<<` of YAML, which has been merged into what is around it
            continue
    return replace(document, value=value)


def input_defaults(inputs: object) -> dict[str, str]:
    """The defaults of VS Code's `inputs` by their ids; inputs without one are left out."""
    return {
        entry["id"]: entry["default"]
        for entry in (inputs if isinstance(inputs, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and isinstance(entry.get("default"), str)
    }


# A client's own file


def is_client_file(document: Document) -> bool:
    """Whether this is a client's own file, in which keys for that client are to be expected.

    A JSON file with servers is, unless its name or its `$schema` says that it is for leafgate.
    """
    schema = document.value.get("$schema")
    is_ours = document.path.name.startswith("leafgate") or (isinstance(schema, str) and "leafgate" in schema)
    return document.format == "json" and not is_ours and any(name in document.value for name in BLOCKS)


def _translate_client_file(document: Document) -> tuple[Document, tuple[str, ...]]:
    """The document without keys that are for the client, all timeouts in seconds; and notices of both."""
    ignored: list[str] = []
    converted: list[str] = []

    def without_foreign_keys(value: Any, section: type[Section], at: KeyPath) -> Any:
        if not isinstance(value, dict):
            return value
        needs_one = not any(value.get(name) for name in section.exactly_one)
        lacking = {*section.exactly_one} if needs_one else set()
        keys = [*keys_of(section)]
        # A key that seems to be a misspelling of one that is needed is refused later.
        foreign = [name for name in value if name not in keys and nearest(name, keys) not in lacking]
        if foreign:
            place = ": ".join((str(document.path), *([show_path(at)] if at else [])))
            guesses = ((name, nearest(name, keys)) for name in foreign)
            names = [show_path((name,)) + (f" (did you mean {near}?)" if near else "") for name, near in guesses]
            ignored.append(f"{place}: not for leafgate, ignored: {', '.join(names)}")
        return {name: each for name, each in value.items() if name not in foreign}

    value = without_foreign_keys(document.value, ConfigFile, ())
    for block in BLOCKS:
        entries = value.get(block)
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            if not isinstance(entry, dict) or entry.get("disabled") is True:
                continue
            own = without_foreign_keys(entry, Server, (block, name))
            timeout = own.get("timeout")
            if isinstance(timeout, int | float) and MILLISECONDS_FROM <= timeout <= _MILLISECONDS_TO:
                own["timeout"] = timeout / 1000
                converted.append(f"{document.path}: {show_path((block, name, 'timeout'))}: read as milliseconds")
            value[block] = {**value[block], name: own}
    if isinstance(value.get("inputs"), list):
        places = enumerate(value["inputs"])
        value["inputs"] = [without_foreign_keys(each, Input, ("inputs", place)) for place, each in places]
    return replace(document, value=value), (*ignored, *converted)


# Servers


def _server_block(file: ConfigFile) -> tuple[str, dict[str, Server]]:
    return ("mcpServers", file.mcpServers) if file.mcpServers is not None else ("servers", file.servers or {})


def _spec(name: str, server: Server, variables: Mapping[str, str]) -> ServerSpec:
    reach: StdioServer | HttpServer
    if server.command is not None:
        reach = StdioServer(server.command, server.args, {**variables, **(server.env or {})}, server.cwd)
    else:
        assert server.url is not None  # one of both is there, as Server checks
        kind = server.type or server.transport
        reach = HttpServer(server.url, server.headers or {}, "sse" if kind == "sse" else "http")
    return ServerSpec(name, reach, **{each: getattr(server, each) for each in _SPEC_KEYS})


def _read_env_file(path: Path) -> tuple[dict[str, str], list[str]]:
    """Returns the variables in an `envFile`, and what is wrong with it."""
    try:
        variables, bad = parse_env_file(read_small_file(path))
    except Unreadable as unreadable:
        return {}, [f"the file {unreadable}"]
    return variables, [f"line {number} of the file is not NAME=value" for number in bad]


# Rules between keys, which a JSON Schema cannot express


def _broken_rules(file: ConfigFile, servers: tuple[ServerSpec, ...], switched_off: Iterable[str]) -> Iterator[Broken]:
    block, entries = _server_block(file)
    if file.mcpServers is not None and file.servers is not None:
        yield ("servers",), "mcpServers is given too; put all servers into one of them"
    for name, server in entries.items():
        for key, kind in (("type", server.type), ("transport", server.transport)):
            if kind is not None and (kind == "stdio") != (server.command is not None):
                reach, fitting = ("command", "stdio") if server.command is not None else ("url", "http or sse")
                yield (block, name, key), f"does not fit a server with a {reach}; that is {fitting}"
    yield from _namespaces(block, servers)
    yield from _embedder(file.embedder)
    yield from _flows(file, servers, switched_off)
    for index, pattern in enumerate(file.redact.patterns if file.redact is not None else ()):
        try:
            re.compile(pattern.regex.encode())
        except (re.error, RecursionError, OverflowError) as error:
            reason = f": {error.msg}" if isinstance(error, re.error) else ""
            yield ("redact", "patterns", index, "regex"), f"not a regular expression{reason}"
    names = [token.name for token in file.auth.tokens] if file.auth is not None else []
    for index, name in enumerate(names):
        if name == "*" or not is_principal_name(name):
            yield ("auth", "tokens", index, "name"), "needs to be a name that can be printed, other than *"
        if name in names[:index]:
            yield ("auth", "tokens", index, "name"), "another token has this name; give each its own"


def _namespaces(block: str, servers: tuple[ServerSpec, ...]) -> Iterator[Broken]:
    """Servers are listed by their names: a namespace may have come from the environment."""
    by_namespace: dict[str, list[str]] = {}
    for server in servers:
        by_namespace.setdefault(normalize_namespace(server.label), []).append(server.name)
    for names in by_namespace.values():
        if len(names) > 1:
            yield (block,), f"{' and '.join(names)} would have the same namespace; give each its own namespace"


def _flows(file: ConfigFile, servers: tuple[ServerSpec, ...], switched_off: Iterable[str]) -> Iterator[Broken]:
    """A rule about a server that does not exist would never fit. One about a server that is switched off is fine."""
    if file.policy is None:
        return
    names = sorted({*(server.label for server in servers), *switched_off})
    for index, rule in enumerate(
        file.policy.flows if file.catalog is None else ()
    ):  # a catalog names its servers itself
        for side, glob in (("from", rule.source.server), ("to", rule.to.server)):
            if not any(fnmatchcase(name, glob) for name in names):
                near = nearest(glob, names)
                what = f"no server has this name{f'; did you mean {near}?' if near else ''}"
                yield ("policy", "flows", index, side, "server"), what


def _embedder(embedder: EmbedderSettings | None) -> Iterator[Broken]:
    if embedder is None:
        return
    fitting = _EMBEDDER_KEYS[embedder.kind]
    for name, value in embedder:
        if value is not None and name != "kind" and name not in fitting:
            yield ("embedder", name), f"is not for kind {embedder.kind}, which has {', '.join(fitting)}"
    if embedder.kind == "http" and embedder.url is None:
        yield ("embedder",), "kind http needs a url"
