"""Loading a map by URL and digest: every way it can go wrong, with a real server on this machine."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import json
import stat
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from leafgate.codec.compression import ENCODINGS, Encoding, compress
from leafgate.maps import fetch
from leafgate.maps.fetch import cached_map_path, fetch_map, load_encoder
from leafgate.maps.files import MapLoads
from leafgate.model.errors import MapDigestError, MapHashMismatchError, MapInvalidError, MapUnreachableError

MAPS = Path(__file__).resolve().parents[3] / "maps"
TOY = (MAPS / "toy.json").read_bytes()
DIGEST = "sha256:" + hashlib.sha256(TOY).hexdigest()
OTHER = "sha256:" + "0" * 64

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


class MapServer:
    """Answers each path with a function, and counts."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.asked.append(self.path)
                owner.answers[self.path](self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def body(raw: bytes, *, declared: int | None = None, encoding: str | None = None) -> Answer:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        if encoding is not None:
            request.send_header("content-encoding", encoding)
        request.send_header("content-length", str(len(raw) if declared is None else declared))
        request.end_headers()
        request.wfile.write(raw)

    return answer


def redirect(to: str) -> Answer:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("location", to)
        request.end_headers()

    return answer


@pytest.fixture
def server() -> Iterator[MapServer]:
    running = MapServer()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def _nothing_loaded_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_LOADED", MapLoads())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def cached_file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "leafgate" / "maps" / f"{DIGEST.removeprefix('sha256:')}.json"


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("toy", id="id"),
        pytest.param(str(MAPS / "toy.json"), id="path"),
        pytest.param((MAPS / "toy.json").as_uri(), id="file-url"),
    ],
)
def test_maps_at_hand(where: str) -> None:
    assert load_encoder(where, DIGEST).encode("the cat") == [261, 264]


def test_the_map_of_a_model() -> None:
    assert load_encoder("model:qwen3:8b").map.id == "qwen/qwen3"
    with pytest.raises(MapUnreachableError, match="Anthropic"):
        load_encoder("model:claude-opus-4.5")


def test_a_map_with_spaces_in_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a map.json"
    path.write_bytes(TOY)
    assert load_encoder(path.as_uri(), DIGEST).map.id == "toy"


@pytest.mark.parametrize("spelling", [DIGEST, DIGEST.upper(), DIGEST.removeprefix("sha256:"), DIGEST[7:].upper()])
def test_every_spelling_of_the_digest(spelling: str) -> None:
    assert load_encoder("toy", spelling).map.digest == DIGEST


def test_over_http_from_this_machine(server: MapServer) -> None:
    server.answers["/toy.json"] = body(TOY)
    assert load_encoder(f"{server.url}/toy.json", DIGEST).encode("the cat") == [261, 264]


@pytest.mark.parametrize(
    "bad", ["", "sha256:", "sha256:123", "md5:" + "0" * 64, DIGEST + " ", DIGEST[:-1] + "g", None, 5]
)
def test_a_malformed_digest_fails_before_anything_is_asked(server: MapServer, bad: Any) -> None:
    with pytest.raises(MapDigestError):
        load_encoder(f"{server.url}/toy.json", bad)
    assert server.asked == []


@pytest.mark.parametrize(
    "url", ["http://example.org/toy.json", "http://10.0.0.1/toy.json", "ftp://x/toy.json", "data:,{}"]
)
def test_only_https_from_elsewhere(url: str) -> None:
    with pytest.raises(MapUnreachableError, match="https"):
        load_encoder(url, DIGEST)


def test_wrong_bytes_name_both_digests(server: MapServer, tmp_path: Path) -> None:
    server.answers["/toy.json"] = body(TOY)
    with pytest.raises(MapHashMismatchError) as caught:
        load_encoder(f"{server.url}/toy.json", OTHER)
    assert (caught.value.expected, caught.value.found) == (OTHER, DIGEST)
    assert OTHER in str(caught.value)
    assert DIGEST in str(caught.value)
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_the_right_bytes_of_no_map_are_not_cached(server: MapServer, tmp_path: Path) -> None:
    raw = b'{"_synthetic": true}'
    server.answers["/x"] = body(raw)
    with pytest.raises(MapInvalidError):
        load_encoder(f"{server.url}/x", hashlib.sha256(raw).hexdigest())
    assert not (tmp_path / "cache").exists()


