"""Follows the configuration while the gateway runs. In: SIGHUP, or files that changed. Out: the new settings, applied.

Touches the files, and the process's SIGHUP. A file that is wrong changes nothing: it is told in the log, with its
lines, and the gateway goes on as it was.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import anyio
from anyio import to_thread

from leafgate.config.settings import Config
from leafgate.model.errors import LeafgateError

log = logging.getLogger("leafgate.config")

LOOK_SECONDS: Final = 1.0

Prepared = TypeVar("Prepared")
Stamp = tuple[tuple[Path, int, int, int], ...]


class Reloader(Generic[Prepared]):
    """`load` reads the file as at the start, flags included. `prepare` works out in a thread what it means, and `adopt`
    takes that on in one step, and says what it lacks."""

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
        self._poked = anyio.Event()

    async def run(self) -> None:
        """Lives in a task of its own, as long as the gateway does."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._hear_signals)
            while True:
                with anyio.move_on_after(self._look_seconds):
                    await self._poked.wait()
                asked, self._poked = self._poked.is_set(), anyio.Event()
                stamp = await to_thread.run_sync(_stamp, self._files)
                if asked or stamp != self._stamp:
                    self._stamp = stamp
                    await self._reload()

    async def _reload(self) -> None:
        try:
            config = await to_thread.run_sync(self._load)
            notices = self._adopt(await to_thread.run_sync(self._prepare, config))
        except LeafgateError as error:
            log.error("the configuration cannot be used, the gateway goes on as it was:\n%s", error)
            return
        except Exception:
            log.exception("the configuration cannot be used, the gateway goes on as it was")
            return
        self._files, self._stamp = config.files, await to_thread.run_sync(_known_stamp, config.files, self._stamp)
        for notice in (*config.notices, *notices):
            log.warning("%s", notice)
        log.warning("the configuration was read again and applied")

    async def _hear_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGHUP) as signals:
            async for _ in signals:
                self._poked.set()


def _known_stamp(files: Sequence[Path], before: Stamp) -> Stamp:
    """The stamp of files that were just read: as it was before that, so that what changed meanwhile is read too."""
    known = {each[0]: each for each in before}
    return tuple(known.get(each[0], each) for each in _stamp(files))


def _stamp(files: Sequence[Path]) -> Stamp:
    """What changes when a file does. An editor may remove it for a moment; then there is nothing to read yet."""
    found = []
    for path in files:
        try:
            stat = path.stat()
        except OSError:
            found.append((path, 0, 0, 0))
        else:
            found.append((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(found)
