"""State in one SQLite file. It outlives the process, and the processes of one machine may share it.

The rules are those of memory.py. Each step is one transaction.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from sqlite3 import Connection

import platformdirs

from leafgate.admission.policy import WINDOW, Limit, RateLimits, Usage, breach
from leafgate.model.envelope import Artifact
from leafgate.model.errors import StoreError
from leafgate.model.rights import QuotaBreach
from leafgate.ports import Approval, Clock, Counts, FlowRecord, SessionEvent, SessionRecord
from leafgate.state import records
from leafgate.state.memory import MemoryArtifactStore, MemoryState
from leafgate.state.sqlite_file import SqliteFile, keep_newest, next_tick, transaction

log = logging.getLogger("leafgate.state")


class SqliteState:
    """Implements State."""

    def __init__(self, path: Path) -> None:
        file = SqliteFile(path)
        self.open, self.close = file.open, file.close
        self.artifacts = lambda quota_of: SqliteArtifactStore(file, records.ArtifactLimits(quota_of=quota_of))
        self.results = partial(SqliteResultCache, file)
        self.quotas = partial(SqliteQuotas, file)
        self.browse_states = partial(SqliteBrowseStates, file)
        self.tasks = partial(SqliteTasks, file)
        self.shared_counts = partial(SqliteSharedCounts, file)
        self.sessions = partial(SqliteSessions, file)
        self.approvals = partial(SqliteApprovals, file)
        self.flows = partial(SqliteFlowRecords, file)


def user_file() -> Path:
    """Where artifacts of gateways over stdio are: on Linux under `$XDG_STATE_HOME/leafgate`, or ~/.local/state."""
    return platformdirs.user_state_path("leafgate", appauthor=False) / "artifacts.sqlite"


class UserState:
    """Implements State: artifacts and flow records are in a file of the user, everything else is in memory.

    Some clients start a gateway on stdio for each call; a later one has to find what an earlier one withheld, and what
    was read through it. The file is opened when it is first needed.
    """

    def __init__(self, path: Path) -> None:
        file, memory = SqliteFile(path), MemoryState()
        self.open, self.close = memory.open, file.close
        self.artifacts = lambda quota_of: UserArtifacts(file, records.ArtifactLimits(quota_of=quota_of))
        self.results, self.quotas, self.browse_states = memory.results, memory.quotas, memory.browse_states
        self.shared_counts, self.sessions = memory.shared_counts, memory.sessions
        self.tasks, self.approvals = memory.tasks, memory.approvals
        self.flows = partial(SqliteFlowRecords, file)


class UserArtifacts:
    """Implements ArtifactStore: in a file, and in memory while the file cannot be used, as in a read-only home."""

    def __init__(self, file: SqliteFile, limits: records.ArtifactLimits) -> None:
        self._in_file = SqliteArtifactStore(file, limits)
        self._in_memory = MemoryArtifactStore(limits)

    async def put(self, owner: str, artifact: Artifact) -> str | None:
        try:
            return await self._in_file.put(owner, artifact)
        except StoreError as error:
            log.warning("a withheld result can be read in this process only: %s", error)
            return await self._in_memory.put(owner, artifact)

    async def get(self, owner: str, handle: str) -> Artifact | None:
        artifact = await self._in_memory.get(owner, handle)
        if artifact is not None:
            return artifact
        try:
            return await self._in_file.get(owner, handle)
        except StoreError as error:
            log.warning("results that other processes withheld cannot be read: %s", error)
            return None


class SqliteArtifactStore(records.StoredArtifacts):
    """Implements ArtifactStore."""

    def __init__(
        self, file: SqliteFile, limits: records.ArtifactLimits = records.ARTIFACT_LIMITS, *, clock: Clock = time.time
    ) -> None:
        super().__init__(limits)
        self.file = file
        self._clock = clock

    async def used(self) -> int:
        """Bytes stored: content counted once, and before it is compressed."""
        return await self.file.run(_used)

    @transaction
    def _save(self, connection: Connection, owner: str, handle: str, record: records.ArtifactRecord, quota: int) -> str:
        self._drop_expired(connection)
        tick, expires = next_tick(connection), self._clock() + self._limits.ttl
        same = connection.execute(
            "UPDATE artifacts SET used = ?, expires = ? WHERE owner = ? AND identity = ? RETURNING handle",
            (tick, expires, owner, record.identity),
        ).fetchall()
        if same:
            return str(same[0][0])
        _add_content(connection, record)
        connection.execute(
            "INSERT INTO artifacts VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (owner, handle, record.identity, record.digest, record.about, record.size, tick, expires),
        )
        connection.execute(
            "INSERT INTO artifact_owners VALUES (?, ?) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes",
            (owner, record.size),
        )
        self._make_room(connection, owner, handle, quota)
        return handle

    @transaction
    def _load(self, connection: Connection, owner: str, handle: str) -> tuple[str, bytes] | None:
        self._drop_expired(connection)
        row = connection.execute(
            "SELECT about, packed FROM artifacts JOIN contents USING (digest) "
            "WHERE owner = ? AND handle = ? AND expires > ?",
            (owner, handle, self._clock()),
        ).fetchone()
        if row is None:
            return None
        tick = next_tick(connection)
        connection.execute("UPDATE artifacts SET used = ? WHERE owner = ? AND handle = ?", (tick, owner, handle))
        return str(row[0]), bytes(row[1])

    def _drop_expired(self, connection: Connection) -> None:
        """A bounded number at a time, so that no call waits for thousands. Times far ahead come from another clock."""
        now = self._clock()
        gone = "SELECT owner, handle FROM artifacts WHERE expires <= ? OR expires > ? LIMIT 200"
        for owner, handle in connection.execute(gone, (now, now + 2 * self._limits.ttl)).fetchall():
            _drop_artifact(connection, owner, handle)

    def _make_room(self, connection: Connection, owner: str, newest: str, quota: int) -> None:
        """The newest artifact may exceed its owner's quota; it is then the only one."""
        mine = "SELECT owner, handle FROM artifacts WHERE owner = ? AND handle != ? ORDER BY used LIMIT 1"
        others = "SELECT owner, handle FROM artifacts WHERE NOT (owner = ? AND handle = ?) ORDER BY used LIMIT 1"
        for used, bound, query in ((partial(_used_by, owner), quota, mine), (_used, self._limits.capacity, others)):
            while used(connection) > bound and (oldest := connection.execute(query, (owner, newest)).fetchone()):
                _drop_artifact(connection, *oldest)


