"""`leafgate add`: add a server to leafgate.yaml from its `server.json`, as the MCP registry publishes it.

The file is foreign: its texts are never filled in as variables, only the known runner of a package type is started,
and the entry is shown before it is written. Values that a user must choose become references to the environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import httpx2

from leafgate.cli.client_files import is_blank, read_text
from leafgate.cli.file_change import DRY_RUN_OPTION, YES_OPTION, FileChange, apply_all, confirm
from leafgate.cli.json_lines import AS_JSON_OPTION, print_json
from leafgate.cli.text_edit import edit_members
from leafgate.config.document import FORMATS, document_of
from leafgate.config.kinds import SECURE_URL
from leafgate.config.models import USUAL_CONFIG
from leafgate.model.errors import ConfigError
from leafgate.model.tool import normalize_namespace

MAX_BYTES: Final = 1024 * 1024
SECONDS: Final = 20.0

# How a package of each type is started: the runners that a file may ask for, and the words before the package.
_RUNNERS: Final[Mapping[str, tuple[Mapping[str, Sequence[str]], str]]] = {
    "npm": ({"npx": ["-y"], "bunx": []}, "@"),
    "pypi": ({"uvx": [], "pipx": ["run"]}, "=="),
    "oci": ({"docker": ["run", "-i", "--rm"], "podman": ["run", "-i", "--rm"]}, ":"),
    "nuget": ({"dnx": ["--yes"]}, "@"),
}
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


class _Unusable(Exception):
    """A package or remote cannot be used; the message says why."""


@dataclass
class _Needs:
    """The environment variables that an entry refers to, each with its description and whether it is a secret."""

    variables: dict[str, dict[str, Any]] = field(default_factory=dict)

    def reference(self, name: str, described: Mapping[str, Any]) -> str:
        variable = re.sub(r"\W+", "_", name).strip("_").upper() or "VALUE"
        about = {"description": str(described.get("description", "")), "secret": described.get("isSecret") is True}
        self.variables.setdefault(variable, about)
        return f"${{{variable}}}"


@click.command()
@click.argument("source", metavar="FILE|URL")
@click.option("--config", "config", type=click.Path(dir_okay=False, path_type=Path), default=USUAL_CONFIG,
              show_default=True, help="The configuration to add it to; it is created if missing.")  # fmt: skip
@click.option("--name", help="The name of the server. [default: the last part of its own]")
@click.option("--remote", is_flag=True, help="Use a server that runs elsewhere, if the file has one beside packages.")
@click.option("--force", is_flag=True, help="Replace a server of this name.")
@YES_OPTION
@DRY_RUN_OPTION
@AS_JSON_OPTION
def command(
    *,
    source: str,
    config: Path,
    name: str | None,
    remote: bool,
    force: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Add the server that a server.json of the MCP registry describes to leafgate.yaml.

    Packages of npm, PyPI, NuGet and container images are started by npx, uvx, dnx and docker, which download them when
    the gateway starts. Secrets, and values that only you know, become references such as ${API_KEY}: they are listed.

    \b
    leafgate add server.json
    leafgate add https://registry.example/v0/servers/io.github.ann%2Fweather/versions/latest --name weather
    """
    server = _read(source)
    name = name or normalize_namespace(str(server.get("name", "")).rpartition("/")[2])
    needs = _Needs()
    entry, notices = _choose(server, needs, prefer_remote=remote)
    change = _change(config, name, entry, force=force)
    done = confirm(change, yes=yes, dry_run=dry_run, quiet=as_json)
    backup = apply_all([change], datetime.now(UTC))[0] if done else None
    if as_json:
        report = {"name": name, "entry": entry, "variables": needs.variables, "notices": notices}
        print_json({**report, "config": str(config), "changed": done, "backup": backup and str(backup)})
        return
    for notice in notices:
        click.echo(f"leafgate: {notice}", err=True)
    for variable, about in needs.variables.items():
        kind = " (a secret)" if about["secret"] else ""
        click.echo(f"needs the variable {variable}{kind}{': ' * bool(about['description'])}{about['description']}")
    if not done:
        click.echo("Nothing was written.")
        return
    click.echo(f"{config} has the server {name} now." + (f" The previous content is in {backup}" if backup else ""))
    click.echo(f"next: {'set the variables, then ' * bool(needs.variables)}leafgate doctor --config {config}")


