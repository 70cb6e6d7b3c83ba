"""`leafgate config` and `leafgate token`: check and explain a configuration, and make the tokens whose hashes it holds.

A token is not stored.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from leafgate.cli.json_lines import AS_JSON_OPTION
from leafgate.config.document import ConfigFileError
from leafgate.config.load import load_config
from leafgate.config.reference import reference_text, schema_text
from leafgate.model.errors import ConfigError
from leafgate.model.rights import is_principal_name
from leafgate.server.auth.bearer_tokens import hash_secret, new_token

MIN_SECRET = 12


@click.group()
def command() -> None:
    """Check a configuration file; print its JSON Schema or its reference."""


@command.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@AS_JSON_OPTION
def check(file: Path, as_json: bool) -> None:
    """List every problem in FILE with its line, its key and the fix. Exits 1 if there is one."""
    try:
        config = load_config(file)
    except ConfigFileError as error:
        click.echo(json.dumps(_report(file, problems=error)) if as_json else str(error))
        sys.exit(1)
    names = [server.name for server in config.servers]
    if as_json:
        click.echo(json.dumps({**_report(file), "servers": names, "notices": config.notices}))
        return
    for notice in config.notices:
        click.echo(notice)
    click.echo(f"{file}: valid; servers: {', '.join(names) or 'none'}")


def _report(file: Path, problems: ConfigFileError | None = None) -> dict[str, object]:
    listing = [] if problems is None else [problem.as_json() for problem in problems.problems]
    return {"file": str(file), "ok": problems is None, "problems": listing}


@command.command()
def schema() -> None:
    """Print the JSON Schema of a configuration, for editors."""
    click.echo(schema_text(), nl=False)


@command.command()
def reference() -> None:
    """Print all keys with their values and meaning, as Markdown."""
    click.echo(reference_text(), nl=False)


@click.group()
def token() -> None:
    """Make bearer tokens for clients that connect over HTTP."""


@token.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, help="A scope of the token; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def new(name: str, scopes: tuple[str, ...], as_json: bool) -> None:
    """Make a token for the principal NAME.

    The token is shown only once. The configuration gets its hash, which is not a secret.
    """
    if not is_principal_name(name) or name == "*":
        raise ConfigError("NAME: a printable name of at most 256 characters is needed")
    secret = new_token()
    entry = _entry(name, hash_secret(secret), scopes)
    if as_json:
        click.echo(json.dumps({"token": secret, "entry": entry}))
        return
    click.echo(secret)
    click.echo("\nGive the token above to the client, as `Authorization: Bearer ...`; it is not shown again.", err=True)
    click.echo("Add this to leafgate.yaml, under auth.tokens:\n", err=True)
    click.echo(f"- {_yaml(entry)}", err=True)


@token.command("hash")
@click.option("--name", default="NAME", help="The principal of the token.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def hash_command(name: str, as_json: bool) -> None:
    """Hash a secret of your choice: typed at a prompt, or the first line of standard input."""
    if sys.stdin.isatty():
        secret = click.prompt("Secret", hide_input=True, confirmation_prompt=True)
    else:
        secret = sys.stdin.readline().rstrip("\r\n")
    if len(secret) < MIN_SECRET or not secret.isprintable() or " " in secret or not secret.isascii():
        raise ConfigError(f"a secret needs at least {MIN_SECRET} characters, printable ASCII without spaces")
    entry = _entry(name, hash_secret(secret), ())
    click.echo(json.dumps({"entry": entry}) if as_json else f"- {_yaml(entry)}")


def _entry(name: str, digest: str, scopes: tuple[str, ...]) -> dict[str, object]:
    return {"name": name, "hash": digest} | ({"scopes": [*scopes]} if scopes else {})


def _yaml(entry: dict[str, object]) -> str:
    """Return a YAML flow mapping: JSON is valid YAML, whatever the name contains."""
    return json.dumps(entry, ensure_ascii=False)
