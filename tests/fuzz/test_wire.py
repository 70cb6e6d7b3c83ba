"""Garbage on the wire does not end a gateway: the first of what `just fuzz` sends."""

from __future__ import annotations

from gateways import gateway_on_http
from wire import feed_http, feed_stdio, stdio_gateway

INPUTS = 200


def test_a_gateway_on_http_outlives_garbage() -> None:
    with gateway_on_http() as gateway:
        feed_http(gateway.url, INPUTS, seed=0)


def test_a_gateway_on_stdio_outlives_garbage() -> None:
    with stdio_gateway() as process:
        feed_stdio(process, INPUTS, seed=0)
