"""Rules between keys, which a table of single keys cannot say. In: checked values. Out: what is wrong where. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leafgate.config.problem import KeyPath
from leafgate.config.servers import BLOCKS, block_name
from leafgate.model.principal import is_principal_name
from leafgate.model.tool_id import normalize_namespace
from leafgate.upstream.server_spec import ServerSpec

Broken = tuple[KeyPath, str]

_EMBEDDER_KEYS: Final = {"http": ("url", "model", "headers"), "minilm": ("path",)}


def broken_rules(checked: Mapping[str, Any], servers: Sequence[ServerSpec]) -> Iterator[Broken]:
    """Every rule that the values break."""
    yield from _one_block(checked)
    yield from _reach(checked)
    yield from _namespaces(block_name(checked), servers)
    yield from _embedder(checked.get("embedder", {}))
    yield from _patterns(checked.get("redact", {}))
    yield from _token_names(checked.get("auth", {}))


def _one_block(checked: Mapping[str, Any]) -> Iterator[Broken]:
    if all(name in checked for name in BLOCKS):
        yield ("servers",), "mcpServers is given too; put all servers into one of them"


def _reach(checked: Mapping[str, Any]) -> Iterator[Broken]:
    block = block_name(checked)
    for name, spec in checked.get(block, {}).items():
        for key in ("type", "transport"):
            if key in spec and (spec[key] == "stdio") != ("command" in spec):
                reach, fitting = ("command", "stdio") if "command" in spec else ("url", "http or sse")
                yield (block, name, key), f"does not fit a server with a {reach}; that is {fitting}"


def _namespaces(block: str, servers: Sequence[ServerSpec]) -> Iterator[Broken]:
    """Servers are told by their names: a namespace may have come from the environment."""
    by_namespace: dict[str, list[str]] = {}
    for server in servers:
        by_namespace.setdefault(normalize_namespace(server.label), []).append(server.name)
    for names in by_namespace.values():
        if len(names) > 1:
            yield (block,), f"{' and '.join(names)} would have the same namespace; give each a namespace of its own"


def _embedder(embedder: Mapping[str, Any]) -> Iterator[Broken]:
    if not embedder:
        return
    fitting = _EMBEDDER_KEYS[embedder["kind"]]
    for key in embedder:
        if key != "kind" and key not in fitting:
            yield ("embedder", key), f"is not for kind {embedder['kind']}, which takes {', '.join(fitting)}"
    if embedder["kind"] == "http" and "url" not in embedder:
        yield ("embedder",), "kind http needs a url"


def _patterns(redact: Mapping[str, Any]) -> Iterator[Broken]:
    for index, pattern in enumerate(redact.get("patterns", [])):
        try:
            re.compile(pattern["regex"].encode())
        except (re.error, RecursionError, OverflowError) as error:
            told = f": {error.msg}" if isinstance(error, re.error) else ""
            yield ("redact", "patterns", index, "regex"), f"not a regular expression{told}"


def _token_names(auth: Mapping[str, Any]) -> Iterator[Broken]:
    seen: set[str] = set()
    for index, token in enumerate(auth.get("tokens", [])):
        if token["name"] == "*" or not is_principal_name(token["name"]):
            yield ("auth", "tokens", index, "name"), "needs to be a name that can be printed, other than *"
        if token["name"] in seen:
            yield ("auth", "tokens", index, "name"), "another token has this name; give each its own"
        seen.add(token["name"])
