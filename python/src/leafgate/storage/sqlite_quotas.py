"""Counts calls in an SQLite file, bounded. In: an owner and scopes. Out: a breach, or none and the calls are counted.

Touches the file and the clock it is given. Exact over all processes that share the file. A session's sum, which here
outlives the process, ends after a day without a call.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from functools import partial

from leafgate.admission.quota import WINDOW, RateLimits, Usage, breach
from leafgate.ports import Clock, QuotaBreach
from leafgate.storage.owner_name import name_of
from leafgate.storage.quotas import MAX_COUNTERS, SESSION_SECONDS
from leafgate.storage.sqlite_file import SqliteFile, keep_newest, next_tick


class SqliteQuotas:
    """Fills the Quotas port. `space` keeps the counts of different limits apart, where they meet in one file."""

    def __init__(
        self,
        file: SqliteFile,
        limits: RateLimits,
        *,
        space: str = "",
        clock: Clock = time.time,
        max_counters: int = MAX_COUNTERS,
    ) -> None:
        self._file = file
        self._limits = limits
        self._space = space
        self._clock = clock
        self._max_counters = max_counters

    async def take(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        return await self._judged(owner, scopes, counted=True)

    async def peek(self, owner: str, scopes: Sequence[str]) -> QuotaBreach | None:
        return await self._judged(owner, scopes, counted=False)

    async def _judged(self, owner: str, scopes: Sequence[str], *, counted: bool) -> QuotaBreach | None:
        limited = [scope for scope in scopes if self._limits.limit_of(scope) is not None]
        if not limited:
            return None
        return await self._file.run(partial(self._judge, name_of(owner), limited, counted))

    def _judge(
        self, owner: str, scopes: Sequence[str], counted: bool, connection: sqlite3.Connection
    ) -> QuotaBreach | None:
        now = self._clock()
        found = [(scope, self._limits.limit_of(scope), self._usage(connection, owner, scope, now)) for scope in scopes]
        for scope, limit, usage in found:
            broken = None if limit is None else breach(scope, limit, usage, now)
            if broken is not None:
                return broken
        for scope, limit, usage in found:
            if counted and limit is not None:
                self._keep(connection, owner, scope, usage.spent(limit, now), now)
        return None

    def _usage(self, connection: sqlite3.Connection, owner: str, scope: str, now: float) -> Usage:
        row = connection.execute(
            "SELECT recent, total, last FROM usage WHERE space = ? AND owner = ? AND scope = ?",
            (self._space, owner, scope),
        ).fetchone()
        if row is None:
            return Usage()
        recent, total, last = row
        # A clock that was set back would let calls of the future count for hours.
        within = tuple(each for each in json.loads(recent) if abs(now - each) < WINDOW)
        return Usage(within, total if abs(now - last) < SESSION_SECONDS else 0)

    def _keep(self, connection: sqlite3.Connection, owner: str, scope: str, usage: Usage, now: float) -> None:
        tick = next_tick(connection)
        row = (self._space, owner, scope, json.dumps(usage.recent), usage.total, now, tick)
        connection.execute("INSERT OR REPLACE INTO usage VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        keep_newest(connection, "usage", self._max_counters, tick)
