"""`leafgate token`: what is printed is all there is, and the line for the configuration fits the token."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from leafgate.cli.config_command import token as command
from leafgate.model.errors import ConfigError
from leafgate.server.auth.bearer_tokens import read_hash


def run(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(command, [*args], input=stdin)


def fits(entry: dict[str, Any], secret: str) -> bool:
    return read_hash(entry["hash"], "here").fits(secret.encode())


def test_a_new_token_alone_is_on_standard_output() -> None:
    made = run("new", "ann", "--scope", "look", "--scope", "work")
    assert made.exit_code == 0
    token = made.stdout.strip()
    assert "\n" not in token
    line = made.stderr.splitlines()[-1]
    (entry,) = yaml.safe_load(line)
    assert (entry["name"], entry["scopes"]) == ("ann", ["look", "work"])
    assert fits(entry, token)
    assert token not in made.stderr


def test_a_new_token_as_json() -> None:
    made = json.loads(run("new", "ann", "--json").stdout)
    assert made["entry"].keys() == {"name", "hash"}
    assert fits(made["entry"], made["token"])


@pytest.mark.parametrize("name", ["Zoë: #1", "'", '"', "a: b", "null"])
def test_any_name_is_yaml(name: str) -> None:
    (entry,) = yaml.safe_load(run("new", name).stderr.splitlines()[-1])
    assert entry["name"] == name


@pytest.mark.parametrize("name", ["", "*", "a\nb", " a", "x" * 300])
def test_a_bad_name(name: str) -> None:
    refused = run("new", name)
    assert isinstance(refused.exception, ConfigError)
    assert not refused.stdout


def test_a_chosen_secret_is_hashed_and_not_repeated() -> None:
    made = run("hash", "--name", "ann", stdin="correct-horse-battery\n")
    (entry,) = yaml.safe_load(made.stdout)
    assert entry["name"] == "ann"
    assert fits(entry, "correct-horse-battery")
    assert "correct" not in made.output
    assert fits(
        json.loads(run("hash", "--json", stdin="correct-horse-battery").stdout)["entry"], "correct-horse-battery"
    )


@pytest.mark.parametrize("secret", ["", "short", "with spaces in it", "tab\tin-the-middle", "not-ascii-ööö"])
def test_a_secret_that_is_too_easy_or_cannot_be_sent(secret: str) -> None:
    refused = run("hash", stdin=f"{secret}\n")
    assert isinstance(refused.exception, ConfigError)
    assert not secret or secret not in str(refused.exception)
