"""Sessions of the handshake era, and what was sent to them, on a Redis server. In: a session's id. Out: what is kept.

Touches the network. A session ends an hour after it was last used, its events ten minutes after the last of them. One
that was ended has no words: nobody can keep it again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from leafgate.ports import KeptEvent, KeptSession
from leafgate.storage.owner_name import name_of
from leafgate.storage.redis_link import PREFIX, RedisLink
from leafgate.storage.session_bounds import ALIVE_SECONDS, EVENT_SECONDS, MAX_EVENTS, SESSION_SECONDS, is_event_name

_PUT: Final = "return redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1])"
_GET: Final = "return redis.call('GET', KEYS[1])"
_KEEP: Final = """
if redis.call('GET', KEYS[1]) == '' then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1])
return 1
"""
_END: Final = """
redis.call('DEL', KEYS[2])
return redis.call('SET', KEYS[1], '', 'EX', ARGV[1])
"""
_NOTE: Final = """
local id = redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1], '*', 's', ARGV[3], 'g', ARGV[4], 'm', ARGV[5])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return id
"""
_NOTED: Final = "return redis.call('XRANGE', KEYS[1], ARGV[1], '+')"


class RedisSessions:
    """Fills the Sessions port."""

    def __init__(self, link: RedisLink) -> None:
        self._put = link.script(_PUT)
        self._get = link.script(_GET)
        self._keep = link.script(_KEEP)
        self._end = link.script(_END)
        self._note = link.script(_NOTE)
        self._noted = link.script(_NOTED)

    async def keep(self, id: str, session: KeptSession) -> bool:
        told = json.dumps([session.user, session.hello.decode()])
        return bool(await self._keep([_session(id)], [SESSION_SECONDS, told]))

    async def find(self, id: str) -> KeptSession | None:
        found = await self._get([_session(id)], [])
        if not found:
            return None
        user, hello = json.loads(found)
        return KeptSession(user, hello.encode())

    async def end(self, id: str) -> None:
        await self._end([_session(id), _events(id)], [SESSION_SECONDS])

    async def note(self, id: str, stream: str, gateway: str, message: bytes) -> str:
        named = await self._note([_events(id)], [MAX_EVENTS, EVENT_SECONDS, stream, gateway, message])
        return str(named.decode())

    async def noted(self, id: str, since: str) -> Sequence[KeptEvent]:
        if not is_event_name(since, "-"):
            return []
        found = [_event(*each) for each in await self._noted([_events(id)], [since])]
        return found if found and found[0].id == since else []

    async def beat(self, gateway: str) -> None:
        await self._put([_gateway(gateway)], [ALIVE_SECONDS, "1"])

    async def is_alive(self, gateway: str) -> bool:
        return await self._get([_gateway(gateway)], []) is not None


def _session(id: str) -> str:
    return f"{PREFIX}:s:{name_of(id)}"


def _events(id: str) -> str:
    return f"{PREFIX}:e:{name_of(id)}"


def _gateway(name: str) -> str:
    return f"{PREFIX}:g:{name}"


def _event(id: bytes, fields: Sequence[Any]) -> KeptEvent:
    told = dict(zip(fields[::2], fields[1::2], strict=True))
    return KeptEvent(id.decode(), told[b"s"].decode(), told[b"g"].decode(), told[b"m"])
