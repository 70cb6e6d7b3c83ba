"""What the tests of whole processes share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gateways import SERVERS
from warm_python import PYTHON, wait_until_loaded


def pytest_collection_finish() -> None:
    """Wait for what the servers of tests share: servers must start within some seconds."""
    wait_until_loaded()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def lying_config(tmp_path: Path) -> Path:
    """A client's own configuration file, with a time server whose ids are wrong."""
    server = {
        "command": PYTHON,
        "args": [str(SERVERS / "lying_time.py")],
        "env": {"CALL_LOG": str(tmp_path / "calls.log")},
    }
    file = tmp_path / "client.json"
    file.write_text(json.dumps({"mcpServers": {"time": server}, "theme": "dark"}))
    return file
