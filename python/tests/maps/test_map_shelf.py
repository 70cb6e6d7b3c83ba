"""The allow list of maps: names, loads, failures as the operator and as a client sees them, and the limits."""

from __future__ import annotations

import http.server
import json
import logging
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from leafgate.codec.negotiate import negotiate
from leafgate.maps.files import MapEntry, MapFiles, MapSource
from leafgate.maps.shelf import MapShelf, ShelfLimits, file_source, url_source
from leafgate.model.errors import (
    GatewayError,
    MapDigestError,
    MapHashMismatchError,
    MapInvalidError,
    MapUnreachableError,
)
from leafgate.model.leaf import digest_of

MAPS = Path(__file__).resolve().parents[3] / "maps"
TOY = (MAPS / "toy.json").read_bytes()
DIGEST = digest_of(TOY)
METASPACE = digest_of((MAPS / "toy-metaspace.json").read_bytes())
OTHER = "sha256:" + "0" * 64
CLOSED_PORT_URL = "http://127.0.0.1:1/toy.json"


class MapServer:
    """Gives the same answer to every request, and counts them."""

    def __init__(self) -> None:
        self.status, self.body, self.location = 200, TOY, ""
        self.asked: list[str] = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.asked.append(self.path)
                self.send_response(owner.status)
                if owner.location:
                    self.send_header("location", owner.location)
                self.send_header("content-length", str(len(owner.body)))
                self.end_headers()
                self.wfile.write(owner.body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[MapServer]:
    running = MapServer()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class HandClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def bundled(**options: Any) -> MapShelf:
    return MapShelf(MapFiles([MAPS]).list(), **options)


def toy_file(tmp_path: Path, raw: bytes = TOY) -> Path:
    path = tmp_path / "mine.json"
    path.write_bytes(raw)
    return path


# Which maps


def test_what_is_offered() -> None:
    shelf = bundled()
    assert {DIGEST, METASPACE} < shelf.offered
    assert len(shelf.offered) == len(shelf.entries()) == 11
    assert [entry.id for entry in shelf.entries()] == sorted(entry.id for entry in shelf.entries())


@pytest.mark.parametrize("name", ["toy", DIGEST, DIGEST.upper(), DIGEST.removeprefix("sha256:")])
def test_every_name_of_a_map(name: str) -> None:
    shelf = bundled()
    assert shelf.digest(name) == DIGEST
    assert shelf.load(name).encode("the cat") == [261, 264]


def test_short_ids() -> None:
    assert bundled().digest("qwen2") == bundled().digest("qwen/qwen2")


@pytest.mark.parametrize("name", ["", "toy.json", "cl100k", "../maps/toy", OTHER, "sha256:", str(MAPS / "toy.json")])
def test_a_name_of_no_map(name: str) -> None:
    with pytest.raises(MapUnreachableError, match="qwen/qwen2"):
        bundled().digest(name)


def test_an_allow_list_by_any_name() -> None:
    shelf = bundled(allow=["qwen2", DIGEST])
    assert [entry.id for entry in shelf.entries()] == ["qwen/qwen2", "toy"]
    assert shelf.load("toy-metaspace").map.digest == METASPACE
    with pytest.raises(GatewayError) as caught:
        shelf.encoder(METASPACE)
    assert caught.value.code == "ARGS_INVALID"


def test_the_default_is_always_offered() -> None:
    shelf = bundled(allow=[], default="toy")
    assert shelf.offered == {DIGEST}
    assert shelf.default == DIGEST
    assert bundled(allow=[]).default is None


@pytest.mark.parametrize("options", [{"allow": ["toy", "nothing"]}, {"default": "nothing"}, {"pinned": ["nothing"]}])
def test_a_wrong_name_ends_the_start(options: dict[str, Any]) -> None:
    with pytest.raises(MapUnreachableError, match="'nothing'"):
        bundled(**options)


def test_the_first_source_of_an_id_counts(tmp_path: Path) -> None:
    other = file_source(toy_file(tmp_path, TOY.replace(b"the", b"tha")), id="toy")
    shelf = MapShelf([other, *MapFiles([MAPS]).list()])
    assert shelf.digest("toy") == other.digest
    assert DIGEST not in shelf.offered


def test_one_map_under_two_ids(tmp_path: Path) -> None:
    shelf = MapShelf([file_source(toy_file(tmp_path), id="my/own"), *MapFiles([MAPS]).list()])
    assert shelf.digest("my/own") == shelf.digest("toy") == DIGEST
    assert {"my/own", "toy"} <= {entry.id for entry in shelf.entries()}
    (tmp_path / "mine.json").unlink()
    with pytest.raises(MapUnreachableError):
        shelf.load("toy")  # the operator's own file comes first, and a failure is told, not papered over


def test_a_source_without_a_digest_is_refused() -> None:
    with pytest.raises(MapDigestError):
        MapShelf([MapEntry("x", None, MAPS / "toy.json", 1, "", "")])


# Files of the operator


def test_a_file_of_the_operator(tmp_path: Path) -> None:
    source = file_source(toy_file(tmp_path), sha256=DIGEST.upper())
    assert (source.id, source.digest, source.bytes) == ("toy", DIGEST, len(TOY))
    assert str(tmp_path) not in source.source
    assert file_source(toy_file(tmp_path), id="a/b").id == "a/b"


@pytest.mark.parametrize("id", ["\ud800", "a\n[Codec] b", "x" * 201, "../../a", "<b>", "", None, ["a"], 7])
def test_what_a_file_calls_itself_is_taken_only_if_it_is_an_id(tmp_path: Path, id: Any) -> None:
    raw = json.dumps({**json.loads(TOY), "id": id}).encode()
    assert file_source(toy_file(tmp_path, raw)).id == "mine"
    odd = tmp_path / "my map.json"
    odd.write_bytes(raw)
    assert file_source(odd).id == digest_of(raw)


@pytest.mark.parametrize(
    ("raw", "options", "error"),
    [
        (b"{}", {}, MapInvalidError),
        (b"", {}, MapInvalidError),
        (TOY[:-1], {}, MapInvalidError),
        (TOY, {"sha256": OTHER}, MapHashMismatchError),
        (TOY, {"sha256": "sha256:12"}, MapDigestError),
        (None, {}, MapUnreachableError),
    ],
)
def test_a_wrong_file_ends_the_start(
    tmp_path: Path, raw: bytes | None, options: dict[str, Any], error: type[Exception]
) -> None:
    path = tmp_path / "missing.json" if raw is None else toy_file(tmp_path, raw)
    with pytest.raises(error):
        file_source(path, **options)


# Loads


def test_finish_has_the_last_word() -> None:
    finished: list[Any] = []

    def finish(encoder: Any) -> Any:
        finished.append(encoder)
        return OtherEncoder(encoder)

    class OtherEncoder:
        def __init__(self, exact: Any) -> None:
            self.map = exact.map

    shelf = bundled(finish=finish)
    assert isinstance(shelf.encoder(DIGEST), OtherEncoder)
    assert isinstance(shelf.load("toy"), OtherEncoder)
    assert len(finished) == 1


def test_a_panic_of_a_tokenizer_is_an_invalid_map() -> None:
    class PanicException(BaseException):
        pass

    def panic(encoder: Any) -> Any:
        raise PanicException("index out of bounds")

    shelf = bundled(finish=panic)
    with pytest.raises(MapInvalidError, match="index out of bounds"):
        shelf.load("toy")
    with pytest.raises(GatewayError, match="invalid map"):
        shelf.encoder(DIGEST)


def test_an_encoder_is_made_once() -> None:
    shelf = bundled()
    assert shelf.ready(DIGEST) is None
    encoder = shelf.encoder(DIGEST)
    assert shelf.encoder(DIGEST) is encoder
    assert shelf.ready(DIGEST) is encoder
    assert shelf.load("toy") is encoder


def test_a_loaded_map_needs_its_file_no_more(tmp_path: Path) -> None:
    path = toy_file(tmp_path)
    shelf = MapShelf([file_source(path)])
    shelf.encoder(DIGEST)
    path.unlink()
    assert shelf.encoder(DIGEST).encode("the cat") == [261, 264]


def test_no_more_encoders_than_allowed() -> None:
    shelf = bundled(default="toy", pinned=["toy-metaspace"], limits=ShelfLimits(keep=1))
    for name in ("toy", "toy-metaspace", "qwen2", "cl100k_base"):
        shelf.load(name)
    held = [entry.id for entry in shelf.entries() if shelf.ready(str(entry.digest)) is not None]
    assert held == ["openai/cl100k_base", "toy", "toy-metaspace"]


def test_threads_share_one_fetch(server: MapServer) -> None:
    shelf = MapShelf([url_source(f"{server.url}/toy.json", sha256=DIGEST, id="toy")])
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(shelf.encoder(DIGEST))) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert len(found) == 10
    assert server.asked == ["/toy.json"]


