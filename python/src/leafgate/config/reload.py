"""Follows the configuration while the gateway runs: on SIGHUP, or when one of its files changes, it is read again."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import anyio
from anyio import to_thread

from leafgate.config.models import Config
from leafgate.model.errors import LeafgateError

log = logging.getLogger("leafgate.config")

LOOK_SECONDS: Final = 1.0

Prepared = TypeVar("Prepared")
Stamp = tuple[tuple[Path, int, int, int], ...]


class Reloader(Generic[Prepared]):
    """Reads the configuration again on SIGHUP, or when one of its files changes.

    `load` reads the file as at the start, flags included. `prepare` makes a plan of it in a thread, and `adopt`
    switches to the plan in one step and returns notices. A file that is wrong changes nothing: its problems are logged.
    """

    def __init__(
        self,
        current: Config,
        load: Callable[[], Config],
        prepare: Callable[[Config], Prepared],
        adopt: Callable[[Prepared], Sequence[str]],
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._files = current.files
        self._load = load
        self._prepare = prepare
        self._adopt = adopt
        self._look_seconds = look_seconds
        self._stamp = _stamp(self._files)
        self._signaled = anyio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch_signals)
            while True:
                with anyio.move_on_after(self._look_seconds):
                    await self._signaled.wait()
                is_signaled, self._signaled = self._signaled.is_set(), anyio.Event()
                stamp = await to_thread.run_sync(_stamp, self._files)
                if is_signaled or stamp != self._stamp:
                    self._stamp = stamp
                    await self._reload()

    async def _reload(self) -> None:
        try:
            config = await to_thread.run_sync(self._load)
            notices = self._adopt(await to_thread.run_sync(self._prepare, config))
        except LeafgateError as error:
            log.error("the configuration cannot be used, the gateway keeps the previous one:\n%s", error)
            return
        except Exception:
            log.exception("the configuration cannot be used, the gateway keeps the previous one")
            return
        # As the files were before they were read, so that a change during the reading is noticed too.
        before = {each[0]: each for each in self._stamp}
        stamp = await to_thread.run_sync(_stamp, config.files)
        self._files, self._stamp = config.files, tuple(before.get(each[0], each) for each in stamp)
        for notice in (*config.notices, *notices):
            log.warning("%s", notice)
        log.warning("the configuration was read again and applied")

    async def _watch_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGHUP) as signals:
            async for _ in signals:
                self._signaled.set()


def _stamp(files: Sequence[Path]) -> Stamp:
    """A value that changes with the files. A missing file has zeros: an editor may remove it for a moment."""
    stamps = []
    for path in files:
        try:
            stat = path.stat()
            stamps.append((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            stamps.append((path, 0, 0, 0))
    return tuple(stamps)
