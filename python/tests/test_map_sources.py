"""The shelf that a configuration describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leafgate.cli.map_sources import make_shelf
from leafgate.model.errors import LeafgateError, MapUnreachableError
from leafgate.model.leaf import digest_of
from leafgate.storage.map_files import CARD_MAP, MapFiles

MAPS = Path(__file__).resolve().parents[2] / "maps"
TOY = (MAPS / "toy.json").read_bytes()
DIGEST = digest_of(TOY)
OTHER = "sha256:" + "0" * 64
URL = {"url": "https://maps.example/theirs.json", "sha256": OTHER, "id": "theirs"}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A map of one's own, which is not the bundled one."""
    path = tmp_path / "mine.json"
    path.write_bytes(TOY.replace(b'"id":"toy"', b'"id":"me/mine"'))
    return path


def ids(settings: dict[str, Any], default: str | None = None) -> list[str]:
    return [source.id for source in make_shelf(settings, default).entries()]


def test_nothing_configured() -> None:
    shelf = make_shelf({}, None)
    assert [source.id for source in shelf.entries()] == [entry.id for entry in MapFiles().list()]
    assert shelf.default is None


def test_everything_configured(mine: Path) -> None:
    settings = {"files": [mine], "urls": [URL], "allow": ["theirs", "me/mine", "qwen2"]}
    assert ids(settings) == ["me/mine", "qwen/qwen2", "theirs"]
    assert ids(settings, "toy") == ["me/mine", "qwen/qwen2", "theirs", "toy"]
    assert make_shelf({"files": [str(mine)]}, "mine").load("me/mine").encode("the cat") == [261, 264]


def test_a_url_may_do_without_an_id() -> None:
    assert OTHER in ids({"urls": [{"url": URL["url"], "sha256": OTHER}]})


def test_the_default_by_any_name(mine: Path) -> None:
    for name in ("toy", DIGEST):
        assert make_shelf({}, name).default == DIGEST
    assert make_shelf({}, str(mine)).default == digest_of(mine.read_bytes())
    assert make_shelf({}, str(mine)).load("me/mine").map.id == "me/mine"


def test_a_map_of_ones_own_takes_the_place_of_a_bundled_one(tmp_path: Path) -> None:
    own = tmp_path / "toy.json"
    own.write_bytes(TOY + b"\n")
    assert make_shelf({"files": [own]}, "toy").default == digest_of(TOY + b"\n")


def test_cards_can_be_counted_though_their_map_is_not_offered() -> None:
    shelf = make_shelf({"allow": ["toy"]}, None)
    assert shelf.load(CARD_MAP).map.digest not in shelf.offered


@pytest.mark.parametrize(
    ("settings", "default"),
    [
        ({"files": ["missing.json"]}, None),
        ({"files": [__file__]}, None),
        ({"urls": [{"url": "https://maps.example/x", "sha256": "12"}]}, None),
        ({"allow": ["nothing"]}, None),
        ({}, "nothing"),
        ({}, "missing.json"),
    ],
)
def test_what_is_wrong_ends_the_start(settings: dict[str, Any], default: str | None) -> None:
    with pytest.raises(LeafgateError):
        make_shelf(settings, default)


def test_the_known_maps_are_named() -> None:
    with pytest.raises(MapUnreachableError, match="qwen/qwen2"):
        make_shelf({}, "qwen3")
