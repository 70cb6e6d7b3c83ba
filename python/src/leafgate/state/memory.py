"""State in the memory of one process: the default. A restart forgets all of it, and no other process sees it.

Everything is bounded. What was least recently used is dropped first.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from anyio import to_thread
from anyio.lowlevel import checkpoint
from cachetools import LRUCache, TLRUCache, TTLCache

from leafgate.admission.policy import Limit, RateLimits, Usage, breach
from leafgate.model.envelope import Artifact
from leafgate.model.rights import QuotaBreach
from leafgate.ports import Approval, Clock, FlowRecord
from leafgate.state import records

THREAD_FROM: Final = 4 * 1024 * 1024  # bytes: hashing less is faster than starting a thread

_Identity = tuple[bytes, Artifact]  # the digest of the content, and everything else


class MemoryState:
    """Implements State."""

    def __init__(self) -> None:
        usage: defaultdict[str, CallUsage] = defaultdict(lambda: LRUCache(records.MAX_COUNTERS))
        self.open = self.close = checkpoint
        self.artifacts = lambda quota_of: MemoryArtifactStore(records.ArtifactLimits(quota_of=quota_of))
        self.results = lambda bounds: ToolResultCache(**vars(bounds))
        self.quotas = lambda limits, space: RateLimiter(limits, counts=usage[space])
        self.browse_states = MemoryBrowseStates
        self.tasks = MemoryTasks
        self.shared_counts = self.sessions = lambda: None
        approvals = MemoryApprovals()  # calls wait for them while the configuration is loaded again
        self.approvals = lambda: approvals
        flows = MemoryFlowRecords()  # what was read stays read when the configuration is loaded again
        self.flows = lambda: flows


class MemoryArtifactStore:
    """Implements ArtifactStore. Equal content is held once, even for several owners."""

    def __init__(
        self, limits: records.ArtifactLimits = records.ARTIFACT_LIMITS, *, clock: Clock = time.monotonic
    ) -> None:
        self._limits = limits
        self._clock = clock
        self.used = 0  # bytes, content counted once
        self._contents: dict[bytes, bytes] = {}
        self._references = Counter[bytes]()
        # Each key is an owner and a handle.
        self._identities: LRUCache[tuple[str, str], _Identity] = LRUCache(math.inf)
        self._expiry: dict[tuple[str, str], float] = {}  # oldest first
        self._handles: dict[tuple[str, _Identity], str] = {}
        self._owners: dict[str, LRUCache[str, int]] = {}  # sizes by handle

    async def put(self, owner: str, artifact: Artifact) -> str | None:
        """The handle: an earlier one if this owner has the same artifact already. None if it exceeds the capacity."""
        if not self._limits.allow(artifact):
            return None
        data = artifact.content
        digest = await to_thread.run_sync(_digest, data) if len(data) >= THREAD_FROM else _digest(data)
        self._drop_expired()
        identity = digest, replace(artifact, content=b"")
        handle = self._handles.get((owner, identity))
        if handle is None:
            handle = records.new_handle()
            self._add(owner, handle, identity, data)
        self._expiry.pop((owner, handle), None)
        self._expiry[owner, handle] = self._clock() + self._limits.ttl
        self._touch(owner, handle)
        self._make_room(owner)
        return handle

    async def get(self, owner: str, handle: str) -> Artifact | None:
        self._drop_expired()
        if (owner, handle) not in self._identities:
            return None
        digest, about = self._touch(owner, handle)
        return replace(about, content=self._contents[digest])

    def _touch(self, owner: str, handle: str) -> _Identity:
        """Reading an entry of an LRUCache makes it the most recently used."""
        self._owners[owner][handle]
        return self._identities[owner, handle]

    def _add(self, owner: str, handle: str, identity: _Identity, data: bytes) -> None:
        digest = identity[0]
        if digest not in self._contents:
            self._contents[digest] = data
            self.used += len(data)
        self._references[digest] += 1
        self.used += records.ENTRY_COST
        self._identities[owner, handle] = identity
        self._handles[owner, identity] = handle
        sizes = self._owners.setdefault(owner, LRUCache(math.inf, getsizeof=lambda size: size))
        sizes[handle] = len(data) + records.ENTRY_COST

    def _drop(self, owner: str, handle: str, identity: _Identity) -> None:
        """Remove an entry from every index; from the LRU caches unless they have just evicted it."""
        self._identities.pop((owner, handle), None)
        del self._expiry[owner, handle], self._handles[owner, identity]
        self._owners[owner].pop(handle, None)
        if not self._owners[owner]:
            del self._owners[owner]
        digest = identity[0]
        self.used -= records.ENTRY_COST
        self._references[digest] -= 1
        if not self._references[digest]:
            del self._references[digest]
            self.used -= len(self._contents.pop(digest))

    def _drop_expired(self) -> None:
        now = self._clock()
        while self._expiry:
            (owner, handle), expires = next(iter(self._expiry.items()))
            if expires > now:
                break
            self._drop(owner, handle, self._identities[owner, handle])

    def _make_room(self, owner: str) -> None:
        """The newest artifact may exceed its owner's quota; it is then the only one."""
        mine, quota = self._owners[owner], self._limits.quota_for(owner)
        while mine.currsize > quota and len(mine) > 1:
            handle, _ = mine.popitem()
            self._drop(owner, handle, self._identities[owner, handle])
        while self.used > self._limits.capacity and len(self._identities) > 1:
            (other, handle), identity = self._identities.popitem()
            self._drop(other, handle, identity)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


