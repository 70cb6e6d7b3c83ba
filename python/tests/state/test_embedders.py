"""An embeddings endpoint of the operator's: asked in batches, and never able to stop a browse."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import numpy as np
import pytest

from leafgate.browse.rank import Router
from leafgate.model.tool import SelectableItem
from leafgate.state.routing import BATCH, HttpEmbedder

TOPICS = ("boat", "bread")


class Endpoint(BaseHTTPRequestHandler):
    """Knows two topics; a text about neither is far from both."""

    fails = False
    asked: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Endpoint.asked.append(len(body["input"]))
        synonyms = {"boat": ("boat", "vessel"), "bread": ("bread", "loaf")}
        rows = [[float(any(w in text.lower() for w in synonyms[t])) for t in TOPICS] for text in body["input"]]
        self.send_response(500 if Endpoint.fails else 200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"embedding": row} for row in rows]}).encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    Endpoint.fails, Endpoint.asked = False, []
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/embeddings"
    server.shutdown()


def item(name: str, description: str) -> SelectableItem:
    return SelectableItem(f"x:{name}#00000000", "tool", name, description, "x", name)


ITEMS = [item("moor_boat", "Tie up a boat."), item("bake_bread", "Put bread into an oven.")]


def test_routing_by_the_endpoints_meaning(endpoint: str) -> None:
    router = Router(ITEMS, embedder=HttpEmbedder(endpoint))
    assert router.route("a vessel").candidates[0].item.name == "moor_boat"
    assert router.route("a loaf").candidates[0].item.name == "bake_bread"


def test_texts_go_in_batches(endpoint: str) -> None:
    vectors = HttpEmbedder(endpoint).embed(["boat"] * (BATCH + 1))
    assert Endpoint.asked == [BATCH, 1]
    assert vectors.shape == (BATCH + 1, 2)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)


def test_a_failing_endpoint_leaves_the_words(endpoint: str) -> None:
    router = Router(ITEMS, embedder=HttpEmbedder(endpoint))
    Endpoint.fails = True
    assert router.route("bread oven").candidates[0].item.name == "bake_bread"
