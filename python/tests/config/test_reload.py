"""The configuration, followed while something runs: real files that change, vanish and break."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from leafgate.config.load import load_config
from leafgate.config.models import Config
from leafgate.config.reload import Reloader
from leafgate.model.errors import ConfigError

pytestmark = pytest.mark.anyio

PATIENCE = 60


def written(path: Path, budget: object) -> Path:
    path.write_text(f"budget: {budget}\nmcpServers: {{echo: {{command: cat}}}}\n")
    return path


class Applied:
    """What was prepared and adopted, and what refuses."""

    def __init__(self) -> None:
        self.budgets: list[int] = []
        self.refuse = False

    def prepare(self, config: Config) -> int:
        if self.refuse:
            raise ConfigError("not this one")
        return config.budget

    def adopt(self, budget: int) -> list[str]:
        self.budgets.append(budget)
        return []


@asynccontextmanager
async def following(path: Path, applied: Applied) -> AsyncIterator[None]:
    reloader = Reloader(load_config(path), lambda: load_config(path), applied.prepare, applied.adopt, look_seconds=0.02)
    async with anyio.create_task_group() as group:
        group.start_soon(reloader.run)
        await until(lambda: signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL)
        yield
        group.cancel_scope.cancel()


async def until(condition: object) -> None:
    assert callable(condition)
    with anyio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110  files have no events here
            await anyio.sleep(0.02)


async def test_a_changed_file_is_applied(tmp_path: Path) -> None:
    path, applied = written(tmp_path / "leafgate.yaml", 500), Applied()
    async with following(path, applied):
        written(path, 600)
        await until(lambda: applied.budgets == [600])
        written(path, 700)
        await until(lambda: applied.budgets == [600, 700])


async def test_a_file_that_stays_is_not_read_again(tmp_path: Path) -> None:
    path, applied = written(tmp_path / "leafgate.yaml", 500), Applied()
    async with following(path, applied):
        await anyio.sleep(0.3)
        assert applied.budgets == []


async def test_a_signal_reads_it_again(tmp_path: Path) -> None:
    path, applied = written(tmp_path / "leafgate.yaml", 500), Applied()
    async with following(path, applied):
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: applied.budgets == [500])


@pytest.mark.parametrize("broken", ["budget: [", "budget: many\n", "bugdet: 500\n", "\x00"])
async def test_a_broken_file_changes_nothing_and_is_told(
    tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, applied = written(tmp_path / "leafgate.yaml", 500), Applied()
    async with following(path, applied):
        path.write_text(broken)
        await until(lambda: "keeps the previous one" in caplog.text)
        assert applied.budgets == []
        assert "leafgate.yaml" in caplog.text
        written(path, 800)
        await until(lambda: applied.budgets == [800])


async def test_a_file_that_is_gone_for_a_moment_changes_nothing(tmp_path: Path) -> None:
    path, applied = written(tmp_path / "leafgate.yaml", 500), Applied()
    async with following(path, applied):
        path.unlink()
        await anyio.sleep(0.2)
        written(path, 900)
        await until(lambda: applied.budgets == [900])


async def test_what_cannot_be_prepared_is_not_adopted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, applied = written(tmp_path / "leafgate.yaml", 500), Applied()
    applied.refuse = True
    async with following(path, applied):
        written(path, 600)
        await until(lambda: "not this one" in caplog.text)
        assert applied.budgets == []


async def test_a_change_while_an_earlier_one_is_being_applied_is_not_lost(tmp_path: Path) -> None:
    path, applied = written(tmp_path / "leafgate.yaml", 500), Applied()

    def prepare(config: Config) -> int:
        if config.budget == 600:
            written(path, 700)  # an editor saves again while the first version is being worked out
        return config.budget

    applied.prepare = prepare  # type: ignore[method-assign]
    async with following(path, applied):
        written(path, 600)
        await until(lambda: applied.budgets == [600, 700])
