"""What the unit tests share: exact counters and encoders from the checkout's own maps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leafgate.storage.map_files import MapFiles
from leafgate.tokens.encoder import Encoder

MAPS = MapFiles()


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
