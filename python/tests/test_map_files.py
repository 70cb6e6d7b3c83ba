"""Finding maps on disk: by id, short id, digest and path; checked against the index; loaded once."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leafgate.model.errors import MapHashMismatchError, MapInvalidError, MapUnreachableError
from leafgate.storage.map_files import MapFiles, default_folders, find_named, list_folder, own_folder

MAPS = Path(__file__).resolve().parents[2] / "maps"


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
    with pytest.raises(MapInvalidError, match="is no id"):
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
