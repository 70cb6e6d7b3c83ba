"""The clients that are notified of changes."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

from leafgate.server.clients import Client, Clients, McpChannel


def test_a_client_that_left_is_not_kept() -> None:
    clients = Clients()
    context: Any = SimpleNamespace(protocol_version="2025-06-18", session=None, lifespan_context=Client())
    clients.meet(context).subscriptions.add("file:///a")
    assert clients.is_watched("file:///a")
    del context
    gc.collect()
    assert not clients.is_watched("file:///a")


def test_a_server_gets_the_meta_of_a_request_without_what_is_between_client_and_gateway() -> None:
    meta = {
        "example.test/note": {"n": 1},
        "userId": "u-1",
        "progressToken": 3,
        "traceparent": "00-1-2-01",
        "leafgate/accept": "all",
        "ai.codec/leaf-tokenization": {"accept": []},
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    }
    context: Any = SimpleNamespace(
        protocol_version="2026-07-28",
        params={"name": "t", "_meta": meta},
        session=SimpleNamespace(client_capabilities=None),
        lifespan_context=None,
    )
    assert McpChannel(context, "me").meta == {"example.test/note": {"n": 1}, "userId": "u-1"}
