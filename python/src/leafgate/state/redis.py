"""State on a Redis or Valkey server, shared by all replicas that name the same server and database.

The rules are those of memory.py. Each step is one script (see the folder lua), so replicas cannot interleave, and uses
the server's clock. Every failure is a StoreError, and the wait for an answer is bounded. For a moment after a failure
all requests fail at once, so that a server that is down does not delay each of them.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from ssl import SSLCertVerificationError
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, ConnectionError, OutOfMemoryError, RedisError, TimeoutError

from leafgate.admission.policy import WINDOW, Limit, RateLimits
from leafgate.model.errors import ConfigError, StoreError
from leafgate.model.rights import QuotaBreach
from leafgate.ports import Approval, Clock, Counts, FlowRecord, SessionEvent, SessionRecord
from leafgate.state import records

SCHEMA_VERSION: Final = b"1"
CONNECTIONS: Final = 32
ANSWER_SECONDS: Final = 2.0
CALM_SECONDS: Final = 0.5

# One hash slot of a cluster, because scripts touch several keys.
PREFIX: Final = "{leafgate}"

# One atomic step on the server: takes keys and arguments.
RedisScript = Callable[[Sequence[str], Sequence[str | bytes | float]], Awaitable[Any]]


class RedisState:
    """Implements State. Needs the extra `redis`."""

    def __init__(self, url: str) -> None:
        link = RedisLink(url)
        self.open, self.close = link.open, link.close
        self.artifacts = lambda quota_of: RedisArtifactStore(link, records.ArtifactLimits(quota_of=quota_of))
        self.results = partial(RedisResultCache, link)
        self.quotas = partial(RedisQuotas, link)
        self.browse_states = partial(RedisBrowseStates, link)
        self.tasks = partial(RedisTasks, link)
        self.shared_counts = partial(RedisSharedCounts, link)
        self.sessions = partial(RedisSessions, link)
        self.approvals = partial(RedisApprovals, link)
        self.flows = partial(RedisFlowRecords, link)


# The connection


class RedisLink:
    """A pool of connections to one server, opened when they are needed."""

    def __init__(self, url: str, *, answer_seconds: float = ANSWER_SECONDS, clock: Clock = time.monotonic) -> None:
        self.address = public_address(url)
        self._clock = clock
        self._down_until = 0.0
        # A connection that was closed meanwhile is opened again, once. A request that timed out may have run: no retry.
        again = Retry(NoBackoff(), 1, supported_errors=(ConnectionError,))
        try:
            pool = BlockingConnectionPool.from_url(
                _redis_url(url),
                max_connections=CONNECTIONS,
                timeout=answer_seconds,
                socket_timeout=answer_seconds,
                socket_connect_timeout=answer_seconds,
                retry=again,
            )
            pool.connection_class(**pool.connection_kwargs)  # does not connect; fails on unknown options
        except (ValueError, TypeError, RedisError):  # its message repeats the address
            raise ConfigError(
                f"state: {self.address} is not an address of a Redis server, or has unknown options"
            ) from None
        self._redis: Redis = Redis(connection_pool=pool)

    def script(self, text: str) -> RedisScript:
        script = self._redis.register_script(text)
        return lambda keys, args: self.request(lambda: script(keys=keys, args=args))

    async def open(self) -> None:
        """StoreError if the server cannot be reached, or holds the state of another version."""
        await self.request(lambda: self._redis.set(f"{PREFIX}:version", SCHEMA_VERSION, nx=True))
        version = await self.request(lambda: self._redis.get(f"{PREFIX}:version"))
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{self.address}: its state is of another version of leafgate; choose another database number"
            )

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def request(self, send: Callable[[], Any]) -> Any:
        """Send one request and return its answer."""
        if self._clock() < self._down_until:
            raise StoreError(f"{self.address}: not reachable a moment ago")
        try:
            return await send()
        except (RedisError, OSError) as error:
            if isinstance(error, ConnectionError | TimeoutError | OSError):
                self._down_until = self._clock() + CALM_SECONDS
            raise StoreError(f"{self.address}: {_explain(error)}") from error


def public_address(url: str) -> str:
    """The address of the server without its credentials."""
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
    except ValueError:
        return "redis://…"
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    # A password with a slash that is not escaped looks like a path.
    return f"{parts.scheme}://{parts.hostname or ''}:{port}{parts.path}" if _has_number(parts) else "redis://…"


def _has_number(parts: SplitResult) -> bool:
    return re.fullmatch(r"/?[0-9]*", parts.path) is not None


def _redis_url(url: str) -> str:
    """The URL for the library. ValueError if the database is not a number: the library would use database 0."""
    if not url.startswith("unix:") and not _has_number(urlsplit(url)):
        raise ValueError("no number")
    for valkey, redis in (("valkey://", "redis://"), ("valkeys://", "rediss://")):
        if url.startswith(valkey):
            return redis + url.removeprefix(valkey)
    return url


def _explain(error: Exception) -> str:
    """The cause, in words that an operator can act on."""
    errors = (error, error.__cause__, error.__context__)  # a refusal while connecting comes wrapped
    if any(isinstance(each, AuthenticationError) for each in errors):
        return "it refuses the name or the password"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if any(isinstance(each, SSLCertVerificationError) for each in errors):
        return "its certificate is not trusted; name the file of its authority: rediss://…?ssl_ca_certs=FILE"
    if isinstance(error, OutOfMemoryError):
        return "its memory is full; raise maxmemory"
    if isinstance(error, ConnectionError | OSError):
        return "not reachable"
    return f"it answers with an error: {str(error)[:200]}"


def _read(*names: str) -> str:
    """The text of a script in the folder lua, from one or more files."""
    return "\n".join(files(__package__).joinpath("lua", f"{name}.lua").read_text("utf-8") for name in names)


# Artifacts

_KEY: Final = f"{PREFIX}:a"


class RedisArtifactStore(records.StoredArtifacts):
    """Implements ArtifactStore."""

    def __init__(self, link: RedisLink, limits: records.ArtifactLimits = records.ARTIFACT_LIMITS) -> None:
        super().__init__(limits)
        self._put_script = link.script(_read("artifact_common", "artifact_put"))
        self._get_script = link.script(_read("artifact_common", "artifact_get"))
        self._used_script = link.script(_read("artifact_used"))

    async def used(self) -> int:
        """Bytes stored: content counted once, and before it is compressed."""
        return int(await self._used_script([_KEY], []))

    async def _save(self, owner: str, handle: str, record: records.ArtifactRecord, quota: int) -> str:
        key = (owner, handle, record.identity, record.digest, record.about)
        bounds = (record.length, quota, self._limits.capacity, round(self._limits.ttl * 1000))
        same_or_new: bytes = await self._put_script([_KEY], [records.ENTRY_COST, *key, *bounds, record.packed])
        return same_or_new.decode()

    async def _load(self, owner: str, handle: str) -> tuple[str, bytes] | None:
        row = await self._get_script([_KEY], [records.ENTRY_COST, owner, handle])
        return None if row is None else (row[0].decode(), row[1])


# Results

_RESULT_KEY: Final = f"{PREFIX}:r"


class RedisResultCache(records.StoredResults):
    """Implements ResultCache."""

    def __init__(self, link: RedisLink, bounds: records.CacheBounds) -> None:
        super().__init__(bounds)
        self._get_script = link.script(_read("result_common", "result_get"))
        self._put_script = link.script(_read("result_common", "result_put"))

    async def _load(self, key: str) -> bytes | None:
        packed: bytes | None = await self._get_script([_RESULT_KEY], [key])
        return packed

    async def _save(self, key: str, packed: bytes, size: int) -> None:
        bounds = (max(1, round(self._bounds.ttl * 1000)), self._bounds.max_entries, self._bounds.max_bytes)
        await self._put_script([_RESULT_KEY], [key, size, *bounds, packed])


class RedisQuotas(records.CallCounts):
    """Implements Quotas, exactly over all replicas. Limits of one `space` are counted together.

    Counts end by themselves: those of a minute after it, those of a session after a day without a call.
    """

    def __init__(self, link: RedisLink, limits: RateLimits, space: str = "", *, clock: Clock | None = None) -> None:
        """`clock` replaces the server's clock in tests."""
        super().__init__(limits)
        self._space = records.name_of(space)
        self._clock = clock
        self._check_script = link.script(_read("quota_check"))

    async def _check(self, owner: str, limits: Sequence[tuple[str, Limit]], *, count: bool) -> QuotaBreach | None:
        keys = [f"{PREFIX}:q:{self._space}:{records.name_of(owner)}:{records.name_of(scope)}" for scope, _ in limits]
        now = -1 if self._clock is None else round(self._clock() * 1000)
        call = (int(count), secrets.token_hex(8), round(WINDOW * 1000), records.CALL_COUNT_SECONDS, now)
        bounds = [each for _, limit in limits for each in (limit.max_calls_per_minute, limit.max_calls_per_session)]
        row = await self._check_script(keys, [*call, *(-1 if bound is None else bound for bound in bounds)])
        if row is None:
            return None
        place, which, wait = row
        scope, retry_after = limits[place - 1][0], None if wait < 0 else wait / 1000
        per_session = which == b"session"
        return QuotaBreach(scope, "max_calls_per_session" if per_session else "max_calls_per_minute", retry_after)


