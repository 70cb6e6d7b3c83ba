"""Putting maps into a folder: the index is always whole, nothing is lost, and wrong ids do not leave the folder."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from leafgate.model.errors import ConfigError, MapInvalidError
from leafgate.model.leaf import digest_of
from leafgate.storage.map_files import MapFiles, list_folder
from leafgate.storage.map_folder import add_map, check_map_id

TOY = (Path(__file__).resolve().parents[2] / "maps" / "toy.json").read_bytes()
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
