"""Addresses and headers of a running gateway."""

from __future__ import annotations

import pytest

from leafgate.cli.gateway_address import root_of, token_headers


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/mcp", "http://h:1/mcp/", "http://h:1/sse"])
def test_the_path_of_the_endpoint_may_be_given(url: str) -> None:
    assert root_of(url) == "http://h:1"


def test_a_path_before_it_stays() -> None:
    assert root_of("https://h/own/mcp") == "https://h/own"


def test_a_token_comes_from_the_environment_alone() -> None:
    assert token_headers({"LEAFGATE_TOKEN": "t"}) == {"Authorization": "Bearer t"}
    assert token_headers({"LEAFGATE_TOKEN": ""}) == {}
    assert token_headers({}) == {}