@pytest.mark.anyio
async def test_from_the_event_loop() -> None:
    shelf = bundled()
    encoder = await shelf.prepare(DIGEST)
    assert encoder is shelf.ready(DIGEST)
    assert await shelf.prepare(DIGEST) is encoder


@pytest.mark.anyio
async def test_those_who_wait_hold_one_thread() -> None:
    """More clients wait for a map that does not come than there are threads; other work in threads still goes on."""
    threads = int(to_thread.current_default_thread_limiter().total_tokens)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/toy.json"
        source = url_source(url, sha256=OTHER, id="slow")
        shelf = MapShelf([source, *MapFiles([MAPS]).list()], limits=ShelfLimits(fetch_seconds=60))
        refused: list[str] = []

        async def ask() -> None:
            try:
                await shelf.prepare(OTHER)
            except GatewayError as error:
                refused.append(str(error.body.details["kind"]))

        async with anyio.create_task_group() as group:
            for _ in range(2 * threads):
                group.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert (await shelf.prepare(DIGEST)).map.id == "toy"
            assert refused == []
            listener.accept()[0].close()
        assert refused == ["unreachable"] * 2 * threads


@pytest.mark.anyio
@pytest.mark.parametrize("digest", [OTHER, "toy", "http://127.0.0.1/toy.json"])
async def test_from_the_event_loop_too_only_what_is_offered(digest: str) -> None:
    with pytest.raises(GatewayError) as caught:
        await bundled().prepare(digest)
    assert caught.value.code == "ARGS_INVALID"
    narrow = bundled(allow=[])
    narrow.load("toy")
    with pytest.raises(GatewayError):
        await narrow.prepare(DIGEST)


