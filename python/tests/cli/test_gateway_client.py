"""Clients of a gateway that wants a token: without one, with a wrong one, with the right one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from command_line import Person, gateway, somebody
from warm_python import PYTHON

from leafgate.cli.gateway_client import root_of, token_headers


@dataclass(frozen=True)
class Guarded:
    """A gateway with authentication, and a token that it knows."""

    url: str
    token: str


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return somebody(tmp_path_factory.mktemp("ada"))


@pytest.fixture(scope="module")
def guarded(ada: Person) -> Iterator[Guarded]:
    made = json.loads(ada.runs("token", "new", "ada", "--json").out)
    notes = {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]}
    file = ada.folder / "leafgate.json"
    file.write_text(json.dumps({"mcpServers": {"notes": notes}, "auth": {"tokens": [made["entry"]]}}))
    with gateway("--config", str(file)) as url:
        yield Guarded(url, made["token"])


WAYS = [("call", "tool_browse", "query=notes"), ("status",), ("doctor",)]


@pytest.mark.parametrize("words", WAYS)
@pytest.mark.parametrize("token", ["", "not-a-token-that-it-knows"])
def test_who_has_no_token_is_told_where_to_put_one(
    ada: Person, guarded: Guarded, words: tuple[str, ...], token: str
) -> None:
    ran = ada.runs(*words, "--url", guarded.url, env={"LEAFGATE_TOKEN": token})
    assert ran.code == (1 if words == ("doctor",) else 2)
    assert "LEAFGATE_TOKEN" in ran.said
    assert "Traceback" not in ran.err
    assert not token or token not in ran.said


@pytest.mark.parametrize("words", WAYS)
def test_the_right_token_opens(ada: Person, guarded: Guarded, words: tuple[str, ...]) -> None:
    ran = ada.runs(*words, "--url", guarded.url, env={"LEAFGATE_TOKEN": guarded.token})
    assert ran.code == 0, ran.said
    assert "notes" in ran.out
    assert guarded.token not in ran.said


def test_a_port_behind_a_token_is_not_called_taken(ada: Person, guarded: Guarded) -> None:
    file = ada.folder / "own.yaml"
    port = guarded.url.rpartition(":")[2]
    file.write_text(f"mcpServers: {{a: {{command: '{sys.executable}'}}}}\ntransport: http\nport: {port}\n")
    ran = ada.runs("doctor", "--config", str(file), "--no-start", "--json")
    found = {each["name"]: each for each in json.loads(ran.out)["findings"]}
    assert found[f"127.0.0.1:{port}"]["state"] == "warn"
    assert "token" in found[f"127.0.0.1:{port}"]["said"]


def test_a_gateway_on_the_older_transport(ada: Person) -> None:
    with gateway("--transport", "sse") as url:
        found = ada.runs("call", "count_notes", "--url", f"{url}/sse")
        assert (found.code, "workshop" in found.out) == (0, True), found.said
        assert f"--url {url}/sse" in ada.runs("call", "count_notes", "--url", url).err
        assert ada.runs("status", "--url", f"{url}/sse").code == 0


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/mcp", "http://h:1/mcp/", "http://h:1/sse"])
def test_the_path_of_the_endpoint_may_be_given(url: str) -> None:
    assert root_of(url) == "http://h:1"


def test_a_path_before_it_stays() -> None:
    assert root_of("https://h/own/mcp") == "https://h/own"


def test_a_token_comes_from_the_environment_alone() -> None:
    assert token_headers({"LEAFGATE_TOKEN": "t"}) == {"Authorization": "Bearer t"}
    assert token_headers({"LEAFGATE_TOKEN": ""}) == {}
    assert token_headers({}) == {}