# Browse states. One that is not used for a day ends.

_GET_RENEWED: Final = "return redis.call('GETEX', KEYS[1], 'EX', ARGV[1])"
_GET: Final = "return redis.call('GET', KEYS[1])"
_PUT: Final = "return redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1])"


class RedisBrowseStates(records.StoredBrowseStates):
    """Implements BrowseStates."""

    def __init__(self, link: RedisLink) -> None:
        super().__init__()
        self._get_script = link.script(_GET_RENEWED)
        self._put_script = link.script(_PUT)

    async def _load(self, owner: str, catalog: str) -> bytes | None:
        cards: bytes | None = await self._get_script([f"{PREFIX}:b:{owner}:{catalog}"], [records.DAY])
        return cards

    async def _save(self, owner: str, catalog: str, cards: bytes) -> None:
        await self._put_script([f"{PREFIX}:b:{owner}:{catalog}"], [records.DAY, cards])


class RedisTasks(records.StoredTasks):
    """Implements Tasks."""

    def __init__(self, link: RedisLink) -> None:
        self._get_script = link.script(_GET)
        self._put_script = link.script(_PUT)

    async def _save(self, owner: str, id: str, row: str, seconds: float) -> None:
        await self._put_script([f"{PREFIX}:t:{owner}:{id}"], [math.ceil(seconds), row])

    async def _load(self, owner: str, id: str) -> str | None:
        row: bytes | None = await self._get_script([f"{PREFIX}:t:{owner}:{id}"], [])
        return None if row is None else row.decode()