# URLs of the operator


def test_nothing_is_fetched_before_it_is_asked_for(server: MapServer) -> None:
    shelf = MapShelf([url_source(f"{server.url}/toy.json", sha256=DIGEST, id="toy")], default="toy")
    assert [entry.bytes for entry in shelf.entries()] == [None]
    assert server.asked == []
    assert shelf.encoder(DIGEST).encode("the cat") == [261, 264]


def test_a_fetched_map_survives_on_disk(server: MapServer) -> None:
    def shelf() -> MapShelf:
        return MapShelf([url_source(f"{server.url}/toy.json", sha256=DIGEST, id="toy")])

    shelf().encoder(DIGEST)
    server.status = 500
    assert shelf().encoder(DIGEST).map.digest == DIGEST
    assert server.asked == ["/toy.json"]


def test_a_url_without_an_id_is_called_by_its_digest() -> None:
    """Its path may hold a key, and ids are shown."""
    source = url_source("https://maps.example/key/toy.json", sha256=DIGEST[7:].upper())
    assert source.id == source.digest == DIGEST
    assert "key" not in repr(source)


@pytest.mark.parametrize("digest", ["", "sha256:12", OTHER[:-1], "md5:" + "0" * 32, None])
def test_a_url_needs_a_digest(digest: Any) -> None:
    with pytest.raises(MapDigestError):
        url_source(CLOSED_PORT_URL, sha256=digest, id="toy")


@pytest.mark.parametrize(
    "url", ["http://maps.example/toy.json", "ftp://127.0.0.1/x", "file:///etc/hostname", "toy", "//x"]
)
def test_only_https_or_this_machine(url: str) -> None:
    shelf = MapShelf([url_source(url, sha256=DIGEST, id="toy")])
    with pytest.raises(MapUnreachableError, match="https"):
        shelf.load("toy")


def test_no_redirect_leads_to_another_host(server: MapServer) -> None:
    elsewhere = MapServer()
    try:
        server.status, server.location, server.body = 302, f"{elsewhere.url}/toy.json", b""
        with pytest.raises(MapUnreachableError, match="another host"):
            MapShelf([url_source(f"{server.url}/x", sha256=DIGEST, id="toy")]).load("toy")
        assert elsewhere.asked == []
    finally:
        elsewhere.close()


