"""Which hosts and origins a gateway answers to, by the address it listens on."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message

from leafgate.server.host_guard import HostGuard, HostRules, host_rules, is_loopback, url_host

pytestmark = pytest.mark.anyio


async def hello(request: object) -> PlainTextResponse:
    return PlainTextResponse("hello")


def status(rules: HostRules, host: str, origin: str | None = None) -> int:
    app = HostGuard(Starlette(routes=[Route("/", hello)]), rules)
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    return TestClient(app).get("/", headers=headers).status_code


@pytest.mark.parametrize("hosts", [[], ["localhost", "evil.example"], ["localhost", "localhost"]])
async def test_one_host_is_named(hosts: list[str]) -> None:
    said: list[Message] = []

    async def keep(message: Message) -> None:
        said.append(message)

    async def never(scope: object, receive: object, send: object) -> None:
        raise AssertionError("it was let through")

    headers = [(b"host", host.encode()) for host in hosts]
    await HostGuard(never, host_rules("127.0.0.1"))({"type": "http", "headers": headers}, _nothing, keep)
    assert said[0]["status"] == 421


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def test_behind_it_the_names_are_in_lower_case() -> None:
    async def names(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{request.headers['host']} {request.headers['origin']} {request.headers['x-name']}")

    app = HostGuard(Starlette(routes=[Route("/", names)]), host_rules("127.0.0.1"))
    headers = {"host": "LocalHost:80", "origin": "HTTP://LocalHost", "x-name": "LocalHost"}
    assert TestClient(app).get("/", headers=headers).text == "localhost:80 http://localhost LocalHost"


def test_behind_it_a_value_has_no_blanks_round_it() -> None:
    async def shown(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"[{request.headers['x-name']}]")

    app = HostGuard(Starlette(routes=[Route("/", shown)]), host_rules("127.0.0.1"))
    headers = {"host": " localhost\t", "x-name": " \tin the middle  \t"}
    assert TestClient(app).get("/", headers=headers).text == "[in the middle]"


LOOPBACK_HOSTS = ["127.0.0.1", "127.0.0.1:8808", "localhost:1", "[::1]:8808", "[::1]"]


@pytest.mark.parametrize("bound", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "::"])
@pytest.mark.parametrize("host", LOOPBACK_HOSTS)
def test_this_machine_is_this_machine_by_any_name(bound: str, host: str) -> None:
    assert status(host_rules(bound), host) == 200
    assert status(host_rules(bound), host, f"http://{host}") == 200


@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "0.0.0.0", "::", "192.0.2.7", "2001:db8::7"])
@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "192.0.2.8:80", "[2001:db8::8]:80", "x"],
)
def test_a_foreign_host_is_misdirected(bound: str, host: str) -> None:
    assert status(host_rules(bound), host) == 421


@pytest.mark.parametrize(
    ("bound", "host"), [("192.0.2.7", "192.0.2.7:8808"), ("2001:db8::7", "[2001:db8::7]:8808"), ("gw.test", "gw.test")]
)
def test_the_address_itself(bound: str, host: str) -> None:
    assert status(host_rules(bound), host) == 200
    assert status(host_rules(bound), "localhost:8808") == 421


@pytest.mark.parametrize(
    ("allowed", "host", "expected"),
    [
        ("gw.test", "gw.test", 200),
        ("gw.test", "gw.test:8443", 200),
        ("gw.test:8443", "gw.test:8443", 200),
        ("gw.test:8443", "gw.test", 421),
        ("gw.test:8443", "gw.test:1", 421),
        ("gw.test", "gw.test.evil.example", 421),
        ("gw.test", "www.gw.test", 421),
        ("2001:db8::9", "[2001:db8::9]:80", 200),
        ("[2001:db8::9]:80", "[2001:db8::9]:80", 200),
        ("[2001:db8::9]:80", "[2001:db8::9]:81", 421),
        ("Gateway.Test", "gateway.test:8443", 200),
        ("gateway.test", "Gateway.TEST", 200),
        ("2001:DB8::9", "[2001:db8::9]", 200),
        ("gw.test", "gw.test:80.evil.example", 421),
        ("gw.test", "gw.test:80@evil.example", 421),
        ("gw.test", "gw.test:", 421),
        ("gw.test", "gw.test.", 421),
    ],
)
def test_names_that_the_operator_adds(allowed: str, host: str, expected: int) -> None:
    assert status(host_rules("0.0.0.0", [allowed]), host) == expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8808", 200),
        ("https://localhost", 200),
        ("https://gw.test", 200),
        ("https://app.test", 200),
        ("http://app.test", 403),
        ("https://evil.example", 403),
        ("https://gw.test.evil.example", 403),
        ("null", 403),
        ("file://", 403),
        ("chrome-extension://abc", 403),
        ("HTTPS://GW.test", 200),
        ("https://APP.test", 200),
        ("http://localhost:80.evil.example", 403),
        ("http://localhost:@evil.example", 403),
        ("", 403),
    ],
)
def test_origins(origin: str, expected: int) -> None:
    assert status(host_rules("127.0.0.1", ["gw.test"], ["https://App.test"]), "localhost", origin) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "fe80::1", "localhost.evil.example", "", "example.org"])
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("host", "shown"), [("::1", "[::1]"), ("[::1]", "[::1]"), ("1.2.3.4", "1.2.3.4"), ("a:1", "a:1")]
)
def test_as_written_in_a_url(host: str, shown: str) -> None:
    assert url_host(host) == shown
