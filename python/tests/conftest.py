"""What the unit tests share: exact counters and encoders from the checkout's own maps."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import settings

from leafgate.storage.map_files import MapFiles
from leafgate.tokens.encoder import Encoder

MAPS = MapFiles()

# New examples every time where a person can look at a find; the same ones where a find would stop somebody else's work.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI") == "true":
    settings.load_profile("ci")


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