class ToolResultCache:
    """Implements ResultCache. Entries are bytes, so that a caller's changes to a result do not reach another caller."""

    def __init__(
        self,
        *,
        ttl: float = records.CacheBounds.ttl,
        max_entries: int = records.CacheBounds.max_entries,
        max_bytes: int = records.CacheBounds.max_bytes,
        clock: Clock = time.monotonic,
    ) -> None:
        self._bounds = records.CacheBounds(ttl, max_entries, max_bytes)
        self._renewals = 0
        self._contents: TTLCache[str, bytes] = TTLCache(
            max_bytes, ttl, timer=clock, getsizeof=lambda content: len(content) + records.RESULT_COST
        )

    def epoch(self) -> str:
        return str(self._renewals)

    async def get(self, key: str) -> Mapping[str, Any] | None:
        content = self._contents.get(key)
        return None if content is None else records.read_result(content)

    async def put(self, key: str, raw: Mapping[str, Any], epoch: str) -> None:
        content = records.write_result(raw, self._bounds.max_bytes) if epoch == self.epoch() else None
        if content is not None:
            self._contents[key] = content
            while len(self._contents) > self._bounds.max_entries:
                self._contents.popitem()

    def renew(self, catalog: str) -> None:
        """Forget all results, even if the catalog is the same as before: its servers may have been restarted."""
        self._renewals += 1
        self._contents.clear()


CallUsage = LRUCache[tuple[str, str], Usage]


class RateLimiter(records.CallCounts):
    """Implements Quotas. Several gateways behind one address each count for themselves.

    `counts` are those of an earlier limiter: calls stay counted when only the limits change.
    """

    def __init__(
        self,
        limits: RateLimits,
        *,
        counts: CallUsage | None = None,
        clock: Clock = time.monotonic,
        max_counters: int = records.MAX_COUNTERS,
    ) -> None:
        super().__init__(limits)
        self._clock = clock
        self._usage: CallUsage = LRUCache(max_counters) if counts is None else counts

    async def _check(self, owner: str, limits: Sequence[tuple[str, Limit]], *, count: bool) -> QuotaBreach | None:
        # Nothing is awaited between the check and the count, which makes them one step.
        now = self._clock()
        usage = {scope: self._usage.get((owner, scope), Usage()) for scope, _ in limits}
        breaches = (breach(scope, limit, usage[scope], now) for scope, limit in limits)
        first = next((each for each in breaches if each is not None), None)
        if count and first is None:
            self._usage.update({(owner, scope): usage[scope].add_call(limit, now) for scope, limit in limits})
        return first


