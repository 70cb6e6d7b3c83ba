"""The maps over real HTTP: exact bytes, caching, packing, and what is said where there is no map."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette

from leafgate.maps.files import MapFiles, MapSource
from leafgate.maps.shelf import MapShelf, file_source, url_source
from leafgate.model.leaf import digest_of
from leafgate.server import routes
from leafgate.server.routes import MAPS_PATH, MapLibrary, map_routes

MAPS = Path(__file__).resolve().parents[3] / "maps"
TOY = (MAPS / "toy.json").read_bytes()
DIGEST = digest_of(TOY)
QWEN = (MAPS / "qwen" / "qwen2.json").read_bytes()
QWEN_DIGEST = digest_of(QWEN)
OTHER = "sha256:" + "0" * 64


@contextmanager
def serving(maps: MapLibrary) -> Iterator[httpx2.Client]:
    """A client of a real server with these routes; it asks for no encoding unless a test does."""
    listener = socket.create_server(("127.0.0.1", 0))
    web = uvicorn.Server(uvicorn.Config(Starlette(routes=map_routes(maps)), log_config=None, lifespan="off"))
    thread = threading.Thread(target=web.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}{MAPS_PATH}"
    try:
        with httpx2.Client(base_url=url, headers={"accept-encoding": "identity"}, timeout=30) as client:
            yield client
    finally:
        web.should_exit = True
        thread.join(30)
        listener.close()


@pytest.fixture(scope="module")
def client() -> Iterator[httpx2.Client]:
    with serving(MapShelf(MapFiles([MAPS]).list(), allow=["toy", "qwen2", "toy-metaspace"])) as found:
        yield found


def raw_body(client: httpx2.Client, path: str, **headers: str) -> tuple[httpx2.Response, bytes]:
    """The answer as it came over the wire, not unpacked."""
    with client.stream("GET", path, headers=headers) as response:
        return response, b"".join(response.iter_raw())


# The index


def test_the_index_lists_what_may_be_asked_for(client: httpx2.Client) -> None:
    listed = client.get("/index.json").json()["maps"]
    assert [entry["id"] for entry in listed] == ["qwen/qwen2", "toy", "toy-metaspace"]
    assert listed[0] == {
        "id": "qwen/qwen2",
        "hash": QWEN_DIGEST,
        "bytes": len(QWEN),
        "url": f"{MAPS_PATH}/{QWEN_DIGEST}.json",
        "licence": "Apache-2.0",
        "source": "PyPI dashscope 2.0.2",
    }


def test_every_url_of_the_index_gives_the_bytes_of_its_hash(client: httpx2.Client) -> None:
    for entry in client.get("/index.json").json()["maps"]:
        found = client.get(entry["url"].removeprefix(MAPS_PATH))
        assert "sha256:" + hashlib.sha256(found.content).hexdigest() == entry["hash"]
        assert len(found.content) == entry["bytes"]


def test_the_index_is_asked_for_again_and_may_be_the_same(client: httpx2.Client) -> None:
    first = client.get("/index.json")
    assert first.headers["cache-control"] == "no-cache"
    again = client.get("/index.json", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/index.json", headers={"if-none-match": '"other"'}).status_code == 200


def test_no_path_and_no_url_of_the_operator_is_shown(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_bytes(TOY)
    sources = [file_source(own, id="my/own"), url_source("https://u:hunter2@maps.example/x", sha256=OTHER, id="far")]
    with serving(MapShelf(sources)) as client:
        shown = client.get("/index.json").text
    assert json.loads(shown)["maps"][0]["bytes"] is None
    for secret in (str(tmp_path), "hunter2", "maps.example"):
        assert secret not in shown


# A map


@pytest.mark.parametrize("name", ["qwen/qwen2", QWEN_DIGEST, QWEN_DIGEST.upper(), QWEN_DIGEST[7:], "qwen%2Fqwen2"])
def test_the_exact_bytes(client: httpx2.Client, name: str) -> None:
    response, body = raw_body(client, f"/{name}.json")
    assert response.status_code == 200
    assert body == QWEN
    assert response.headers["content-type"] == "application/json"
    assert response.headers["content-length"] == str(len(QWEN))
    assert response.headers["etag"] == f'"{QWEN_DIGEST}"'
    assert response.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in response.headers


def test_only_a_digest_is_forever(client: httpx2.Client) -> None:
    assert "immutable" in client.get(f"/{DIGEST}.json").headers["cache-control"]
    assert client.get("/toy.json").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("asked", ["gzip", "gzip, deflate", "br;q=1, gzip;q=0.5", "GZIP", "*"])
def test_packed_for_those_who_take_it(client: httpx2.Client, asked: str) -> None:
    response, body = raw_body(client, "/qwen/qwen2.json", **{"accept-encoding": asked})
    encoding = response.headers["content-encoding"]
    assert encoding == ("zstd" if asked == "*" else "gzip")
    assert len(body) == int(response.headers["content-length"]) < len(QWEN) / 2
    assert response.headers["etag"] == f'"{QWEN_DIGEST}-{encoding}"'
    assert response.headers["vary"] == "Accept-Encoding"
    if encoding == "gzip":
        assert gzip.decompress(body) == QWEN


@pytest.mark.parametrize("asked", ["", "identity", "gzip;q=0", "br", "gzip;q=0, zstd;q=0, *", "gzip;q=0.2, identity"])
def test_as_it_is_for_the_others(client: httpx2.Client, asked: str) -> None:
    response, body = raw_body(client, "/toy.json", **{"accept-encoding": asked})
    assert "content-encoding" not in response.headers
    assert body == TOY


@pytest.mark.parametrize("path", ["/toy.json", f"/{DIGEST}.json"])
@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_head_says_what_get_would(client: httpx2.Client, path: str, coding: str) -> None:
    headers = {"accept-encoding": coding}
    head = client.head(path, headers=headers)
    got, _ = raw_body(client, path, **headers)
    assert head.content == b""
    told = [{k: v for k, v in answer.headers.items() if k != "date"} for answer in (head, got)]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "known",
    [f'"{DIGEST}"', f'W/"{DIGEST}"', f'"x", "{DIGEST}"', "*", f'"{DIGEST}-gzip"'],
)
def test_what_a_client_has_is_not_sent_again(client: httpx2.Client, known: str) -> None:
    for method in ("GET", "HEAD"):
        answer = client.request(method, "/toy.json", headers={"if-none-match": known})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == f'"{DIGEST}"'
        assert answer.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("known", ["", '"x"', f'"{OTHER}"', DIGEST, f'"{DIGEST}x"'])
def test_what_a_client_has_not_is_sent(client: httpx2.Client, known: str) -> None:
    assert client.get("/toy.json", headers={"if-none-match": known}).content == TOY


@pytest.mark.parametrize(
    "path",
    [
        "/nothing.json",
        "/qwen2.json",
        "/openai/cl100k_base.json",  # on the shelf, and not allowed
        f"/{OTHER}.json",
        "/toy",
        "/toy.json/",
        "/.json",
        "/",
        "/%2e%2e/maps/toy.json",
        "/..%2f..%2fetc%2fpasswd.json",
        "/sha256:12.json",
        "/http:%2F%2F127.0.0.1%2Ftoy.json",
    ],
)
def test_no_such_map(client: httpx2.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"] == "RESOURCE_NOT_FOUND"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_maps_are_only_read(client: httpx2.Client, method: str) -> None:
    assert client.request(method, "/toy.json").status_code == 405


# Failures, and many at once


def test_a_map_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    source = url_source("http://user:hunter2@127.0.0.1:1/x", sha256=OTHER, id="far/away")
    shelf = MapShelf([source, *MapFiles([MAPS]).list()], cache_dir=tmp_path)
    with serving(shelf) as client:
        for coding in ("identity", "gzip"):
            answer = client.get("/far/away.json", headers={"accept-encoding": coding})
            assert answer.status_code == 503
            assert 0 < int(answer.headers["retry-after"]) <= 60
            assert answer.json()["details"]["map"] == "far/away"
            assert answer.json()["details"]["kind"] == "unreachable"
            assert "hunter2" not in answer.text
            assert "127.0.0.1" not in answer.text
        assert client.get("/toy.json").content == TOY


class CountingLibrary:
    """A shelf that counts how often a map is read, and takes its time."""

    def __init__(self) -> None:
        self._shelf = MapShelf(MapFiles([MAPS]).list())
        self.reads = 0

    def entries(self) -> list[MapSource]:
        return self._shelf.entries()

    def read_raw(self, digest: str) -> bytes:
        time.sleep(0.05)
        self.reads += 1
        return self._shelf.read_raw(digest)


def in_parallel(number: int, work: Any) -> list[Any]:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(work())) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_many_at_once_share_one_reading(coding: str) -> None:
    library = CountingLibrary()
    with serving(library) as client:
        url = f"{client.base_url}qwen/qwen2.json"
        bodies = in_parallel(8, lambda: httpx2.get(url, headers={"accept-encoding": coding}, timeout=60).content)
        with client.stream("GET", "/qwen/qwen2.json", headers={"accept-encoding": coding}) as response:
            next(response.iter_raw(1))  # and gone
        client.head("/qwen/qwen2.json", headers={"accept-encoding": coding})
    assert bodies == [QWEN] * 8
    assert library.reads == 1


def test_a_map_larger_than_the_cache_is_read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MAX_CACHED_BYTES", 10)
    library = CountingLibrary()
    with serving(library) as client:
        assert [client.get("/toy.json").content for _ in range(2)] == [TOY, TOY]
    assert library.reads == 2
