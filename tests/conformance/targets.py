"""What the suite is run against, as processes: the reference server itself, or the gateway in front of it.

Out: the URL, while the process runs. Touches: processes, temporary files.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from warm_python import PYTHON

ROOT: Final = Path(__file__).resolve().parents[2]
REFERENCE: Final = ROOT / "tests" / "servers" / "reference_server.py"
LEAFGATE: Final = ROOT / ".venv" / "bin" / "leafgate"
READY_SECONDS: Final = 60
STOP_SECONDS: Final = 15

_URL = re.compile(r"(http://\S+/mcp)\s")


class TargetBroken(Exception):
    """The process ended, or was not ready in time. The message holds what it wrote."""


@contextmanager
def reference_directly() -> Iterator[str]:
    """The reference server, over HTTP."""
    with _listening([PYTHON, str(REFERENCE), "--port", "0"]) as url:
        yield url


@contextmanager
def reference_behind_gateway() -> Iterator[str]:
    """The gateway in passthrough mode, over HTTP; behind it the reference server, over stdio."""
    servers = {"reference": {"command": PYTHON, "args": [str(REFERENCE), "--stdio"]}}
    with tempfile.TemporaryDirectory() as folder:
        # JSON is YAML too. In a file named .json a gateway that knows no modes would pass over the key in silence.
        config = Path(folder) / "passthrough.yaml"
        config.write_text(json.dumps({"mode": "passthrough", "mcpServers": servers}), encoding="utf-8")
        command = [PYTHON, str(LEAFGATE), "serve", "--transport", "http", "--port", "0", "--config", str(config)]
        with _listening(command) as url:
            yield url


@contextmanager
def _listening(command: Sequence[str]) -> Iterator[str]:
    """The URL that this process announces; the process is ended afterwards."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as written:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT)
        try:
            yield _announced(process, written.fileno())
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _announced(process: subprocess.Popen[bytes], written: int) -> str:
    until = time.monotonic() + READY_SECONDS
    while True:
        ended = process.poll()
        text = _read_all(written)
        found = _URL.search(text)
        if found:
            return found.group(1)
        if ended is not None:
            raise TargetBroken(f"the process ended with {ended} before it was ready:\n{text}")
        if time.monotonic() > until:
            raise TargetBroken(f"the process was not ready within {READY_SECONDS} s:\n{text}")
        time.sleep(0.05)


def _read_all(written: int) -> str:
    """All that was written so far. The place where the process writes next is not moved."""
    return os.pread(written, os.fstat(written).st_size, 0).decode("utf-8", "replace")
