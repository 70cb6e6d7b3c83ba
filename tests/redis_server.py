"""A real Redis server for tests: a process of its own, on a socket in a folder, without persistence."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

SECONDS = 20


def redis_program() -> str:
    """Skips with the way to get it where it is missing; with CI=true that is a failure."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is not None:
        return found
    reason = "redis-server is not installed: apt-get install redis-server (or valkey-server)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


class RedisServer:
    """One server, which can be stopped, paused and started again under the same address."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._socket = folder / "redis.sock"
        self._folder = folder
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [redis_program(), "--port", "0", "--unixsocket", str(self._socket), "--save", "", "--appendonly", "no",
             "--dir", str(self._folder), *self._words],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + SECONDS
        while not self._answers():
            assert self._process.poll() is None, "the Redis server ended"
            assert time.monotonic() < deadline, "the Redis server does not come up"
            time.sleep(0.02)

    def stop(self) -> None:
        """At once, as a crash does it."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait(SECONDS)
            self._socket.unlink(missing_ok=True)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It lives, and takes connections, and answers nobody."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def empty(self) -> None:
        with Redis(unix_socket_path=str(self._socket)) as client:
            client.flushall()

    def all_keys(self) -> set[str]:
        with Redis(unix_socket_path=str(self._socket), decode_responses=True) as client:
            return {str(key) for key in client.scan_iter()}

    def key_with(self, part: str) -> str:
        """The one key whose name has this part."""
        (found,) = (key for key in self.all_keys() if part in key)
        return found

    def lock(self, password: str) -> None:
        """Who comes in from now on needs this password."""
        with Redis(unix_socket_path=str(self._socket)) as client:
            client.config_set("requirepass", password)

    def _answers(self) -> bool:
        try:
            with Redis(unix_socket_path=str(self._socket)) as client:
                return bool(client.ping())
        except RedisError:
            return False


@contextmanager
def redis_server(folder: Path, *words: str) -> Iterator[RedisServer]:
    server = RedisServer(folder, *words)
    server.start()
    try:
        yield server
    finally:
        server.stop()