def _add_content(connection: Connection, record: records.ArtifactRecord) -> None:
    shared = connection.execute("UPDATE contents SET entries = entries + 1 WHERE digest = ?", (record.digest,))
    more = records.ENTRY_COST
    if not shared.rowcount:
        row = (record.digest, record.packed, record.length)
        connection.execute("INSERT INTO contents VALUES (?, ?, ?, 1)", row)
        more += record.length
    connection.execute("UPDATE artifact_bytes SET total = total + ?", (more,))


def _drop_artifact(connection: Connection, owner: str, handle: str) -> None:
    one = "DELETE FROM artifacts WHERE owner = ? AND handle = ? RETURNING digest, size"
    ((digest, size),) = connection.execute(one, (owner, handle)).fetchall()
    connection.execute("UPDATE artifact_owners SET bytes = bytes - ? WHERE owner = ?", (size, owner))
    connection.execute("DELETE FROM artifact_owners WHERE owner = ? AND bytes <= 0", (owner,))
    connection.execute("UPDATE contents SET entries = entries - 1 WHERE digest = ?", (digest,))
    unused = "DELETE FROM contents WHERE digest = ? AND entries <= 0 RETURNING length"
    less = records.ENTRY_COST + sum(length for (length,) in connection.execute(unused, (digest,)).fetchall())
    connection.execute("UPDATE artifact_bytes SET total = total - ?", (less,))


def _used(connection: Connection) -> int:
    return int(connection.execute("SELECT total FROM artifact_bytes").fetchone()[0])


def _used_by(owner: str, connection: Connection) -> int:
    row = connection.execute("SELECT bytes FROM artifact_owners WHERE owner = ?", (owner,)).fetchone()
    return 0 if row is None else int(row[0])


