"""`leafgate token`: make tokens for clients, and the hashes that a configuration holds. In: a name. Out: both, once.

Touches the system's randomness and standard streams. Nothing is stored: what is printed is all there is.
"""

from __future__ import annotations

import json
import sys

import click

from leafgate.model.errors import ConfigError
from leafgate.model.principal import is_principal_name
from leafgate.server.auth.bearer_tokens import hash_secret, new_token

MIN_SECRET = 12


@click.group()
def command() -> None:
    """Make bearer tokens for clients that come in over HTTP."""


@command.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, help="A scope that the token has; may be given more than once.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def new(name: str, scopes: tuple[str, ...], as_json: bool) -> None:
    """Make a token for the principal NAME.

    The token is shown now and never again; the configuration gets its hash, which opens nothing.
    """
    if not is_principal_name(name) or name == "*":
        raise ConfigError("NAME: a name that can be printed, of at most 256 characters")
    token = new_token()
    entry = _entry(name, hash_secret(token), scopes)
    if as_json:
        click.echo(json.dumps({"token": token, "entry": entry}))
        return
    click.echo(token)
    click.echo(
        "\nThe token above goes to the client, as `Authorization: Bearer ...`, and is not shown again.", err=True
    )
    click.echo("This goes into leafgate.yaml, under auth.tokens:\n", err=True)
    click.echo(f"- {_yaml(entry)}", err=True)


@command.command("hash")
@click.option("--name", default="NAME", help="The principal that it stands for.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def hash_chosen(name: str, as_json: bool) -> None:
    """Hash a secret that you have chosen yourself: asked for on a terminal, or the first line of standard input."""
    secret = click.prompt("Secret", hide_input=True, confirmation_prompt=True) if sys.stdin.isatty() else _first_line()
    if len(secret) < MIN_SECRET or not secret.isprintable() or " " in secret or not secret.isascii():
        raise ConfigError(f"a secret has {MIN_SECRET} characters or more, printable ASCII without spaces")
    entry = _entry(name, hash_secret(secret), ())
    click.echo(json.dumps({"entry": entry}) if as_json else f"- {_yaml(entry)}")


def _first_line() -> str:
    return sys.stdin.readline().rstrip("\r\n")


def _entry(name: str, hashed: str, scopes: tuple[str, ...]) -> dict[str, object]:
    return {"name": name, "hash": hashed} | ({"scopes": [*scopes]} if scopes else {})


def _yaml(entry: dict[str, object]) -> str:
    """A flow mapping: JSON is YAML, whatever the name holds."""
    return json.dumps(entry, ensure_ascii=False)