def _read(source: str) -> Mapping[str, Any]:
    document = _parse(_fetch(source) if "://" in source else read_text(Path(source)), source)
    server = document.get("server")  # the answer of a registry has the status beside it
    meta = document.get("_meta")
    official = meta.get("io.modelcontextprotocol.registry/official") if isinstance(meta, Mapping) else None
    status = official.get("status") if isinstance(official, Mapping) else document.get("status")
    if status == "deleted":
        raise ConfigError(f"{source}: its publisher deleted this server")
    return server if isinstance(server, Mapping) else document


def _fetch(url: str) -> str:
    if re.fullmatch(SECURE_URL.schema["pattern"], url) is None:
        raise ConfigError(f"{url}: needs to be {SECURE_URL.hint}")
    raw = b""
    try:
        with httpx2.stream("GET", url, timeout=SECONDS, headers={"Accept": "application/json"}) as answer:
            if answer.status_code != 200:
                raise ConfigError(f"{url}: answers with HTTP {answer.status_code}")
            for chunk in answer.iter_bytes():
                raw += chunk
                if len(raw) > MAX_BYTES:
                    raise ConfigError(f"{url}: larger than {MAX_BYTES} bytes")
        return raw.decode()
    except httpx2.HTTPError as error:
        raise ConfigError(f"{url}: cannot be fetched ({type(error).__name__})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{url}: not UTF-8 text") from None


