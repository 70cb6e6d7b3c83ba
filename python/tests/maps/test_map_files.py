"""Finding maps on disk: by id, short id, digest and path; checked against the index; loaded once."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leafgate.maps.files import (
    MapFiles,
    MapLoads,
    add_map,
    check_map_id,
    default_folders,
    find_named,
    list_folder,
    own_folder,
)
from leafgate.model.errors import ConfigError, MapHashMismatchError, MapInvalidError, MapUnreachableError
from leafgate.model.leaf import digest_of

MAPS = Path(__file__).resolve().parents[3] / "maps"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the toy map twice, once in its index."""
    listed = next(e for e in json.loads((MAPS / "index.json").read_bytes())["maps"] if e["id"] == "toy")
    for owner in ("one", "two"):
        (tmp_path / owner).mkdir()
        shutil.copy(MAPS / "toy.json", tmp_path / owner / "toy.json")
    (tmp_path / "index.json").write_text(json.dumps({"maps": [{**listed, "id": "one/toy", "file": "one/toy.json"}]}))
    return tmp_path


@pytest.mark.parametrize("name", ["openai/cl100k_base", "cl100k_base", "toy", "toy-metaspace", "qwen/qwen2", "qwen2"])
def test_by_id_and_short_id(name: str) -> None:
    assert name in MapFiles().find(name).id


def test_by_digest_and_path(folder: Path) -> None:
    files = MapFiles([folder])
    digest = files.find("one/toy").digest
    assert digest is not None
    assert files.find(digest).id == "one/toy"
    assert files.find(digest.removeprefix("sha256:").upper()).id == "one/toy"
    assert files.load(str(folder / "two" / "toy.json")).map.digest == digest


def test_an_unknown_name_lists_the_known_ones(folder: Path) -> None:
    with pytest.raises(MapUnreachableError, match="one/toy"):
        MapFiles([folder]).find("nothing")


def test_an_ambiguous_name(folder: Path) -> None:
    index = folder / "index.json"
    [entry] = json.loads(index.read_bytes())["maps"]
    index.write_text(json.dumps({"maps": [entry, {**entry, "id": "two/toy", "file": "two/toy.json"}]}))
    with pytest.raises(MapUnreachableError, match="ambiguous"):
        MapFiles([folder]).find("toy")
    assert MapFiles([folder]).load("two/toy").map.id == "toy"


def test_a_map_that_is_not_the_one_of_the_index(folder: Path) -> None:
    path = folder / "one" / "toy.json"
    path.write_bytes(path.read_bytes().replace(b'"toy"', b'"tox"'))
    with pytest.raises(MapHashMismatchError) as caught:
        MapFiles([folder]).load("one/toy")
    assert caught.value.expected in str(caught.value)
    assert caught.value.found in str(caught.value)


def test_a_listed_file_that_is_missing(folder: Path) -> None:
    (folder / "one" / "toy.json").unlink()
    with pytest.raises(MapUnreachableError):
        MapFiles([folder]).load("one/toy")


@pytest.mark.parametrize("index", ["", "[]", "{}", '{"maps": 5}', '{"maps": [5]}', '{"maps": [{"id": "x"}]}',
                                   '{"maps": [{"id": "x", "sha256": "y", "file": "z", "bytes": 1}]}'])  # fmt: skip
def test_an_index_that_is_none(folder: Path, index: str) -> None:
    (folder / "index.json").write_text(index)
    with pytest.raises(MapInvalidError):
        MapFiles([folder])


@pytest.mark.parametrize("id", ["\ud800", "a b", "a\nb", "../a", "", "x" * 201, None])
def test_an_id_that_is_none(folder: Path, id: str | None) -> None:
    index = folder / "index.json"
    [entry] = json.loads(index.read_bytes())["maps"]
    index.write_text(json.dumps({"maps": [{**entry, "id": id}]}))
    with pytest.raises(MapInvalidError, match="is not an id"):
        MapFiles([folder])


