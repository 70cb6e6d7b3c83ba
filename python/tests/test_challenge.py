"""The words of a refusal."""

from __future__ import annotations

import json

import pytest

from leafgate.server.auth.challenge import Challenge


@pytest.mark.parametrize(
    ("challenge", "status", "header"),
    [
        (Challenge(None, "a token is needed"), 401, 'Bearer realm="leafgate"'),
        (
            Challenge("invalid_token", "expired", metadata_url="https://x/y"),
            401,
            'Bearer realm="leafgate", error="invalid_token", error_description="expired", '
            'resource_metadata="https://x/y"',
        ),
        (
            Challenge("insufficient_scope", "no", scopes=("look", "work")),
            403,
            'Bearer realm="leafgate", error="insufficient_scope", error_description="no", scope="look work"',
        ),
        (
            Challenge("invalid_request", "odd", basic=True),
            400,
            'Bearer realm="leafgate", error="invalid_request", error_description="odd"',
        ),
    ],
)
def test_a_challenge(challenge: Challenge, status: int, header: str) -> None:
    response = challenge.response()
    assert response.status_code == status
    assert response.headers.getlist("www-authenticate") == [header]
    assert response.headers["cache-control"] == "no-store"
    assert json.loads(response.body)["error_description"] == challenge.description


def test_a_browser_may_show_a_password() -> None:
    asked = Challenge(None, "a token is needed", basic=True).response().headers.getlist("www-authenticate")
    assert asked == ['Bearer realm="leafgate"', 'Basic realm="leafgate", charset="UTF-8"']
