"""Which store a gateway keeps its state in. In: `memory`, `sqlite:PATH` or a redis:// URL. Out: a State.

Touches nothing yet: the store is opened when the gateway runs. A wrong word is a ConfigError that repeats no secret.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from leafgate.model.errors import ConfigError
from leafgate.storage.memory_state import MemoryState
from leafgate.storage.sqlite_state import SqliteState
from leafgate.storage.state import State

REDIS: Final = ("redis://", "rediss://", "valkey://", "valkeys://", "unix://")


def make_state(where: str) -> State:
    """The store that these words choose."""
    if where == "memory":
        return MemoryState()
    if where.startswith("sqlite:") and where != "sqlite:":
        return SqliteState(Path(where.removeprefix("sqlite:")))
    if where.startswith(REDIS):
        return _redis_state(where)
    raise ConfigError("state: memory, sqlite:PATH or redis://HOST:PORT/NUMBER (also rediss, valkey, valkeys, unix)")


def _redis_state(url: str) -> State:
    try:
        from leafgate.storage.redis_state import RedisState  # noqa: PLC0415  an extra
    except ImportError:
        raise ConfigError("state: a Redis server needs the extra 'redis': install leafgate[redis]") from None
    return RedisState(url)
