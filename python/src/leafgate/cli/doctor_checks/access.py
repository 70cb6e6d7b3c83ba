"""Checks of who may come in: others only with a token, and tokens only with keys. In: a Config. Out: Findings.

Touches the file or the URL of the signing keys. A running gateway reads them when the first token wants them, which is
late to learn that a path is wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anyio

from leafgate.cli.auth import asks_everybody
from leafgate.cli.doctor_checks.finding import Finding, fail, ok
from leafgate.config.settings import Config
from leafgate.server.auth.jwks_source import KeySource, keys_of_file, keys_of_url
from leafgate.server.host_guard import is_loopback

GROUP: Final = "access"


def check_access(config: Config, *, reach: bool) -> Iterator[Finding]:
    """`reach`: whether the network may be asked."""
    over_http = config.transport in ("http", "sse")
    if over_http and not is_loopback(config.host):
        yield _openness(config)
    jwt = (config.auth or {}).get("jwt")
    if jwt is not None:
        yield from _keys(jwt["jwks"], reach)


def _openness(config: Config) -> Finding:
    if asks_everybody(config.auth):
        return ok(GROUP, config.host, "other machines can reach it, and everybody is asked for a token")
    if config.insecure_bind:
        return ok(GROUP, config.host, "other machines can reach it without a token, as insecure_bind says")
    return fail(
        GROUP,
        config.host,
        "other machines can reach it, and nobody has to have a token: the gateway will not start",
        "configure auth (`leafgate token new NAME` makes a token), or listen on 127.0.0.1",
    )


def _keys(where: str | Path, reach: bool) -> Iterator[Finding]:
    is_url = isinstance(where, str) and "://" in where
    if is_url and not reach:
        return
    source = keys_of_url(str(where)) if is_url else keys_of_file(Path(where))
    heard = _Heard()
    logger = logging.getLogger("leafgate.server")
    logger.addHandler(heard)
    logger.propagate = False
    try:
        count = anyio.run(_count, source)
    finally:
        logger.propagate = True
        logger.removeHandler(heard)
    fix = "correct auth.jwt.jwks, or look at what answers there" if is_url else "correct auth.jwt.jwks, or the file"
    yield ok(GROUP, "signing keys", f"{count} keys") if count else fail(GROUP, "signing keys", heard.said, fix)


async def _count(source: KeySource) -> int:
    return len((await source.keys()).keys)


class _Heard(logging.Handler):
    """What a source of keys says of its trouble: it goes on without keys, and tells the log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.said = record.getMessage()
