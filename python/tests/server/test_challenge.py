"""The words of a refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from leafgate.server.auth.layer import ResourceMetadata, challenge, metadata_routes


@pytest.mark.parametrize(
    ("refusal", "status", "header"),
    [
        ({"error": None, "description": "a token is needed"}, 401, 'Bearer realm="leafgate"'),
        (
            {"error": "invalid_token", "description": "expired", "metadata_url": "https://x/y"},
            401,
            'Bearer realm="leafgate", error="invalid_token", error_description="expired", '
            'resource_metadata="https://x/y"',
        ),
        (
            {"error": "insufficient_scope", "description": "no", "scopes": ("look", "work")},
            403,
            'Bearer realm="leafgate", error="insufficient_scope", error_description="no", scope="look work"',
        ),
        (
            {"error": "invalid_request", "description": "odd", "basic": True},
            400,
            'Bearer realm="leafgate", error="invalid_request", error_description="odd"',
        ),
    ],
)
def test_a_challenge(refusal: dict[str, Any], status: int, header: str) -> None:
    response = challenge(**refusal)
    assert response.status_code == status
    assert response.headers.getlist("www-authenticate") == [header]
    assert response.headers["cache-control"] == "no-store"
    assert json.loads(response.body)["error_description"] == refusal["description"]


def test_a_browser_may_show_a_password() -> None:
    asked = challenge(None, "a token is needed", basic=True).headers.getlist("www-authenticate")
    assert asked == ['Bearer realm="leafgate"', 'Basic realm="leafgate", charset="UTF-8"']


ISSUER = ("https://issuer.test",)


def scope(host: str | None, scheme: str = "http") -> dict[str, object]:
    return {"type": "http", "scheme": scheme, "headers": [] if host is None else [(b"host", host.encode("latin-1"))]}


@pytest.mark.parametrize(
    ("resource", "url"),
    [
        ("https://gw.test/mcp", "https://gw.test/.well-known/oauth-protected-resource/mcp"),
        ("https://gw.test/", "https://gw.test/.well-known/oauth-protected-resource"),
        ("https://gw.test:8443/a/mcp", "https://gw.test:8443/.well-known/oauth-protected-resource/a/mcp"),
    ],
)
def test_the_url_of_a_named_resource(resource: str, url: str) -> None:
    assert ResourceMetadata(ISSUER, resource=resource).url(scope("ignored")) == url


@pytest.mark.parametrize("host", ["127.0.0.1:8808", "localhost", "[::1]:8808", "gw-1.example.org:443"])
def test_without_a_name_the_requests_host_is_used(host: str) -> None:
    metadata = ResourceMetadata(ISSUER)
    assert metadata.document(scope(host, "https"))["resource"] == f"https://{host}/mcp"
    assert metadata.url(scope(host)) == f"http://{host}/.well-known/oauth-protected-resource/mcp"


@pytest.mark.parametrize("host", [None, "", 'x", error="y', "a b", "a/b", "a@b", "localhost:8080.evil.example", "ä"])
def test_a_host_that_could_say_anything_is_not_repeated(host: str | None) -> None:
    assert ResourceMetadata(ISSUER).url(scope(host)) is None


def test_the_document_is_where_clients_look_for_it() -> None:
    metadata = ResourceMetadata(ISSUER, ("look",), "https://gw.test/a/mcp")
    client = TestClient(Starlette(routes=metadata_routes(lambda: metadata, "/mcp")))
    for path in ("", "/mcp", "/a/mcp"):
        answer = client.get(f"/.well-known/oauth-protected-resource{path}")
        assert answer.json() == {
            "resource": "https://gw.test/a/mcp",
            "authorization_servers": ["https://issuer.test"],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["look"],
        }
    assert client.get("/.well-known/oauth-protected-resource/else").status_code == 404


def test_what_is_told_follows_the_settings() -> None:
    present: list[ResourceMetadata | None] = [None]
    client = TestClient(Starlette(routes=metadata_routes(lambda: present[0], "/mcp")))
    assert client.get("/.well-known/oauth-protected-resource/mcp").status_code == 404
    for issuer, resource in (("https://one.test", "https://gw.test/a"), ("https://two.test", "https://gw.test/b")):
        present[0] = ResourceMetadata((issuer,), resource=resource)
        for path in ("", "/mcp", resource.removeprefix("https://gw.test")):
            told = client.get(f"/.well-known/oauth-protected-resource{path}").json()
            assert (told["authorization_servers"], told["resource"]) == ([issuer], resource)
    assert client.get("/.well-known/oauth-protected-resource/a").status_code == 404
    assert client.get("/.well-known/oauth-protected-resourcemcp").status_code == 404
