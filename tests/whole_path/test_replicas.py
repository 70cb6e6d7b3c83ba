"""Sessions of the handshake era over several gateways with one store: real gateways, a real Redis, requests by hand."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from gateways import READY_SECONDS, SERVERS, HttpGateway, gateway_on_http
from handshake_client import HandshakeClient, answer_in, events_in, text_in
from redis_server import RedisServer, redis_server
from warm_python import PYTHON

from leafgate.server.auth.bearer_tokens import hash_secret, new_token

ADA, BOB = new_token(), new_token()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


def config_file(folder: Path, **keys: Any) -> str:
    echo = {"command": PYTHON, "args": [str(SERVERS / "echo.py")], "env": {"CALL_LOG": str(folder / "calls")}}
    file = folder / "leafgate.json"
    file.write_text(json.dumps({"mcpServers": {"echo": echo}, **keys}))
    return str(file)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, redis: RedisServer) -> Iterator[tuple[HttpGateway, HttpGateway]]:
    """Two gateways that ask who comes."""
    tokens = [{"name": name, "hash": hash_secret(secret)} for name, secret in (("ada", ADA), ("bob", BOB))]
    config = config_file(tmp_path_factory.mktemp("pair"), auth={"tokens": tokens})
    with ExitStack() as stack:
        words = ("--config", config, "--state", redis.url)
        yield stack.enter_context(gateway_on_http(*words)), stack.enter_context(gateway_on_http(*words))


def echo_id(client: HandshakeClient, url: str) -> str:
    page = text_in(client.call(url, "tool_browse", {"query": "echo a mark"}))
    found = re.search(r"echo:echo#[0-9a-f]{8}", page)
    assert found, page
    return found.group()


def echoed(client: HandshakeClient, url: str, mark: str) -> str:
    return text_in(client.call(url, "tool_execute", {"tool_id": echo_id(client, url), "args": {"mark": mark}}))


def test_a_session_goes_on_at_another_gateway(pair: tuple[HttpGateway, HttpGateway]) -> None:
    one, two = pair
    client = HandshakeClient(ADA)
    client.open(one.url)
    client.initialized(two.url)
    assert echoed(client, two.url, "m1").startswith("m1 ")
    assert echoed(client, one.url, "m2").startswith("m2 ")


def test_to_somebody_else_the_session_does_not_exist(pair: tuple[HttpGateway, HttpGateway]) -> None:
    one, two = pair
    ada, bob = HandshakeClient(ADA), HandshakeClient(BOB)
    bob.headers["mcp-session-id"] = ada.open(one.url)
    assert [bob.post(gateway.url, "ping", {}).status_code for gateway in (two, one)] == [404, 404]
    assert ada.post(two.url, "ping", {}).status_code == 200


def test_a_session_that_ended_is_not_taken_up(pair: tuple[HttpGateway, HttpGateway]) -> None:
    one, two = pair
    client = HandshakeClient(ADA)
    client.open(one.url)
    assert client.http.delete(f"{one.url}/mcp", headers=client.headers).status_code == 200
    assert client.post(two.url, "ping", {}).status_code == 404
    assert client.post(one.url, "ping", {}).status_code == 404


def test_an_answer_is_fetched_at_another_gateway(pair: tuple[HttpGateway, HttpGateway]) -> None:
    one, two = pair
    client = HandshakeClient(ADA)
    client.open(one.url)
    place = begin_long_call(client, one.url, "m3", seconds=2)
    headers = {**client.headers, "last-event-id": place}
    with client.http.stream("GET", f"{two.url}/mcp", headers=headers) as stream:
        heard = [message for _, message in events_in(stream.iter_lines()) if message is not None]
    assert text_in(heard[-1]["result"]).startswith("m3 ")
    assert [message["params"]["message"] for message in heard[:-1]] == ["m3 1", "m3 2", "m3 3"]


def begin_long_call(client: HandshakeClient, url: str, mark: str, seconds: float) -> str:
    """Makes a call, and leaves after its first progress; the name of the last event that was seen."""
    args = {"tool_id": echo_id(client, url), "args": {"mark": mark, "seconds": seconds}}
    params = {"name": "tool_execute", "arguments": args, "_meta": {"progressToken": mark}}
    body = client.request("tools/call", params)
    with client.http.stream("POST", f"{url}/mcp", json=body, headers=client.headers) as stream:
        for id, message in events_in(stream.iter_lines()):
            if message is not None:
                assert id is not None
                return id
    raise AssertionError("the stream ended before anything was said")


def test_a_gateway_that_dies_takes_its_calls_with_it_and_no_session(tmp_path: Path, redis: RedisServer) -> None:
    words = ("--config", config_file(tmp_path), "--state", redis.url)
    with gateway_on_http(*words) as one, gateway_on_http(*words) as two:
        client = HandshakeClient()
        client.open(one.url)
        place = begin_long_call(client, one.url, "m4", seconds=30)
        one.process.kill()
        headers = {**client.headers, "last-event-id": place}
        with client.http.stream("GET", f"{two.url}/mcp", headers=headers) as stream:
            heard = [message for _, message in events_in(stream.iter_lines()) if message is not None]
        assert "may have been carried out" in heard[-1]["error"]["message"]
        assert echoed(client, two.url, "m5").startswith("m5 ")
    assert (tmp_path / "calls").read_text().split() == ["m4", "m5"]


def test_a_session_outlives_a_restart(tmp_path: Path) -> None:
    config = config_file(tmp_path, state="sqlite:state.db")
    client = HandshakeClient()
    with gateway_on_http("--config", config) as first:
        client.open(first.url)
    with gateway_on_http("--config", config) as second:
        assert echoed(client, second.url, "m6").startswith("m6 ")


def test_one_server_behind_all_gateways_and_its_changes_reach_all(tmp_path: Path, redis: RedisServer) -> None:
    """A gateway that passes everything through is the bridge to a server that only knows stdio."""
    bridge_file = Path(config_file(tmp_path, mode="passthrough"))
    with ExitStack() as stack:
        bridge = stack.enter_context(gateway_on_http("--config", str(bridge_file)))
        file = tmp_path / "gateways.yaml"
        file.write_text(json.dumps({"mcpServers": {"shared": {"url": f"{bridge.url}/mcp"}}, "state": redis.url}))
        both = [stack.enter_context(gateway_on_http("--config", str(file))) for _ in range(2)]
        clients = [HandshakeClient() for _ in both]
        for number, (client, gateway) in enumerate(zip(clients, both, strict=True)):
            client.open(gateway.url)
            tool = found_tool(client, gateway.url, "echo a mark", "echo")
            args = {"tool_id": tool, "args": {"mark": f"b{number}"}}
            assert text_in(client.call(gateway.url, "tool_execute", args)).startswith(f"b{number} ")
        notes = {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]}
        changed = json.loads(bridge_file.read_text())
        changed["mcpServers"]["notes"] = notes
        bridge_file.write_text(json.dumps(changed))
        for client, gateway in zip(clients, both, strict=True):
            wait_until(lambda: found_tool(client, gateway.url, "search the notes", "search_notes") is not None)  # noqa: B023
    assert (tmp_path / "calls").read_text().split() == ["b0", "b1"]


def found_tool(client: HandshakeClient, url: str, query: str, name: str) -> str | None:
    page = text_in(client.call(url, "tool_browse", {"query": query}))
    found = re.search(rf"shared:{name}#[0-9a-f]{{8}}", page)
    return None if found is None else found.group()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.1)


def test_in_memory_a_session_ends_with_its_gateway(tmp_path: Path) -> None:
    config = config_file(tmp_path)
    client = HandshakeClient()
    with gateway_on_http("--config", config) as one, gateway_on_http("--config", config) as two:
        client.open(one.url)
        answer = client.post(two.url, "ping", {})
    assert answer.status_code == 404
    assert "error" in answer_in(answer)