class SqliteResultCache(records.StoredResults):
    """Implements ResultCache."""

    def __init__(self, file: SqliteFile, bounds: records.CacheBounds, *, clock: Clock = time.time) -> None:
        super().__init__(bounds)
        self.file = file
        self._clock = clock

    @transaction
    def _load(self, connection: Connection, key: str) -> bytes | None:
        now = self._clock()
        row = connection.execute("SELECT packed, expires FROM results WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        if not now < row[1] <= now + 2 * self._bounds.ttl:  # expired, or the clock was set back
            _drop_result(connection, key)
            return None
        connection.execute("UPDATE results SET used = ? WHERE key = ?", (next_tick(connection), key))
        return bytes(row[0])

    @transaction
    def _save(self, connection: Connection, key: str, packed: bytes, size: int) -> None:
        _drop_result(connection, key)
        expires = self._clock() + self._bounds.ttl
        row = (key, packed, size, next_tick(connection), expires)
        connection.execute("INSERT INTO results VALUES (?, ?, ?, ?, ?)", row)
        connection.execute("UPDATE result_bytes SET total = total + ?, entries = entries + 1", (size,))
        while True:
            total, entries = connection.execute("SELECT total, entries FROM result_bytes").fetchone()
            if total <= self._bounds.max_bytes and entries <= self._bounds.max_entries:
                break
            (oldest,) = connection.execute("SELECT key FROM results ORDER BY used LIMIT 1").fetchone()
            _drop_result(connection, oldest)


def _drop_result(connection: Connection, key: str) -> None:
    for (size,) in connection.execute("DELETE FROM results WHERE key = ? RETURNING size", (key,)).fetchall():
        connection.execute("UPDATE result_bytes SET total = total - ?, entries = entries - 1", (size,))


class SqliteQuotas(records.CallCounts):
    """Implements Quotas, exactly over all processes that share the file. Limits of one `space` are counted together."""

    def __init__(
        self,
        file: SqliteFile,
        limits: RateLimits,
        space: str = "",
        *,
        clock: Clock = time.time,
        max_counters: int = records.MAX_COUNTERS,
    ) -> None:
        super().__init__(limits)
        self.file = file
        self._space = space
        self._clock = clock
        self._max_counters = max_counters

    @transaction
    def _check(
        self, connection: Connection, owner: str, limits: Sequence[tuple[str, Limit]], *, count: bool
    ) -> QuotaBreach | None:
        owner, now = records.name_of(owner), self._clock()
        rows = [(scope, limit, self._usage(connection, owner, scope, now)) for scope, limit in limits]
        breaches = (breach(scope, limit, usage, now) for scope, limit, usage in rows)
        first = next((each for each in breaches if each is not None), None)
        if count and first is None:
            for scope, limit, usage in rows:
                tick, more = next_tick(connection), usage.add_call(limit, now)
                row = (self._space, owner, scope, json.dumps(more.recent), more.total, now, tick)
                connection.execute("INSERT OR REPLACE INTO usage VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                keep_newest(connection, "usage", self._max_counters, tick)
        return first

    def _usage(self, connection: Connection, owner: str, scope: str, now: float) -> Usage:
        row = connection.execute(
            "SELECT recent, total, last FROM usage WHERE space = ? AND owner = ? AND scope = ?",
            (self._space, owner, scope),
        ).fetchone()
        if row is None:
            return Usage()
        recent, total, last = row
        # If the clock was set back, calls with later times would count for hours.
        within = tuple(each for each in json.loads(recent) if abs(now - each) < WINDOW)
        return Usage(within, total if abs(now - last) < records.CALL_COUNT_SECONDS else 0)


class SqliteBrowseStates(records.StoredBrowseStates):
    """Implements BrowseStates."""

    def __init__(self, file: SqliteFile, max_owners: int = records.MAX_OWNERS) -> None:
        super().__init__()
        self.file = file
        self._max_owners = max_owners

    @transaction
    def _load(self, connection: Connection, owner: str, catalog: str) -> bytes | None:
        query = "SELECT cards FROM browse_states WHERE owner = ? AND catalog = ?"
        row = connection.execute(query, (owner, catalog)).fetchone()
        return None if row is None else bytes(row[0])

    @transaction
    def _save(self, connection: Connection, owner: str, catalog: str, cards: bytes) -> None:
        tick = next_tick(connection)
        connection.execute("INSERT OR REPLACE INTO browse_states VALUES (?, ?, ?, ?)", (owner, catalog, cards, tick))
        keep_newest(connection, "browse_states", self._max_owners, tick)


class SqliteTasks(records.StoredTasks):
    """Implements Tasks."""

    def __init__(self, file: SqliteFile, *, clock: Clock = time.time) -> None:
        self.file = file
        self._clock = clock

    @transaction
    def _save(self, connection: Connection, owner: str, id: str, row: str, seconds: float) -> None:
        now = self._clock()
        connection.execute("DELETE FROM tasks WHERE expires <= ?", (now,))
        connection.execute("INSERT INTO tasks VALUES (?, ?, ?, ?)", (owner, id, row, now + seconds))

    @transaction
    def _load(self, connection: Connection, owner: str, id: str) -> str | None:
        query = "SELECT task FROM tasks WHERE owner = ? AND id = ? AND expires > ?"
        row = connection.execute(query, (owner, id, self._clock())).fetchone()
        return None if row is None else str(row[0])


class SqliteSharedCounts:
    """Implements SharedCounts. A transaction is applied once or not at all, so nothing is added twice."""

    def __init__(self, file: SqliteFile) -> None:
        self.file = file

    @transaction
    def add(self, connection: Connection, counts: Counts, since: str) -> None:
        connection.execute("INSERT INTO counts_since SELECT ? WHERE NOT EXISTS (SELECT 1 FROM counts_since)", (since,))
        (names,) = connection.execute("SELECT count(*) FROM counts").fetchone()
        more = "UPDATE counts SET times = times + ? WHERE name = ?"
        for name, times in counts.items():
            key = json.dumps(name)
            if not connection.execute(more, (times, key)).rowcount and names < records.MAX_NAMES:
                connection.execute("INSERT INTO counts VALUES (?, ?)", (key, times))
                names += 1

    @transaction
    def sums(self, connection: Connection) -> tuple[Counts, str]:
        rows = connection.execute("SELECT name, times FROM counts").fetchall()
        since = connection.execute("SELECT since FROM counts_since").fetchone()
        return {tuple(json.loads(name)): times for name, times in rows}, "" if since is None else str(since[0])


class SqliteSessions:
    """Implements Sessions. A session that was ended stays as a row with an empty hello, so that it cannot come back."""

    def __init__(self, file: SqliteFile, clock: Clock = time.time) -> None:
        self.file = file
        self._clock = clock

    @transaction
    def keep(self, connection: Connection, id: str, session: SessionRecord) -> bool:
        now = self._clock()
        connection.execute("DELETE FROM sessions WHERE expires <= ?", (now,))
        into = (
            "INSERT INTO sessions VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET user = excluded.user, hello = excluded.hello, expires = excluded.expires WHERE hello != x''"
        )
        row = (records.name_of(id), session.user, session.hello, now + records.SESSION_SECONDS)
        return connection.execute(into, row).rowcount > 0

    @transaction
    def find(self, connection: Connection, id: str) -> SessionRecord | None:
        query = "SELECT user, hello FROM sessions WHERE name = ? AND expires > ? AND hello != x''"
        row = connection.execute(query, (records.name_of(id), self._clock())).fetchone()
        return None if row is None else SessionRecord(*row)

    @transaction
    def end(self, connection: Connection, id: str) -> None:
        name, expires = records.name_of(id), self._clock() + records.SESSION_SECONDS
        connection.execute("INSERT OR REPLACE INTO sessions VALUES (?, '', x'', ?)", (name, expires))
        connection.execute("DELETE FROM session_events WHERE session = ?", (name,))

    @transaction
    def add_event(self, connection: Connection, id: str, stream: str, gateway: str, message: bytes) -> str | None:
        if len(message) > records.MAX_EVENT_BYTES:
            return None
        now, name = self._clock(), records.name_of(id)
        connection.execute("DELETE FROM session_events WHERE expires <= ?", (now,))
        into = "INSERT INTO session_events (session, stream, gateway, message, expires) VALUES (?, ?, ?, ?, ?)"
        number = connection.execute(into, (name, stream, gateway, message, now + records.EVENT_SECONDS)).lastrowid
        sums = (
            "SELECT number, row_number() OVER newest AS place, sum(length(message)) OVER newest AS bytes "
            "FROM session_events WHERE session = ? WINDOW newest AS (ORDER BY number DESC)"
        )
        excess = f"SELECT number FROM ({sums}) WHERE place > ? OR bytes > ?"
        limits = name, records.MAX_EVENTS, records.MAX_EVENT_BYTES
        connection.execute(f"DELETE FROM session_events WHERE number IN ({excess})", limits)
        return str(number)

    @transaction
    def events_from(self, connection: Connection, id: str, first: str) -> Sequence[SessionEvent]:
        if not records.is_event_id(first):
            return []
        query = (
            "SELECT number, stream, gateway, message FROM session_events "
            "WHERE session = ? AND number >= ? AND expires > ? ORDER BY number"
        )
        rows = connection.execute(query, (records.name_of(id), int(first), self._clock())).fetchall()
        events = [SessionEvent(str(number), stream, gateway, message) for number, stream, gateway, message in rows]
        return events if events and events[0].id == first else []

    @transaction
    def beat(self, connection: Connection, gateway: str) -> None:
        now = self._clock()
        connection.execute("DELETE FROM gateways WHERE expires <= ?", (now,))
        connection.execute("INSERT OR REPLACE INTO gateways VALUES (?, ?)", (gateway, now + records.ALIVE_SECONDS))

    @transaction
    def is_alive(self, connection: Connection, gateway: str) -> bool:
        query = "SELECT 1 FROM gateways WHERE name = ? AND expires > ?"
        return connection.execute(query, (gateway, self._clock())).fetchone() is not None


class SqliteApprovals:
    """Implements Approvals."""

    def __init__(
        self, file: SqliteFile, limits: records.ApprovalLimits = records.APPROVAL_LIMITS, *, clock: Clock = time.time
    ) -> None:
        self.file = file
        self._limits = limits
        self._clock = clock

    @transaction
    def add(self, connection: Connection, caller: str, approval: Approval, seconds: float) -> bool:
        now, caller = self._clock(), records.name_of(caller)
        connection.execute("DELETE FROM approvals WHERE expires <= ?", (now,))
        (total,) = connection.execute("SELECT count(*) FROM approvals").fetchone()
        (of_one,) = connection.execute("SELECT count(*) FROM approvals WHERE caller = ?", (caller,)).fetchone()
        if total >= self._limits.total or of_one >= self._limits.of_one:
            return False
        row = (approval.id, caller, approval.status, records.write_approval(approval), next_tick(connection))
        connection.execute("INSERT INTO approvals VALUES (?, ?, ?, ?, ?, ?)", (*row, now + seconds))
        return True

    @transaction
    def take(self, connection: Connection, id: str) -> Approval | None:
        approval = self._read(connection, id)
        connection.execute("DELETE FROM approvals WHERE id = ?", (id,))
        return approval

    @transaction
    def find(self, connection: Connection, id: str) -> Approval | None:
        return self._read(connection, id)

    @transaction
    def decide(self, connection: Connection, id: str, *, approve: bool) -> Approval | None:
        approval = self._read(connection, id)
        if approval is None or approval.status != "pending":
            return None
        status = "approved" if approve else "denied"
        connection.execute("UPDATE approvals SET status = ? WHERE id = ?", (status, id))
        return approval

    @transaction
    def list_pending(self, connection: Connection) -> Sequence[Approval]:
        query = "SELECT id, status, content FROM approvals WHERE status = 'pending' AND expires > ? ORDER BY tick"
        return [records.read_approval(*row) for row in connection.execute(query, (self._clock(),)).fetchall()]

    def _read(self, connection: Connection, id: str) -> Approval | None:
        query = "SELECT id, status, content FROM approvals WHERE id = ? AND expires > ?"
        row = connection.execute(query, (id, self._clock())).fetchone()
        return None if row is None else records.read_approval(*row)


class SqliteFlowRecords:
    """Implements FlowRecords."""

    def __init__(
        self, file: SqliteFile, limits: records.FlowLimits = records.FLOW_LIMITS, *, clock: Clock = time.time
    ) -> None:
        self.file = file
        self._limits = limits
        self._clock = clock

    @transaction
    def key(self, connection: Connection) -> bytes:
        new = "INSERT INTO flow_key SELECT ? WHERE NOT EXISTS (SELECT 1 FROM flow_key)"
        connection.execute(new, (secrets.token_bytes(records.FLOW_KEY_BYTES),))
        return bytes(connection.execute("SELECT key FROM flow_key").fetchone()[0])

    @transaction
    def add(self, connection: Connection, owner: str, record: FlowRecord) -> None:
        now, owner = self._clock(), records.name_of(owner)
        connection.execute("DELETE FROM flows WHERE expires <= ?", (now,))
        row = (owner, record.id, record.kind, record.server, record.data, next_tick(connection), now + self._limits.ttl)
        connection.execute("INSERT OR REPLACE INTO flows VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        query = "SELECT id, length(data) FROM flows WHERE owner = ? AND kind = ? AND server = ? ORDER BY tick DESC"
        size = 0
        for number, (id, length) in enumerate(
            connection.execute(query, (owner, record.kind, record.server)).fetchall()
        ):
            size += length
            if number and (size > self._limits.max_bytes or number >= self._limits.max_records):
                connection.execute("DELETE FROM flows WHERE owner = ? AND id = ?", (owner, id))

    @transaction
    def list(self, connection: Connection, owner: str) -> Sequence[FlowRecord]:
        query = "SELECT id, kind, server FROM flows WHERE owner = ? AND expires > ? ORDER BY tick"
        rows = connection.execute(query, (records.name_of(owner), self._clock())).fetchall()
        return [records.read_flow(*row) for row in rows]

    @transaction
    def load(self, connection: Connection, owner: str, ids: Sequence[str]) -> Mapping[str, bytes]:
        query = "SELECT data FROM flows WHERE owner = ? AND id = ? AND expires > ?"
        rows = {id: connection.execute(query, (records.name_of(owner), id, self._clock())).fetchone() for id in ids}
        return {id: bytes(row[0]) for id, row in rows.items() if row is not None}