def not_found(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_error(404)


def without_end(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    request.wfile.write(TOY * 3)


def one_byte_at_a_time(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("content-length", str(len(TOY)))
    request.end_headers()
    try:
        for byte in TOY:
            request.wfile.write(bytes([byte]))
            request.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass


def silence(request: http.server.BaseHTTPRequestHandler) -> None:
    time.sleep(3)


@pytest.mark.parametrize(
    ("answer", "options", "says"),
    [
        pytest.param(not_found, {}, "404", id="404"),
        pytest.param(body(TOY[:100], declared=len(TOY)), {}, "RemoteProtocolError", id="cut off"),
        pytest.param(body(TOY), {"max_bytes": 1000}, "limit", id="too large by its own word"),
        pytest.param(body(TOY, encoding="gzip"), {}, "DecodingError", id="not of its encoding"),
        pytest.param(without_end, {"max_bytes": 3000}, "limit", id="too large while streaming"),
        pytest.param(one_byte_at_a_time, {"timeout": 0.3}, "within|slow", id="one byte at a time"),
        pytest.param(silence, {"timeout": 0.3}, "within|slow|Timeout", id="silence"),
        pytest.param(redirect("/x"), {}, "redirects", id="redirect to itself"),
        pytest.param(redirect("http://example.org/toy.json"), {}, "not allowed", id="redirect to plain http"),
        pytest.param(redirect("file:///etc/hostname"), {}, "not allowed", id="redirect to a file"),
    ],
)
def test_unreachable(server: MapServer, answer: Answer, options: dict[str, Any], says: str) -> None:
    server.answers["/x"] = answer
    with pytest.raises(MapUnreachableError, match=says):
        load_encoder(f"{server.url}/x", DIGEST, **options)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_host_that_packs_unasked(server: MapServer, encoding: Encoding) -> None:
    server.answers["/x"] = body(compress(TOY, encoding), encoding=encoding)
    assert load_encoder(f"{server.url}/x", DIGEST).map.digest == DIGEST


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_few_bytes_that_unpack_to_very_many(server: MapServer, encoding: Encoding) -> None:
    size = 64 << 20
    server.answers["/x"] = body(compress(bytes(size), encoding), encoding=encoding)
    tracemalloc.start()
    try:
        with pytest.raises(MapUnreachableError, match="limit of 5000000 bytes"):
            load_encoder(f"{server.url}/x", DIGEST, max_bytes=5_000_000)
        assert tracemalloc.get_traced_memory()[1] < size / 2
    finally:
        tracemalloc.stop()


def test_nobody_answers() -> None:
    with pytest.raises(MapUnreachableError):
        load_encoder("http://127.0.0.1:1/toy.json", DIGEST)


def test_a_failure_is_not_remembered(server: MapServer) -> None:
    server.answers["/x"] = not_found
    with pytest.raises(MapUnreachableError):
        load_encoder(f"{server.url}/x", DIGEST)
    server.answers["/x"] = body(TOY)
    assert load_encoder(f"{server.url}/x", DIGEST).map.id == "toy"


def test_errors_do_not_show_passwords(server: MapServer) -> None:
    server.answers["/x?key=abc"] = not_found
    with pytest.raises(MapUnreachableError) as caught:
        load_encoder(f"{server.url.replace('://', '://user:secret@')}/x?key=abc", DIGEST)
    assert "secret" not in str(caught.value)
    assert "abc" not in str(caught.value)


def test_a_redirect_on_this_machine_is_followed(server: MapServer) -> None:
    server.answers |= {"/x": redirect("/y"), "/y": redirect(f"{server.url}/toy.json"), "/toy.json": body(TOY)}
    assert load_encoder(f"{server.url}/x", DIGEST).map.id == "toy"


@pytest.mark.parametrize(
    ("to", "allowed"),
    [
        ("https://mirror.example/toy.json", True),
        ("http://maps.example/toy.json", False),
        ("http://127.0.0.1/toy.json", False),
        ("//mirror.example/toy.json", True),
    ],
)
def test_redirects_from_https(to: str, allowed: bool) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/start":
            return httpx2.Response(301, headers={"location": to})
        return httpx2.Response(200, content=TOY)

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        if allowed:
            assert load_encoder("https://maps.example/start", DIGEST, client=client).map.id == "toy"
        else:
            with pytest.raises(MapUnreachableError, match="not allowed"):
                load_encoder("https://maps.example/start", DIGEST, client=client)
        assert not client.is_closed


def test_a_fetched_map_is_kept_on_disk(server: MapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers["/toy.json"] = body(TOY)
    load_encoder(f"{server.url}/toy.json", DIGEST)
    assert cached_file(tmp_path).read_bytes() == TOY
    assert [p.name for p in cached_file(tmp_path).parent.iterdir()] == [cached_file(tmp_path).name]
    monkeypatch.setattr(fetch, "_LOADED", MapLoads())
    load_encoder(f"{server.url}/elsewhere", DIGEST)
    assert server.asked == ["/toy.json"]


def test_a_broken_entry_is_replaced(server: MapServer, tmp_path: Path) -> None:
    server.answers["/toy.json"] = body(TOY)
    cached_file(tmp_path).parent.mkdir(parents=True)
    cached_file(tmp_path).write_bytes(TOY[:-1])
    assert load_encoder(f"{server.url}/toy.json", DIGEST).map.id == "toy"
    assert cached_file(tmp_path).read_bytes() == TOY


def test_a_cache_that_cannot_be_written_is_no_failure(
    server: MapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers["/toy.json"] = body(TOY)
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    assert load_encoder(f"{server.url}/toy.json", DIGEST, cache_dir=in_the_way / "maps").map.id == "toy"
    monkeypatch.setattr(fetch, "_LOADED", MapLoads())
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(stat.S_IRUSR)
    assert load_encoder(f"{server.url}/toy.json", DIGEST, cache_dir=locked).map.id == "toy"
    locked.chmod(stat.S_IRWXU)


# An operator's URL


def test_an_operators_url_is_fetched_once(server: MapServer, tmp_path: Path) -> None:
    server.answers["/toy.json"] = body(TOY)
    for _ in range(2):
        assert fetch_map(f"{server.url}/toy.json", DIGEST) == TOY
    assert server.asked == ["/toy.json"]
    assert cached_map_path(DIGEST) == cached_file(tmp_path)
    assert cached_map_path(DIGEST, tmp_path).parent == tmp_path


def test_an_operators_url_with_other_bytes(server: MapServer, tmp_path: Path) -> None:
    server.answers["/toy.json"] = body(TOY)
    with pytest.raises(MapHashMismatchError) as caught:
        fetch_map(f"{server.url}/toy.json", OTHER)
    assert (caught.value.expected, caught.value.found) == (OTHER, DIGEST)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "to",
    [
        "https://mirror.example/toy.json",
        "//mirror.example/toy.json",
        "https://maps.example:8443/toy.json",
        "http://maps.example/toy.json",
        "http://127.0.0.1/toy.json",
        "https://user:hunter2@mirror.example/toy.json?key=hunter3",
    ],
)
def test_an_operators_url_is_not_led_elsewhere(to: str) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(301, headers={"location": to})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client, pytest.raises(MapUnreachableError) as caught:
        fetch_map("https://maps.example/start", DIGEST, client=client)
    assert asked == ["https://maps.example/start"]
    assert "hunter" not in str(caught.value)


def test_an_operators_url_may_lead_to_another_path(server: MapServer) -> None:
    server.answers |= {"/x": redirect("/toy.json"), "/toy.json": body(TOY)}
    assert fetch_map(f"{server.url}/x", DIGEST) == TOY


def test_one_fetch_for_many_threads(server: MapServer) -> None:
    def slowly(request: http.server.BaseHTTPRequestHandler) -> None:
        time.sleep(0.1)
        body(TOY)(request)

    server.answers["/toy.json"] = slowly
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(load_encoder(f"{server.url}/toy.json", DIGEST))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    assert server.asked == ["/toy.json"]


def test_the_index_is_right_about_every_map() -> None:
    for entry in json.loads((MAPS / "index.json").read_bytes())["maps"]:
        stored = (MAPS / entry["file"]).read_bytes()
        raw = gzip.decompress(stored) if entry["file"].endswith(".gz") else stored
        assert entry.get("packed", len(raw)) == len(stored)
        assert (entry["sha256"], entry["bytes"]) == ("sha256:" + hashlib.sha256(raw).hexdigest(), len(raw))
