"""The way to a Redis server: what fails is told in our words, without secrets, and it is found again."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from redis_server import RedisServer, redis_server
from stores import Time

from leafgate.model.errors import ConfigError, StoreError
from leafgate.state.redis import CALM_SECONDS, PREFIX, RedisLink, public_address

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://ann:hush@db:7000/3", "redis://db:7000/3"),
        ("rediss://:hush@db/0?ssl_ca_certs=x", "rediss://db:6379/0"),
        ("valkey://hush@[::1]:7/1", "valkey://::1:7/1"),
        ("unix://ann:hush@/run/redis.sock?db=1&password=hush", "unix:///run/redis.sock"),
        ("redis://ann:hush@db:port/3", "redis://…"),
        ("redis://[hush", "redis://…"),
        ("redis://:123/hush@db:6379/0", "redis://…"),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, shown: str) -> None:
    assert public_address(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "redis://ann:hush@db:port/3",
        "redis://hush@db/0?socket_timeout=hush",
        "redis://:hush@db/0?no_such_option=hush",
        "redis://:123/hush@db:6379/0",
        "redis://:hush@db/first",
        "valkey://:hush@db/1x",
    ],
)
def test_a_bad_address_is_the_operators_fault(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        RedisLink(url)
    assert "hush" not in str(raised.value)


async def test_nobody_there() -> None:
    link = RedisLink("redis://:hush@127.0.0.1:1/0")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"^redis://127\.0\.0\.1:1/0: not reachable"):
            await link.open()
    await link.close()


async def test_a_wrong_password_and_a_wrong_version(tmp_path: Path) -> None:
    password = secrets.token_hex(8)
    with redis_server(tmp_path) as server:
        link = RedisLink(server.url)
        await link.open()
        await link.script("return redis.call('SET', KEYS[1], '2')")([f"{PREFIX}:version"], [])
        with pytest.raises(StoreError, match="another version"):
            await link.open()
        await link.close()
        server.lock(password)
        for url in (server.url, f"{server.url}?password=wrong-{password}"):
            locked = RedisLink(url)
            with pytest.raises(StoreError, match=r"refuses the name or the password") as raised:
                await locked.open()
            assert password not in str(raised.value)
            await locked.close()


async def test_it_is_found_again_after_a_restart(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        time = Time()
        link = RedisLink(server.url, clock=time)
        echo = link.script("return ARGV[1]")
        assert await echo([], ["a"]) == b"a"
        server.stop()
        with pytest.raises(StoreError, match="not reachable"):
            await echo([], ["b"])
        with pytest.raises(StoreError, match="a moment ago"):
            await echo([], ["b"])
        server.start()
        time.now += CALM_SECONDS
        assert await echo([], ["c"]) == b"c"
        server.stop()
        server.start()  # too quickly for anybody to notice
        assert await echo([], ["d"]) == b"d"
        await link.close()


async def test_a_server_that_does_not_answer_is_waited_for_a_bounded_time(redis: RedisServer) -> None:
    time = Time()
    link = RedisLink(redis.url, answer_seconds=1, clock=time)
    echo = link.script("return ARGV[1]")
    assert await echo([], ["a"]) == b"a"
    with redis.paused(), pytest.raises(StoreError, match="no answer in time"):
        await echo([], ["b"])
    time.now += CALM_SECONDS
    assert await echo([], ["c"]) == b"c"
    await link.close()


async def test_a_full_server_is_told(tmp_path: Path) -> None:
    with redis_server(tmp_path, "--maxmemory", "1kb") as server:
        link = RedisLink(server.url)
        put = link.script("return redis.call('SET', KEYS[1], ARGV[1])")
        with pytest.raises(StoreError, match="memory is full"):
            await put(["more"], [b"x"])
        await link.close()
