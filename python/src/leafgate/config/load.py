"""A file becomes a Config. In: a path and an environment. Out: a Config, or a ConfigFileError with all that is wrong.

Touches the file and those that it names by `${file:...}` or `envFile`. The same files and environment always give the
same Config, so that a running gateway can load again and compare.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from leafgate.config.check import check
from leafgate.config.document import Document, load_document
from leafgate.config.keys import TOP
from leafgate.config.problem import ConfigFileError
from leafgate.config.rules import broken_rules
from leafgate.config.servers import block_name, in_seconds, is_client_file, read_servers
from leafgate.config.settings import CONTROL_KEYS, Config
from leafgate.config.variables import Variables
from leafgate.model.mode import ExposureMode


def load_config(path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in this file; the environment is the process's own unless another is given."""
    return config_of(load_document(path), os.environ if environ is None else environ)


def config_of(document: Document, environ: Mapping[str, str]) -> Config:
    """The configuration in a document that was read before."""
    client_file = is_client_file(document)
    document, notices = in_seconds(document) if client_file else (document, ())
    variables = Variables(environ, document.path.parent, _input_defaults(document.value.get("inputs")))
    checked = check(document, variables, client_file=client_file)
    if checked.problems:
        raise ConfigFileError(document.path, checked.problems)
    value = checked.value
    found = read_servers(document, value)
    broken = [document.problem(path, what) for path, what in broken_rules(value, found.servers)]
    if found.problems or broken:
        raise ConfigFileError(document.path, [*found.problems, *broken])
    labels = {server.name: server.label for server in found.servers}
    same_names: dict[str, Any] = {
        each.name: value.get(each.name) for each in fields(Config) if each.name in TOP.by_name
    }
    return replace(
        Config(**same_names),
        servers=found.servers,
        allowed_hosts=tuple(value["allowed_hosts"]),
        allowed_origins=tuple(value["allowed_origins"]),
        mode=ExposureMode(value["mode"]),
        hold_drift=value["on_drift"] == "hold",
        hold_risk=value["on_risk"] == "hold",
        sanitize_by_server=_by_server(value, labels, "sanitize"),
        check_by_server=_by_server(value, labels, "check"),
        state=_beside(document.path.parent, value["state"]),
        controls={key: value[key] for key in CONTROL_KEYS if key in document.value},
        notices=(*checked.notices, *notices),
        files=tuple(dict.fromkeys((document.path, *checked.files, *found.files))),
    )


def _by_server(value: Mapping[str, Any], labels: Mapping[str, str], key: str) -> dict[str, Any]:
    """What servers say for themselves, by the names under which their tools appear."""
    block = value.get(block_name(value), {})
    return {labels[name]: spec[key] for name, spec in block.items() if key in spec}


def _beside(folder: Path, state: str) -> str:
    """A file of state is named relative to the file that names it, as all files are."""
    kind, _, path = state.partition(":")
    return f"sqlite:{folder / path}" if kind == "sqlite" else state


def _input_defaults(inputs: object) -> dict[str, str]:
    listed = inputs if isinstance(inputs, list) else []
    return {
        entry["id"]: entry["default"]
        for entry in listed
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and isinstance(entry.get("default"), str)
    }