def test_a_url_of_a_client_is_never_fetched() -> None:
    """The header may hold a URL; only its digest is looked at, and only if it is on the shelf."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        shelf = bundled()
        for digest, known in ((DIGEST, True), (OTHER, False)):
            header = f"http://127.0.0.1:{port}/map.json;sha256={digest.removeprefix('sha256:')}"
            if known:
                chosen, _ = negotiate(None, header, shelf.default, shelf.offered)
                assert chosen is not None
                shelf.encoder(chosen)
                assert shelf.read_raw(chosen) == TOY
            else:
                with pytest.raises(GatewayError):
                    negotiate(None, header, shelf.default, shelf.offered)
        for name in (f"http://127.0.0.1:{port}/map.json", f"http://127.0.0.1:{port}/map.json;sha256={OTHER}"):
            with pytest.raises(GatewayError):
                shelf.encoder(name)
            with pytest.raises(GatewayError):
                shelf.read_raw(name)
        with pytest.raises(BlockingIOError):
            listener.accept()


# Failures


def broken_file(tmp_path: Path) -> MapSource:
    path = toy_file(tmp_path)
    source = file_source(path)
    path.write_bytes(TOY + b" ")
    return source


def missing_file(tmp_path: Path) -> MapSource:
    path = toy_file(tmp_path)
    source = file_source(path)
    path.unlink()
    return source


def no_map(tmp_path: Path) -> MapSource:
    path = toy_file(tmp_path, b"{}")
    return MapEntry("toy", digest_of(b"{}"), path, 2, "", "")


def loses_characters(tmp_path: Path) -> MapSource:
    document = json.loads(TOY) | {"pre_tokenizer_pattern": "[a-z]+"}
    raw = json.dumps(document).encode()
    return MapEntry("toy", digest_of(raw), toy_file(tmp_path, raw), 2, "", "")


def closed_port(tmp_path: Path) -> MapSource:
    url = CLOSED_PORT_URL.replace("://", "://user:hunter2@") + "?key=hunter3"
    return url_source(url, sha256=DIGEST, id="toy")


FAILURES: list[Any] = [
    pytest.param(broken_file, MapHashMismatchError, "hash mismatch", id="another file"),
    pytest.param(missing_file, MapUnreachableError, "unreachable", id="no file"),
    pytest.param(no_map, MapInvalidError, "invalid map", id="no map"),
    pytest.param(loses_characters, MapInvalidError, "invalid map", id="loses characters"),
    pytest.param(closed_port, MapUnreachableError, "unreachable", id="nobody answers"),
]


@pytest.mark.parametrize(("make", "error", "kind"), FAILURES)
def test_the_operator_is_told_everything_and_the_client_which_map_and_what_kind(
    tmp_path: Path,
    make: Callable[[Path], MapSource],
    error: type[Exception],
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = make(tmp_path)
    digest = str(source.digest)
    shelf = MapShelf([source])
    with caplog.at_level(logging.WARNING, "leafgate.maps"):
        with pytest.raises(error):
            shelf.load("toy")
        with pytest.raises(GatewayError) as caught:
            shelf.encoder(digest)
    body = caught.value.body
    assert (body.details["map"], body.details["map_id"], body.details["kind"]) == ("toy", digest, kind)
    assert 0 < body.details["retry_after"] <= 60
    assert "toy" in body.message
    assert kind in body.message
    shown = json.dumps(body.as_json())
    assert str(tmp_path) not in shown
    assert "127.0.0.1" not in shown
    [line] = [record.getMessage() for record in caplog.records]
    assert digest in line
    assert "hunter" not in line + shown


@pytest.mark.parametrize(("make", "error", "kind"), FAILURES)
def test_a_failure_is_remembered_and_forgotten(
    tmp_path: Path,
    make: Callable[[Path], MapSource],
    error: type[Exception],
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = HandClock()
    shelf = MapShelf([make(tmp_path)], clock=clock, remember_failure_seconds=5)
    with caplog.at_level(logging.WARNING, "leafgate.maps"):
        for _ in range(5):
            with pytest.raises(error):
                shelf.load("toy")
        assert len(caplog.records) == 1
        clock.now = 5
        with pytest.raises(error):
            shelf.load("toy")
        assert len(caplog.records) == 2


def test_a_failure_that_heals(server: MapServer) -> None:
    clock = HandClock()
    shelf = MapShelf([url_source(f"{server.url}/x", sha256=DIGEST, id="toy")], clock=clock)
    server.status = 503
    for _ in range(3):
        with pytest.raises(GatewayError):
            shelf.encoder(DIGEST)
    server.status = 200
    with pytest.raises(GatewayError):
        shelf.encoder(DIGEST)
    assert len(server.asked) == 1
    clock.now = 60
    assert shelf.encoder(DIGEST).map.id == "toy"


def test_a_url_that_failed_is_not_asked_again_for_its_bytes(server: MapServer) -> None:
    shelf = MapShelf([url_source(f"{server.url}/x", sha256=DIGEST, id="toy")], clock=HandClock())
    server.status = 503
    for ask in (shelf.encoder, shelf.read_raw, shelf.encoder, shelf.read_raw):
        with pytest.raises(GatewayError):
            ask(DIGEST)
    assert len(server.asked) == 1


def test_one_failure_leaves_the_others_alone() -> None:
    shelf = MapShelf([url_source(CLOSED_PORT_URL, sha256=OTHER, id="gone"), *MapFiles([MAPS]).list()])
    with pytest.raises(GatewayError):
        shelf.encoder(OTHER)
    assert shelf.encoder(DIGEST).map.id == "toy"


@pytest.mark.parametrize("digest", [OTHER, "toy", "", "http://127.0.0.1/toy.json", "../../etc/passwd"])
def test_what_is_not_offered_is_the_callers_fault(digest: str) -> None:
    for ask in (bundled().encoder, bundled().read_raw):
        with pytest.raises(GatewayError) as caught:
            ask(digest)
        assert caught.value.code == "ARGS_INVALID"


# Limits


def test_a_map_that_is_too_large(server: MapServer) -> None:
    small = ShelfLimits(max_bytes=1000)
    for shelf in (
        bundled(limits=small),
        MapShelf([url_source(f"{server.url}/x", sha256=DIGEST, id="toy")], limits=small),
    ):
        with pytest.raises(MapUnreachableError, match="limit"):
            shelf.load("toy")
        with pytest.raises(GatewayError):
            shelf.read_raw(DIGEST)


def test_a_source_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/toy.json"
        for limits in (ShelfLimits(fetch_seconds=0.05), ShelfLimits(load_seconds=0.05, fetch_seconds=5)):
            shelf = MapShelf([url_source(url, sha256=DIGEST, id="toy")], limits=limits)
            with pytest.raises(MapUnreachableError, match=r"within|slow|Timeout"):
                shelf.load("toy")


# Raw bytes


def test_the_raw_bytes_have_the_digest() -> None:
    shelf = bundled()
    for entry in shelf.entries():
        assert digest_of(shelf.read_raw(str(entry.digest))) == entry.digest


def test_a_file_that_changed_is_not_served(tmp_path: Path) -> None:
    path = toy_file(tmp_path)
    clock = HandClock()
    shelf = MapShelf([file_source(path)], clock=clock)
    assert shelf.read_raw(DIGEST) == TOY
    path.write_bytes(TOY + b" ")
    with pytest.raises(GatewayError, match="hash mismatch"):
        shelf.read_raw(DIGEST)
    path.write_bytes(TOY)
    clock.now = 60
    assert shelf.read_raw(DIGEST) == TOY


def test_raw_bytes_of_a_url_are_fetched_once_and_again_when_the_cache_is_gone(
    server: MapServer, tmp_path: Path
) -> None:
    shelf = MapShelf([url_source(f"{server.url}/x", sha256=DIGEST, id="toy")])
    for _ in range(3):
        assert shelf.read_raw(DIGEST) == TOY
    assert len(server.asked) == 1
    shutil.rmtree(tmp_path / "cache")
    assert shelf.read_raw(DIGEST) == TOY
    assert len(server.asked) == 2


def test_bytes_of_a_url_that_cannot_be_cached_are_fetched_each_time(server: MapServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    shelf = MapShelf([url_source(f"{server.url}/x", sha256=DIGEST, id="toy")], cache_dir=tmp_path / "file" / "maps")
    assert shelf.encoder(DIGEST).map.id == "toy"
    assert [shelf.read_raw(DIGEST) for _ in range(2)] == [TOY, TOY]
    assert len(server.asked) == 3


def test_a_file_that_goes_away_is_not_served(tmp_path: Path) -> None:
    path = toy_file(tmp_path)
    shelf = MapShelf([file_source(path)])
    path.unlink()
    with pytest.raises(GatewayError, match="unreachable"):
        shelf.read_raw(DIGEST)