class MemoryBrowseStates:
    """Implements BrowseStates."""

    def __init__(self, max_owners: int = records.MAX_OWNERS) -> None:
        self._cards: LRUCache[str, records.Cards] = LRUCache(max_owners)

    async def load(self, owner: str) -> records.Cards:
        return self._cards.get(owner, records.NO_CARDS)

    async def save(self, owner: str, cards: records.Cards) -> None:
        self._cards[owner] = cards

    def renew(self, catalog: str) -> None:
        self._cards.clear()


class MemoryTasks(records.StoredTasks):
    """Implements Tasks."""

    def __init__(self, max_tasks: int = records.MAX_TASKS, *, clock: Clock = time.monotonic) -> None:
        # The time of each task is stored beside it.
        self._rows: TLRUCache[tuple[str, str], tuple[str, float]] = TLRUCache(
            max_tasks, lambda key, row, now: now + row[1], timer=clock
        )

    async def _save(self, owner: str, id: str, row: str, seconds: float) -> None:
        self._rows[owner, id] = row, seconds

    async def _load(self, owner: str, id: str) -> str | None:
        row = self._rows.get((owner, id))
        return None if row is None else row[0]


class MemoryApprovals:
    """Implements Approvals."""

    def __init__(
        self, limits: records.ApprovalLimits = records.APPROVAL_LIMITS, *, clock: Clock = time.monotonic
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._entries: dict[str, tuple[str, Approval, float]] = {}  # caller, approval, end

    async def add(self, caller: str, approval: Approval, seconds: float) -> bool:
        self._drop_expired()
        of_one = sum(each == caller for each, _, _ in self._entries.values())
        if len(self._entries) >= self._limits.total or of_one >= self._limits.of_one:
            return False
        self._entries[approval.id] = caller, approval, self._clock() + seconds
        return True

    async def take(self, id: str) -> Approval | None:
        approval = await self.find(id)
        self._entries.pop(id, None)
        return approval

    async def find(self, id: str) -> Approval | None:
        self._drop_expired()
        return self._entries[id][1] if id in self._entries else None

    async def decide(self, id: str, *, approve: bool) -> Approval | None:
        approval = await self.find(id)
        if approval is None or approval.status != "pending":
            return None
        caller, _, end = self._entries[id]
        self._entries[id] = caller, replace(approval, status="approved" if approve else "denied"), end
        return approval

    async def list_pending(self) -> Sequence[Approval]:
        self._drop_expired()
        return [approval for _, approval, _ in self._entries.values() if approval.status == "pending"]

    def _drop_expired(self) -> None:
        now = self._clock()
        self._entries = {id: entry for id, entry in self._entries.items() if entry[2] > now}


class MemoryFlowRecords:
    """Implements FlowRecords."""

    def __init__(
        self,
        limits: records.FlowLimits = records.FLOW_LIMITS,
        *,
        max_owners: int = records.MAX_FLOW_OWNERS,
        clock: Clock = time.monotonic,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._key = secrets.token_bytes(records.FLOW_KEY_BYTES)
        # By owner and id, the oldest first: the record and its end.
        self._owners: LRUCache[str, dict[str, tuple[FlowRecord, float]]] = LRUCache(max_owners)

    async def key(self) -> bytes:
        return self._key

    async def add(self, owner: str, record: FlowRecord) -> None:
        entries = self._read(owner)
        entries.pop(record.id, None)
        entries[record.id] = record, self._clock() + self._limits.ttl
        size = number = 0
        for other, _ in reversed([*entries.values()]):
            if (other.kind, other.server) == (record.kind, record.server):
                size, number = size + len(other.data), number + 1
                if number > 1 and (size > self._limits.max_bytes or number > self._limits.max_records):
                    del entries[other.id]
        self._owners[owner] = entries

    async def list(self, owner: str) -> Sequence[FlowRecord]:
        return [replace(record, data=b"") for record, _ in self._read(owner).values()]

    async def load(self, owner: str, ids: Sequence[str]) -> Mapping[str, bytes]:
        entries = self._read(owner)
        return {id: entries[id][0].data for id in ids if id in entries}

    def _read(self, owner: str) -> dict[str, tuple[FlowRecord, float]]:
        now = self._clock()
        return {id: entry for id, entry in self._owners.get(owner, {}).items() if entry[1] > now}
