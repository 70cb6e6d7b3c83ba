"""What happened when. In: the events of now. Out: samples for a chart: by the second, and by the minute for a day.

Touches the clock it is handed. Bounded: old samples fall out, and a span of time in which nothing happened has none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from leafgate.ports import LeafReport
from leafgate.telemetry.histogram import Histogram
from leafgate.telemetry.labels import OTHER, label

SECONDS_KEPT: Final = 600
MINUTES_KEPT: Final = 1_440
MAX_SERVERS: Final = 64


class _Server:
    """One server within one sample."""

    __slots__ = ("durations", "errors")

    def __init__(self) -> None:
        self.durations = Histogram()
        self.errors = 0

    def as_json(self) -> dict[str, Any]:
        p50, p95 = self.durations.quantile(0.5), self.durations.quantile(0.95)
        return {"calls": self.durations.total, "errors": self.errors, "p50": p50, "p95": p95}


class _Sample:
    """What happened within one second, or one minute, that began at `start`."""

    __slots__ = ("calls", "errors", "leaf", "rejected", "servers", "shim", "skipped", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.leaf = self.shim = self.skipped = self.rejected = self.calls = self.errors = 0
        self.servers: dict[str, _Server] = {}

    def server(self, name: str) -> _Server:
        found = self.servers.get(name)
        if found is None:
            shown = label(name) if len(self.servers) < MAX_SERVERS else OTHER
            found = self.servers.setdefault(shown, _Server())
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "t": self.start,
            "leaf": self.leaf,
            "shim": self.shim,
            "skipped": self.skipped,
            "rejected": self.rejected,
            "calls": self.calls,
            "errors": self.errors,
            "upstreams": {name: server.as_json() for name, server in [*self.servers.items()]},
        }


class _Ring:
    """The last so many samples of one width."""

    def __init__(self, width: int, kept: int) -> None:
        self._width = width
        self._kept = kept
        self._samples: deque[_Sample] = deque(maxlen=kept)

    def at(self, now: float) -> _Sample:
        """The sample that `now` belongs to. A clock that is set back does not reopen old samples."""
        start = int(now) // self._width * self._width
        if not self._samples or self._samples[-1].start < start:
            self._samples.append(_Sample(start))
        return self._samples[-1]

    def since(self, moment: float, now: float) -> list[dict[str, Any]]:
        oldest = max(moment, now - self._kept * self._width)
        return [sample.as_json() for sample in [*self._samples] if sample.start + self._width > oldest]


class History:
    """Both rings."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds = _Ring(1, SECONDS_KEPT)
        self._minutes = _Ring(60, MINUTES_KEPT)

    def leaf(self, report: LeafReport) -> None:
        for sample in self._now():
            if report.outcome == "leaf":
                sample.leaf += 1
            elif report.outcome == "shim":
                sample.shim += 1
            else:
                sample.skipped += 1
            sample.rejected += report.rejected is not None

    def call(self, *, failed: bool) -> None:
        for sample in self._now():
            sample.calls += 1
            sample.errors += failed

    def upstream(self, server: str, seconds: float, *, failed: bool) -> None:
        for sample in self._now():
            found = sample.server(server)
            found.durations.add(seconds)
            found.errors += failed

    def as_json(self, since: float = 0.0) -> dict[str, Any]:
        """The samples that were not over at `since`; so the last one that a reader has may come again, with more.

        A day of many servers takes a while to write down: a thread may do it while events go on coming.
        """
        now = self._clock()
        seconds, minutes = self._seconds.since(since, now), self._minutes.since(since, now)
        return {"now": round(now, 3), "seconds": seconds, "minutes": minutes}

    def _now(self) -> tuple[_Sample, _Sample]:
        now = self._clock()
        return self._seconds.at(now), self._minutes.at(now)