def test_the_first_folder_wins(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(folder, other, dirs_exist_ok=True)
    assert MapFiles([other, folder]).find("one/toy").path == other / "one" / "toy.json"
    assert MapFiles([folder / "missing", folder]).find("one/toy").path == folder / "one" / "toy.json"


def test_folders_of_the_environment_come_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAFGATE_MAPS", str(folder))
    assert default_folders()[0] == folder
    assert MapFiles().find("one/toy").path.is_relative_to(folder)


def test_the_users_own_folder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAFGATE_MAPS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert own_folder() == tmp_path / "data" / "leafgate" / "maps"
    assert own_folder() in default_folders()
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert own_folder().is_absolute()
    monkeypatch.setenv("LEAFGATE_MAPS", f"{folder}:{tmp_path}")
    assert own_folder() == folder


def test_one_map_under_two_ids_is_found_by_its_digest(folder: Path) -> None:
    [entry] = list_folder(folder)
    twice = [entry, replace(entry, id="two/toy")]
    assert entry.digest is not None
    assert find_named(twice, entry.digest) is entry
    assert find_named(twice, "sha256:" + "0" * 64) is None
    assert find_named(twice, "two/toy") is twice[1]


def test_a_folder_without_an_index_has_no_maps(tmp_path: Path) -> None:
    assert list_folder(tmp_path / "missing") == []


def test_each_map_is_loaded_once(folder: Path) -> None:
    files = MapFiles([folder])
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(files.load("one/toy"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(map(id, found))) == 1


TOY = (Path(__file__).resolve().parents[3] / "maps" / "toy.json").read_bytes()
OTHER = TOY.replace(b'"id":"toy"', b'"id":"tox"')


def add(folder: Path, raw: bytes = TOY, id: str = "me/toy", replace: bool = False) -> bool:
    return add_map(folder, raw, id=id, source="a test", licence="MIT", replace=replace)[1]


def test_a_new_folder(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "maps"
    assert add(folder)
    [entry] = list_folder(folder)
    assert (entry.id, entry.digest, entry.bytes) == ("me/toy", digest_of(TOY), len(TOY))
    assert (entry.source, entry.licence) == ("a test", "MIT")
    assert MapFiles([folder]).load("toy").encode("the cat") == [261, 264]


def test_the_same_again_changes_nothing(tmp_path: Path) -> None:
    add(tmp_path)
    before = (tmp_path / "index.json").stat().st_mtime_ns
    assert not add(tmp_path)
    assert (tmp_path / "index.json").stat().st_mtime_ns == before
    assert not (tmp_path / "index.json.bak").exists()


def test_a_lost_file_is_put_back(tmp_path: Path) -> None:
    add(tmp_path)
    list_folder(tmp_path)[0].path.unlink()
    assert add(tmp_path)
    assert MapFiles([tmp_path]).load("me/toy").map.digest == digest_of(TOY)


def test_another_map_with_the_same_id(tmp_path: Path) -> None:
    add(tmp_path)
    with pytest.raises(ConfigError, match="--replace"):
        add(tmp_path, OTHER)
    assert [entry.digest for entry in list_folder(tmp_path)] == [digest_of(TOY)]
    assert add(tmp_path, OTHER, replace=True)
    assert [entry.digest for entry in list_folder(tmp_path)] == [digest_of(OTHER)]


def test_the_index_before_still_works(tmp_path: Path) -> None:
    add(tmp_path)
    add(tmp_path, OTHER, replace=True)
    (tmp_path / "index.json.bak").replace(tmp_path / "index.json")
    assert MapFiles([tmp_path]).load("me/toy").map.digest == digest_of(TOY)


def test_other_entries_stay(tmp_path: Path) -> None:
    add(tmp_path, id="b/toy")
    add(tmp_path, OTHER, id="a/toy")
    listed = json.loads((tmp_path / "index.json").read_text())["maps"]
    assert [entry["id"] for entry in listed] == ["a/toy", "b/toy"]


def test_no_half_files_stay(tmp_path: Path) -> None:
    add(tmp_path)
    names = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert names == [".lock", "index.json", f"toy-{digest_of(TOY)[7:19]}.json"]


def test_many_at_the_same_moment(tmp_path: Path) -> None:
    threads = [threading.Thread(target=add, args=(tmp_path, TOY, f"me/toy{i}")) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry.id for entry in list_folder(tmp_path)} == {f"me/toy{i}" for i in range(12)}


def test_an_index_that_is_none_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text("mine")
    with pytest.raises(MapInvalidError):
        add(tmp_path)
    assert (tmp_path / "index.json").read_text() == "mine"


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file"):
        add(tmp_path / "file")
    with pytest.raises(ConfigError, match="file"):
        add(tmp_path / "file" / "maps")


@pytest.mark.parametrize("id", ["toy", "me/toy", "a/b/c", "Qwen/Qwen2.5-7B_x", "0/1", "index"])
def test_ids(id: str) -> None:
    assert check_map_id(id) == id


@pytest.mark.parametrize(
    "id",
    [
        "",
        "/",
        "/etc/x",
        "../x",
        "a/../b",
        "a//b",
        "a/",
        ".hidden",
        "a/.b",
        "a b",
        "a\\b",
        "é",
        "a\n",
        "C:/x",
        "a" * 201,
        "-x",
    ],
)
def test_no_ids(id: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="owner/name"):
        add(tmp_path / "maps", id=id)
    assert not (tmp_path / "maps").exists()


PATIENCE = 60


class Gate:
    """A load that waits until it is opened, and counts how often it ran."""

    def __init__(self, result: Any = "loaded") -> None:
        self.runs = 0
        self.begun = threading.Event()
        self.opened = threading.Event()
        self._result = result

    def __call__(self) -> Any:
        self.runs += 1
        self.begun.set()
        assert self.opened.wait(PATIENCE)
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result


class HandClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def in_threads(number: int, work: Callable[[], Any]) -> tuple[list[threading.Thread], list[Any]]:
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads, results


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def fail(error: BaseException) -> Callable[[], Any]:
    def load() -> Any:
        raise error

    return load


def never() -> Any:
    raise AssertionError("this must not be loaded")


def test_many_ask_and_one_loads() -> None:
    loads: MapLoads[object] = MapLoads()
    gate = Gate(object())
    threads, found = in_threads(12, lambda: loads.get("a", gate))
    gate.begun.wait(PATIENCE)
    gate.opened.set()
    join(threads)
    assert gate.runs == 1
    assert len(found) == 12
    assert len(set(map(id, found))) == 1
    assert loads.get("a", never) is found[0]


def test_all_who_wait_hear_of_a_failure() -> None:
    loads: MapLoads[str] = MapLoads(remember_failure_seconds=60)
    gate = Gate(MapInvalidError("broken"))
    threads, found = in_threads(6, lambda: loads.get("a", gate))
    gate.begun.wait(PATIENCE)
    gate.opened.set()
    join(threads)
    assert gate.runs == 1
    assert [str(error) for error in found] == ["broken"] * 6


def test_another_key_is_not_held_up() -> None:
    loads: MapLoads[str] = MapLoads()
    gate = Gate()
    threads, _ = in_threads(1, lambda: loads.get("slow", gate))
    gate.begun.wait(PATIENCE)
    assert loads.get("quick", lambda: "here") == "here"
    assert loads.ready("slow") is None
    gate.opened.set()
    join(threads)
    assert loads.ready("slow") == "loaded"


def test_a_failure_is_remembered_for_a_while() -> None:
    clock = HandClock()
    loads: MapLoads[str] = MapLoads(remember_failure_seconds=60, clock=clock)
    with pytest.raises(MapInvalidError, match="broken"):
        loads.get("a", fail(MapInvalidError("broken")))
    clock.now = 59.5
    assert loads.retry_after("a") == pytest.approx(0.5)
    with pytest.raises(MapInvalidError, match="broken"):
        loads.get("a", never)
    assert loads.get("b", lambda: "other") == "other"
    clock.now = 60
    assert loads.retry_after("a") == 0
    assert loads.get("a", lambda: "mended") == "mended"


def test_a_remembered_failure_does_not_grow() -> None:
    loads: MapLoads[str] = MapLoads(remember_failure_seconds=60)

    def depth() -> int:
        with pytest.raises(MapInvalidError) as caught:
            loads.get("a", fail(MapInvalidError("broken")))
        return len(caught.traceback)

    depth()
    assert depth() == depth()


def test_without_a_memory_for_failures_the_next_one_tries_again() -> None:
    loads: MapLoads[str] = MapLoads()
    with pytest.raises(MapInvalidError):
        loads.get("a", fail(MapInvalidError("broken")))
    assert loads.retry_after("a") == 0
    assert loads.get("a", lambda: "fine") == "fine"


def test_a_panic_reaches_those_who_wait() -> None:
    class Panic(BaseException):
        pass

    with pytest.raises(Panic):
        MapLoads[str]().get("a", fail(Panic()))


def test_too_slow_is_unreachable_and_not_started_twice() -> None:
    clock = HandClock()
    loads: MapLoads[str] = MapLoads(wait_seconds=0.01, remember_failure_seconds=60, clock=clock)
    gate = Gate()
    with pytest.raises(MapUnreachableError, match=r"within 0\.01 s"):
        loads.get("a", gate)
    with pytest.raises(MapUnreachableError, match="within"):
        loads.get("a", never)
    clock.now = 61
    with pytest.raises(MapUnreachableError, match="within"):
        loads.get("a", gate)
    assert gate.runs == 1


def test_what_comes_late_is_kept() -> None:
    loads: MapLoads[str] = MapLoads(wait_seconds=0.01, remember_failure_seconds=60)
    gate = Gate()
    with pytest.raises(MapUnreachableError):
        loads.get("a", gate)
    landed = threading.Event()
    gate.opened.set()
    for _ in range(PATIENCE * 100):
        if loads.ready("a") is not None:
            break
        landed.wait(0.01)
    assert loads.get("a", never) == "loaded"
    assert loads.retry_after("a") == 0


def test_the_longest_unused_goes_first() -> None:
    loads: MapLoads[str] = MapLoads(keep=2)
    for key in ("a", "b"):
        loads.get(key, lambda: "x")
    loads.get("a", never)
    loads.get("c", lambda: "x")
    assert [loads.ready(key) for key in ("a", "b", "c")] == ["x", None, "x"]


def test_pinned_ones_stay_and_do_not_count() -> None:
    loads: MapLoads[str] = MapLoads(keep=1, pinned=["p", "q"])
    for key in ("p", "q", "a", "b"):
        loads.get(key, lambda: "x")
    assert [loads.ready(key) for key in ("p", "q", "a", "b")] == ["x", "x", None, "x"]


def test_nothing_is_kept_where_nothing_may_be() -> None:
    loads: MapLoads[str] = MapLoads(keep=0)
    assert loads.get("a", lambda: "first") == "first"
    assert loads.get("a", lambda: "second") == "second"
