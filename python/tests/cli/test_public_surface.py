"""The lists that users rely on, frozen: commands with their options, routes, metrics, configuration keys, public names.

`data/surface.json` holds the lists of the version before the code was reorganised. Everything in it must stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx2
import pytest
from click.testing import CliRunner
from command_line import gateway

import leafgate
from leafgate.cli.main import cli

FROZEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "surface.json").read_text(encoding="utf-8"))
AUTH = {"jwt": {"issuer": "https://issuer.example", "audience": "leafgate", "jwks": "keys.json"}}


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, list[str]]]:
    """Every command with its arguments and options."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
            continue
        words = [
            word
            for param in command.params
            for word in (param.opts if isinstance(param, click.Option) else [f"<{param.name}>"])
        ]
        yield f"{before}{name}", sorted(words)


def config_keys() -> set[str]:
    """Every key that the JSON Schema of a configuration describes, as a dotted path."""
    schema = json.loads(CliRunner().invoke(cli, ["config", "schema"]).stdout)
    return {*_keys(schema, schema, "", ())}


def _keys(schema: Any, root: dict[str, Any], path: str, through: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in through:
        target: Any = root
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        yield from _keys(target, root, path, (*through, reference))
    choices = [part for choice in ("anyOf", "oneOf", "allOf") for part in schema.get(choice, ())]
    for part in (*choices, schema.get("then"), schema.get("else")):
        yield from _keys(part, root, path, through)
    for name, inner in schema.get("properties", {}).items():
        if inner is False:
            continue
        yield f"{path}{name}"
        yield from _keys(inner, root, f"{path}{name}.", through)
    for inner in (schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()):
        yield from _keys(inner, root, f"{path}*.", through)
    yield from _keys(schema.get("items"), root, path, through)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with gateway() as address:
        yield address


def test_commands_keep_their_arguments_and_options() -> None:
    now = dict(commands(cli))
    for name, words in FROZEN["commands"].items():
        assert {*words} <= {*now[name]}, name


def test_configuration_keys_stay() -> None:
    assert not {*FROZEN["config_keys"]} - config_keys()


def test_public_names_stay() -> None:
    assert not {*FROZEN["public_names"]} - {*dir(leafgate)}
    assert all(hasattr(leafgate, name) for name in FROZEN["public_names"])


def test_metrics_stay(url: str) -> None:
    page = httpx2.get(f"{url}/metrics").text
    assert not {*FROZEN["metrics"]} - {*re.findall(r"^# TYPE (\S+ \S+)$", page, re.MULTILINE)}


@pytest.mark.parametrize("path", FROZEN["routes"])
def test_routes_stay(url: str, path: str) -> None:
    assert httpx2.get(f"{url}{path}").status_code != 404


def test_routes_of_a_gateway_with_auth_on_the_older_transport_stay(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"keys": []}', encoding="utf-8")
    config = tmp_path / "leafgate.json"
    (tmp_path / "tools.json").write_text('{"tools": []}', encoding="utf-8")
    config.write_text(json.dumps({"catalog": "tools.json", "auth": AUTH}), encoding="utf-8")
    with gateway("--transport", "sse", "--config", str(config)) as url:
        for path in FROZEN["metadata_routes"]:
            assert httpx2.get(f"{url}{path}").json()["authorization_servers"] == ["https://issuer.example"]
        for path in FROZEN["sse_routes"]:
            assert httpx2.post(f"{url}{path}").status_code == 401