# Shared counts. A process sends its totals, and the server adds what is new in them: nothing is added twice if an
# answer was lost, and nothing is lost if the server was emptied.

RUN_SECONDS: Final = 7 * records.DAY  # without a message, after which the totals of a process are dropped
_KEYS: Final = (f"{PREFIX}:n:sums", f"{PREFIX}:n:since")


class RedisSharedCounts:
    """Implements SharedCounts, for one process."""

    def __init__(self, link: RedisLink) -> None:
        self._add_script = link.script(_read("count_add"))
        self._sum_script = link.script(_read("count_sums"))
        self._keys = (*_KEYS, f"{PREFIX}:n:run:{secrets.token_hex(8)}")
        self._totals: dict[tuple[str, ...], float] = {}

    async def add(self, counts: Counts, since: str) -> None:
        totals = {name: self._totals.get(name, 0) + times for name, times in counts.items()}
        pairs = [part for name, times in totals.items() for part in (json.dumps(name), repr(float(times)))]
        await self._add_script(self._keys, [since, records.MAX_NAMES, RUN_SECONDS, *pairs])
        self._totals |= totals

    async def sums(self) -> tuple[Counts, str]:
        pairs, since = await self._sum_script(self._keys, [RUN_SECONDS])
        try:
            sums = {tuple(json.loads(name)): float(times) for name, times in zip(*[iter(pairs)] * 2, strict=True)}
        except (ValueError, TypeError):
            raise StoreError("the counters in the store are damaged") from None
        return sums, "" if since is None else since.decode()


# Sessions

_EVENTS_FROM: Final = "return redis.call('XRANGE', KEYS[1], ARGV[1], '+')"


class RedisSessions:
    """Implements Sessions."""

    def __init__(self, link: RedisLink) -> None:
        self._put_script = link.script(_PUT)
        self._get_script = link.script(_GET)
        self._keep_script = link.script(_read("session_keep"))
        self._end_script = link.script(_read("session_end"))
        self._add_script = link.script(_read("event_add"))
        self._events_script = link.script(_EVENTS_FROM)

    async def keep(self, id: str, session: SessionRecord) -> bool:
        row = json.dumps([session.user, session.hello.decode()])
        return bool(await self._keep_script([_session(id)], [records.SESSION_SECONDS, row]))

    async def find(self, id: str) -> SessionRecord | None:
        row = await self._get_script([_session(id)], [])
        if not row:
            return None
        user, hello = json.loads(row)
        return SessionRecord(user, hello.encode())

    async def end(self, id: str) -> None:
        await self._end_script([_session(id), _events(id), f"{_events(id)}:b"], [records.SESSION_SECONDS])

    async def add_event(self, id: str, stream: str, gateway: str, message: bytes) -> str | None:
        if len(message) > records.MAX_EVENT_BYTES:
            return None
        limits = [records.MAX_EVENTS, records.EVENT_SECONDS, records.MAX_EVENT_BYTES]
        event_id = await self._add_script([_events(id), f"{_events(id)}:b"], [*limits, stream, gateway, message])
        return str(event_id.decode())

    async def events_from(self, id: str, first: str) -> Sequence[SessionEvent]:
        if not records.is_event_id(first, "-"):
            return []
        rows = await self._events_script([_events(id)], [first])
        fields = [(event_id, dict(zip(pairs[::2], pairs[1::2], strict=True))) for event_id, pairs in rows]
        events = [SessionEvent(n.decode(), each[b"s"].decode(), each[b"g"].decode(), each[b"m"]) for n, each in fields]
        return events if events and events[0].id == first else []

    async def beat(self, gateway: str) -> None:
        await self._put_script([f"{PREFIX}:g:{gateway}"], [records.ALIVE_SECONDS, "1"])

    async def is_alive(self, gateway: str) -> bool:
        return await self._get_script([f"{PREFIX}:g:{gateway}"], []) is not None


