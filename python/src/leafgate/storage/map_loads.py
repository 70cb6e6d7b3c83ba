"""One load per map, however many threads ask for it. In: a key and how to load it. Out: what was loaded, or why not.

Touches threads, and the clock that it is given. No lock is held while anything loads. A load that was given up as too
slow goes on by itself, is not started a second time, and what it brings is kept.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from leafgate.model.errors import MapUnreachableError
from leafgate.ports import Clock

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class _Failure:
    error: BaseException
    until: float


class MapLoads(Generic[Loaded]):
    """Keeps the `keep` results that were used last, and the pinned ones besides; failures for some seconds."""

    def __init__(
        self,
        *,
        keep: int | None = None,
        pinned: Collection[str] = (),
        wait_seconds: float | None = None,
        remember_failure_seconds: float = 0,
        clock: Clock = time.monotonic,
    ) -> None:
        self._keep = keep
        self._pinned = frozenset(pinned)
        self._wait_seconds = wait_seconds
        self._remember_failure_seconds = remember_failure_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Loaded] = OrderedDict()
        self._under_way: dict[str, Future[Loaded]] = {}
        self._failures: dict[str, _Failure] = {}

    def ready(self, key: str) -> Loaded | None:
        """What is loaded under this key already. Never waits for a load."""
        with self._lock:
            return self._used(key)

    def get(self, key: str, load: Callable[[], Loaded]) -> Loaded:
        """What is loaded under this key; loads it if need be. Raises what the load raised, or MapUnreachableError."""
        with self._lock:
            found = self._used(key)
            if found is not None:
                return found
            coming = self._begin_or_join(key, load)
        try:
            return coming.result(self._wait_seconds)
        except TimeoutError:
            if coming.done():
                raise
            error = MapUnreachableError(f"{key}: not loaded within {self._wait_seconds:g} s")
            with self._lock:
                if key in self._under_way:
                    self._remember(key, error)
            raise error from None

    def retry_after(self, key: str) -> float:
        """The seconds for which a failure will still be remembered; 0 where there is none."""
        with self._lock:
            failure = self._failures.get(key)
            return 0.0 if failure is None else max(0.0, failure.until - self._clock())

    def clear(self) -> None:
        """Forgets what was loaded and what failed."""
        with self._lock:
            self._kept.clear()
            self._failures.clear()

    def _used(self, key: str) -> Loaded | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def _begin_or_join(self, key: str, load: Callable[[], Loaded]) -> Future[Loaded]:
        failure = self._failures.get(key)
        if failure is not None and self._clock() < failure.until:
            # One object is raised many times: without this, each time would make its traceback longer.
            raise failure.error.with_traceback(None)
        if key not in self._under_way:
            coming: Future[Loaded] = Future()
            # Its own thread, so that whoever asked first is not held longer than whoever asked last.
            threading.Thread(target=self._run, args=(key, load, coming), name="leafgate-map-load", daemon=True).start()
            self._under_way[key] = coming
        return self._under_way[key]

    def _run(self, key: str, load: Callable[[], Loaded], coming: Future[Loaded]) -> None:
        try:
            loaded = load()
        except BaseException as error:  # handed on to those who wait; a panic of a tokenizer is no Exception
            with self._lock:
                del self._under_way[key]
                self._remember(key, error)
            coming.set_exception(error)
        else:
            with self._lock:
                del self._under_way[key]
                self._failures.pop(key, None)
                self._put(key, loaded)
            coming.set_result(loaded)

    def _remember(self, key: str, error: BaseException) -> None:
        if self._remember_failure_seconds > 0:
            self._failures[key] = _Failure(error, self._clock() + self._remember_failure_seconds)

    def _put(self, key: str, loaded: Loaded) -> None:
        self._kept[key] = loaded
        if self._keep is None:
            return
        unpinned = [kept for kept in self._kept if kept not in self._pinned]
        for oldest in unpinned[: max(0, len(unpinned) - self._keep)]:
            del self._kept[oldest]
