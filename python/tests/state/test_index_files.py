"""The index cache: what it gives back is what was built, and a bad file is no file."""

import os
from pathlib import Path

import numpy as np
import pytest
from routing_catalog import SMALL, tool

from leafgate.browse.index import CatalogIndex, build_index
from leafgate.browse.rank import Router
from leafgate.model.tool import SelectableItem
from leafgate.state.routing import MAX_FILES, IndexFiles, default_directory

QUERIES = ("list files", "serach papres", "send someone an email", "move_file")
ITEMS = tuple(sorted(SMALL, key=lambda item: item.id))


class Counting(IndexFiles):
    hits = 0

    def load(self, items: tuple[SelectableItem, ...], model: str) -> CatalogIndex | None:  # type: ignore[override]
        found = super().load(items, model)
        self.hits += found is not None
        return found


def answers(router: Router) -> list[object]:
    return [router.route(query) for query in QUERIES]


@pytest.mark.parametrize("lexical", [True, False])
def test_a_cached_index_answers_alike(tmp_path: Path, lexical: bool) -> None:
    store = Counting(tmp_path)
    options = {"embedder": None} if lexical else {}
    first = Router(SMALL, store=store, **options)  # type: ignore[arg-type]
    second = Router(SMALL[::-1], store=store, **options)  # type: ignore[arg-type]
    assert store.hits == 1
    assert answers(first) == answers(second)
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]


def test_a_changed_catalog_is_another_file(tmp_path: Path) -> None:
    store = Counting(tmp_path)
    Router(SMALL, store=store)
    Router([*SMALL[1:], tool("list_files", "Lists the files of a folder.", "disk")], store=store)
    Router(SMALL, store=store, embedder=None)
    assert store.hits == 0
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("damage", ["empty", "short", "noise", "pickle", "foreign", "directory"])
def test_a_bad_file_is_ignored_and_replaced(tmp_path: Path, damage: str) -> None:
    store = Counting(tmp_path)
    good = Router(SMALL, store=store)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    if damage == "directory":
        path.unlink()
        path.mkdir()
    elif damage == "pickle":
        np.save(path.with_suffix(".npy"), np.array([object()], dtype=object), allow_pickle=True)
        os.replace(path.with_suffix(".npy"), path)
    elif damage == "foreign":
        np.savez(path, format=np.zeros(3, np.uint8))
    else:
        middle = len(content) // 2
        noisy = content[:middle] + bytes(64) + content[middle + 64 :]
        path.write_bytes({"empty": b"", "short": content[:-50], "noise": noisy}[damage])
    again = Router(SMALL, store=store)
    assert store.hits == 0
    assert answers(again) == answers(good)


def test_a_directory_that_cannot_be_written_costs_nothing() -> None:
    assert Router(SMALL, store=IndexFiles(Path("/dev/null/nowhere"))).route("list files").candidates


def test_an_empty_catalog_can_be_kept(tmp_path: Path) -> None:
    IndexFiles(tmp_path).save(build_index([], None))
    assert IndexFiles(tmp_path).load([], "") is not None


def test_the_longest_unused_files_go_first(tmp_path: Path) -> None:
    store = Counting(tmp_path)
    for age in range(MAX_FILES + 3):
        Router([tool(f"tool_{age}")], store=store, embedder=None)
        newest = max(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (1_000 + age, 1_000 + age))
    assert len(list(tmp_path.iterdir())) == MAX_FILES
    Router([tool(f"tool_{MAX_FILES + 2}")], store=store, embedder=None)
    assert store.hits == 1


def test_the_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert default_directory() == Path("/c/leafgate/index")
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert default_directory().parts[-3:] == (".cache", "leafgate", "index")
