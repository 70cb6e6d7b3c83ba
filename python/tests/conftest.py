"""What the unit tests share: exact counters and encoders from the checkout's own maps, and one Redis server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest
import warm_start  # noqa: F401  once, for all workers
from hypothesis import settings
from redis_server import RedisServer, redis_server

from leafgate.maps.files import MapFiles
from leafgate.tokens.encoder import Encoder

MAPS = MapFiles()

# New examples every time where a person can look at a find; the same ones where a find would stop somebody else's work.
# No deadline: how long an example takes says how busy the machine is.
settings.register_profile("leafgate", derandomize=os.environ.get("CI") == "true", deadline=None)
settings.load_profile("leafgate")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def toy() -> Encoder:
    return MAPS.load("toy")


@pytest.fixture(scope="session")
def qwen() -> Encoder:
    return MAPS.load("qwen/qwen2")


@pytest.fixture(scope="session")
def count() -> Callable[[str], int]:
    cl100k = MAPS.load("openai/cl100k_base")
    return lambda text: len(cl100k.encode(text))


@pytest.fixture(scope="session")
def redis_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def redis(redis_process: RedisServer) -> RedisServer:
    """A Redis server that holds nothing."""
    redis_process.empty()
    return redis_process


def pytest_collection_finish() -> None:
    """Wait for what the servers of tests share, if tests have any: servers must start within some seconds."""
    if warm_python := sys.modules.get("warm_python"):
        warm_python.wait_until_loaded()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their length: they may be long, and compressed ones differ from process to process."""
    return f"{argname}-{len(val)}" if isinstance(val, bytes) else None