def _parse(text: str, source: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(f"{source}: not JSON") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{source}: not a server.json: its content is not an object")
    return document


def _choose(server: Mapping[str, Any], needs: _Needs, *, prefer_remote: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the entry of the first package or remote that can be used, and notices about it."""
    ways = [("package", each) for each in _objects(server, "packages")]
    remotes = [("remote", each) for each in _objects(server, "remotes")]
    reasons = []
    for kind, each in [*remotes, *ways] if prefer_remote else [*ways, *remotes]:
        try:
            entry = _package(each, needs) if kind == "package" else _remote(each, needs)
        except _Unusable as unusable:
            reasons.append(f"{kind} {each.get('identifier', each.get('url', ''))}: {unusable}")
            needs.variables.clear()
            continue
        base = each.get("registryBaseUrl")
        notice = f"the file names the registry {base}; {entry.get('command')} uses the one that is configured for it"
        return entry, [notice] if base else []
    raise ConfigError("no way to run this server: " + ("; ".join(reasons) or "it has neither packages nor remotes"))


def _package(package: Mapping[str, Any], needs: _Needs) -> dict[str, Any]:
    kind, identifier = str(package.get("registryType")), package.get("identifier")
    if kind not in _RUNNERS:
        raise _Unusable(f"a package of type {kind} cannot be run; {', '.join(_RUNNERS)} can")
    if not isinstance(identifier, str) or not identifier or identifier.startswith("-"):
        raise _Unusable("it has no identifier")
    transport = package.get("transport")
    transport = transport.get("type", "stdio") if isinstance(transport, Mapping) else "stdio"
    if transport != "stdio":
        raise _Unusable(f"it serves {transport} itself; start it, and add its url to the configuration")
    runners, joint = _RUNNERS[kind]
    runner = package.get("runtimeHint") or next(iter(runners))
    if runner not in runners:
        raise _Unusable(f"{runner} does not run packages of type {kind}; {' or '.join(runners)} does")
    version = package.get("version")
    is_tagged = kind == "oci" and ("@" in identifier or ":" in identifier.rpartition("/")[2])
    suffix = f"{joint}{version}" if isinstance(version, str) and version and not is_tagged else ""
    env = dict(_named_values(package, "environmentVariables", needs))
    words = [*runners[runner], *_arguments(package, "runtimeArguments", needs)]
    if kind == "oci":  # a container sees only what is passed
        words += [word for variable in env for word in ("-e", variable)]
    args = [*words, _literal(identifier + suffix), *_arguments(package, "packageArguments", needs)]
    return {"command": runner, "args": args} | ({"env": env} if env else {})


def _remote(remote: Mapping[str, Any], needs: _Needs) -> dict[str, Any]:
    kind, url = remote.get("type"), remote.get("url")
    if kind not in ("streamable-http", "sse"):
        raise _Unusable(f"its transport {kind} is not streamable-http or sse")
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        raise _Unusable("it has no http URL")
    headers = dict(_named_values(remote, "headers", needs))
    entry: dict[str, Any] = {"url": _filled(url, remote, needs)} | ({"type": "sse"} if kind == "sse" else {})
    return entry | ({"headers": headers} if headers else {})


def _arguments(package: Mapping[str, Any], key: str, needs: _Needs) -> Iterator[str]:
    for argument in _objects(package, key):
        name = argument.get("name")
        is_named = argument.get("type") == "named" and isinstance(name, str)
        value = _value(argument, str(name if is_named else argument.get("valueHint", "argument")), needs)
        if is_named and argument.get("format") == "boolean" and value in ("true", "false", None):
            yield from [_literal(str(name))] if value != "false" and (value or argument.get("isRequired")) else []
        elif value is not None:
            yield from [_literal(str(name)), value] if is_named else [value]


def _named_values(holder: Mapping[str, Any], key: str, needs: _Needs) -> Iterator[tuple[str, str]]:
    for each in _objects(holder, key):
        name = each.get("name")
        value = _value(each, name, needs) if isinstance(name, str) and name else None
        if value is not None:
            yield str(name), value


def _value(described: Mapping[str, Any], name: str, needs: _Needs) -> str | None:
    """Return a value, a reference where the user must choose it, or None where it may be left out."""
    if isinstance(described.get("value"), str):
        return _filled(described["value"], described, needs)
    default = described.get("default")
    if isinstance(default, str | int | float) and described.get("isSecret") is not True:
        return _literal(str(default).lower() if isinstance(default, bool) else str(default))
    needs_one = described.get("isRequired") is True or described.get("isSecret") is True
    return needs.reference(name, described) if needs_one else None


def _filled(text: str, described: Mapping[str, Any], needs: _Needs) -> str:
    """Fill the `{name}` in a text that the file describes as variables."""
    variables = described.get("variables")
    variables = variables if isinstance(variables, Mapping) else {}

    def fill(match: re.Match[str]) -> str:
        variable = variables.get(match[1])
        if not isinstance(variable, Mapping):
            return match[0]
        return _value({"isRequired": True, **variable}, match[1], needs) or ""

    return _PLACEHOLDER.sub(fill, _literal(text))


def _literal(text: str) -> str:
    """Return a text of the file such that leafgate.yaml takes it as it is: only we make references."""
    return text.replace("${", "$${")


def _objects(holder: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = holder.get(key)
    return [each for each in entries if isinstance(each, Mapping)] if isinstance(entries, list) else []


def _change(config: Path, name: str, entry: Mapping[str, Any], *, force: bool) -> FileChange:
    kind = FORMATS.get(config.suffix.lower(), "yaml")
    path = config.resolve()
    before = read_text(path) if path.exists() else None
    text = "" if before is None else before
    value = {} if is_blank(text) else document_of(path, kind, text).value
    key = "servers" if value.get("servers") and not value.get("mcpServers") else "mcpServers"
    if not force and isinstance(value.get(key), dict) and name in value[key]:
        raise ConfigError(f"{config}: already has a server {name}; --name gives another name, --force replaces it")
    text = "{}\n" if kind == "json" and is_blank(text) else text
    return FileChange(path, before, edit_members(text, kind, (key,), put={name: entry}), private=before is None)
