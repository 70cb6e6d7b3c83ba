"""The race's documents are what its kept results make; a peer that is missing is told, and does not end the run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "race"))

import catalogs  # noqa: E402  the race is a folder of scripts
import docs  # noqa: E402
import goals  # noqa: E402
import in_process  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import tables  # noqa: E402

KEPT: Final = results.read()


@pytest.mark.parametrize("name", docs.make(KEPT))
def test_the_documents_are_made_of_the_kept_results(name: str) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == docs.make(KEPT)[name], "run just bench-page"


def test_the_kept_results_are_of_a_full_run_with_every_peer() -> None:
    assert not KEPT["quick"]
    assert KEPT["peers"] == dict.fromkeys(peers.PACKAGES)
    assert all(goal.met is not None for goal in goals.judge(KEPT))


def test_writing_results_again_changes_nothing(tmp_path: Path) -> None:
    results.write(KEPT, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == results.KEPT.read_bytes()


def test_a_peer_that_cannot_be_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PEERS", tmp_path)
    monkeypatch.setattr(peers, "UV", tmp_path / "no-uv")
    problem = peers.install(peers.FASTMCP)
    assert problem == "not installed: FileNotFoundError"
    without = {**KEPT, "peers": {**KEPT["peers"], peers.FASTMCP: problem}}
    assert f"{peers.FASTMCP}: {problem}" in report.failures(without)


def test_a_library_that_ends_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(in_process.COMMANDS, in_process.PEER, (sys.executable, "-c", ""))
    with (
        pytest.raises(in_process.StuckError, match="ended"),
        in_process.library(in_process.PEER, tmp_path / "catalog.json"),
    ):
        pass


def test_leafgate_answers_as_a_library_under_measurement(tmp_path: Path) -> None:
    with in_process.library(in_process.OWN, catalogs.catalog_file(20, tmp_path)) as one:
        assert one.ask("refresh")["tools"] == 21  # and the journal
        assert ["journal", "read_journal"] in one.ask("browse", queries=["read the garden journal"])["found"][0]
        assert one.ask("execute", chars=0, times=1)["text"].startswith("It is currently 14:")


def test_a_run_without_peers_is_reported_too() -> None:
    alone = _alone(KEPT)
    assert docs.make(alone)["benchmarks.md"]
    assert any(goal.verdict == "not measured" for goal in goals.judge(alone))
    assert len(tables.all_grids(alone)) == len(tables.all_grids(KEPT))


def _alone(found: dict[str, Any]) -> dict[str, Any]:
    """The results as they are where no peer can be installed."""
    own = {part: _own(figures) for part, figures in found["library"].items() if part in ("calls", "tokens", "recall")}
    sizes = {tools: _own(figures) for tools, figures in found["library"]["sizes"].items()}
    calls = {
        way: {**each, "eras": {era: _own(targets) for era, targets in each["eras"].items()}}
        for way, each in found["calls"].items()
    }
    library = {**found["library"], **own, "sizes": sizes}
    return {**found, "library": library, "calls": calls, "starts": _own(found["starts"])}


def _own(named: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in named.items() if name == "direct" or name.startswith("leafgate")}
