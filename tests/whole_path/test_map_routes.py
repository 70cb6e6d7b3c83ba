"""A tool's author points the TypeScript package at a gateway's maps: it loads them, and checks their digests."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette

from leafgate.maps.files import MapFiles
from leafgate.maps.shelf import MapShelf
from leafgate.server.routes import MAPS_PATH, map_routes

LOADER = Path(__file__).with_name("load-map.mjs")
TEXT = "It is currently 14:30 UTC. \u4e2d\u6587 \U0001f600"
SHELF = MapShelf(MapFiles().list())


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    web = uvicorn.Server(uvicorn.Config(Starlette(routes=map_routes(SHELF)), log_config=None, lifespan="off"))
    thread = threading.Thread(target=web.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    web.should_exit = True
    thread.join(30)
    listener.close()


def load_in_node(map_url: str, digest: str, cache: Path) -> dict[str, Any]:
    command = ["node", str(LOADER), map_url, digest, TEXT, str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize("map_id", ["qwen/qwen2", "openai/o200k_base", "toy-metaspace"])
def test_the_other_language_loads_a_map_by_its_id(url: str, map_id: str, tmp_path: Path) -> None:
    encoder = SHELF.load(map_id)
    found = load_in_node(f"{url}{MAPS_PATH}/{map_id}.json", encoder.map.digest, tmp_path)
    assert found == {"ids": encoder.encode(TEXT)}


def test_every_entry_of_the_index_can_be_loaded(url: str, tmp_path: Path) -> None:
    listed = httpx2.get(f"{url}{MAPS_PATH}/index.json").json()["maps"]
    assert len(listed) >= 5
    for entry in listed:
        found = load_in_node(url + entry["url"], entry["hash"], tmp_path)
        assert found == {"ids": SHELF.load(entry["id"]).encode(TEXT)}


@pytest.mark.parametrize(
    ("path", "digest", "error"),
    [
        pytest.param("toy", "sha256:" + "0" * 64, "MapHashMismatchError", id="another digest"),
        pytest.param("toy-metaspace", SHELF.digest("toy"), "MapHashMismatchError", id="the digest of another map"),
        pytest.param("nothing", SHELF.digest("toy"), "MapUnreachableError", id="no such map"),
    ],
)
def test_the_other_language_refuses(url: str, path: str, digest: str, error: str, tmp_path: Path) -> None:
    assert load_in_node(f"{url}{MAPS_PATH}/{path}.json", digest, tmp_path)["error"] == error
    assert list(tmp_path.iterdir()) == []