def _session(id: str) -> str:
    return f"{PREFIX}:s:{records.name_of(id)}"


def _events(id: str) -> str:
    return f"{PREFIX}:e:{records.name_of(id)}"


# Approvals

_APPROVAL_KEY: Final = f"{PREFIX}:p"


class RedisApprovals:
    """Implements Approvals."""

    def __init__(self, link: RedisLink, limits: records.ApprovalLimits = records.APPROVAL_LIMITS) -> None:
        self._limits = limits
        self._add_script = link.script(_read("approval_add"))
        self._read_script = link.script(_read("approval_read"))
        self._list_script = link.script(_read("approval_list"))

    async def add(self, caller: str, approval: Approval, seconds: float) -> bool:
        bounds = (self._limits.total, self._limits.of_one, max(1, round(seconds * 1000)))
        row = (approval.id, approval.status, records.write_approval(approval))
        return bool(await self._add_script([_APPROVAL_KEY], [records.name_of(caller), *bounds, *row]))

    async def take(self, id: str) -> Approval | None:
        return await self._run(id, "take")

    async def find(self, id: str) -> Approval | None:
        return await self._run(id, "find")

    async def decide(self, id: str, *, approve: bool) -> Approval | None:
        return await self._run(id, "approved" if approve else "denied")

    async def list_pending(self) -> Sequence[Approval]:
        rows = await self._list_script([_APPROVAL_KEY], [])
        return [records.read_approval(id.decode(), "pending", content) for id, content in rows]

    async def _run(self, id: str, step: str) -> Approval | None:
        row = await self._read_script([_APPROVAL_KEY], [id, step])
        return None if row is None else records.read_approval(id, row[0].decode(), row[1])


# Flow records

_FLOW_KEY: Final = f"{PREFIX}:f"
_PUT_NEW: Final = "redis.call('SET', KEYS[1], ARGV[1], 'NX') return redis.call('GET', KEYS[1])"
_MEMBERS: Final = "return redis.call('ZRANGE', KEYS[1], 0, -1)"
_GET_MANY: Final = "return redis.call('MGET', unpack(KEYS))"
_KEYS_AT_ONCE: Final = 500


class RedisFlowRecords:
    """Implements FlowRecords."""

    def __init__(self, link: RedisLink, limits: records.FlowLimits = records.FLOW_LIMITS) -> None:
        self._limits = limits
        self._key_script = link.script(_PUT_NEW)
        self._add_script = link.script(_read("flow_add"))
        self._list_script = link.script(_MEMBERS)
        self._load_script = link.script(_GET_MANY)

    async def key(self) -> bytes:
        return bytes(await self._key_script([f"{_FLOW_KEY}:key"], [secrets.token_bytes(records.FLOW_KEY_BYTES)]))

    async def add(self, owner: str, record: FlowRecord) -> None:
        bounds = (max(1, round(self._limits.ttl * 1000)), self._limits.max_bytes, self._limits.max_records)
        tag = json.dumps([record.kind, record.server])
        await self._add_script([_flow_owner(owner)], [record.id, tag, record.data, *bounds])

    async def list(self, owner: str) -> Sequence[FlowRecord]:
        members = await self._list_script([_flow_owner(owner)], [])
        try:
            rows = [(id, *json.loads(tag)) for id, tag in (member.decode().split("\n", 1) for member in members)]
            return [records.read_flow(*row) for row in rows]
        except (ValueError, TypeError):
            raise StoreError("a flow record in the store is damaged") from None

    async def load(self, owner: str, ids: Sequence[str]) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for first in range(0, len(ids), _KEYS_AT_ONCE):
            some = ids[first : first + _KEYS_AT_ONCE]
            rows = await self._load_script([f"{_flow_owner(owner)}:{id}" for id in some], [])
            found |= {id: row for id, row in zip(some, rows, strict=True) if row is not None}
        return found


def _flow_owner(owner: str) -> str:
    return f"{_FLOW_KEY}:{records.name_of(owner)}"
